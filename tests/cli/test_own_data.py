"""``miv data from-folder`` and ``from-table`` as a person meets them: processes, files, trouble."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from miv.data import load_splits
from tests.fence.interface import run_miv

SMALL = ["--exemplars", "40", "--bag-mean", "3", "--bag-max", "5"]


def run(*arguments: str | Path) -> tuple[int, str, str]:
    return run_miv(*map(str, arguments))


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    root = tmp_path / "Фото 写真"
    for number in range(12):
        (root / f"klasse {number} ü").mkdir(parents=True)
        for member in range(6):
            picture = np.full((12, 10), 20 * number + member, dtype=np.uint8)
            Image.fromarray(picture).save(root / f"klasse {number} ü" / f"{member} é.png")
    return root


def content(folder: Path) -> dict[str, str]:
    return {split: exemplars.fingerprint for split, exemplars in load_splits(folder, verify=True).items()}


def assert_one_message(done: tuple[int, str, str], *words: str) -> None:
    code, out, error = done
    assert (code, out) == (1, "")
    assert "Traceback" not in error
    [message] = [line for line in error.splitlines() if line.startswith("Error: ")]
    for word in words:
        assert word in message


def test_a_folder_becomes_sets_that_pass_the_audit(tmp_path: Path, pictures: Path) -> None:
    out = tmp_path / "выход"
    code, printed, error = run("data", "from-folder", pictures, "--out", out, "--size", "8x9", "--json", *SMALL)
    assert code == 0, error
    report = json.loads(printed)
    assert report["folder"] == str(out)
    counts = {split: figures["exemplars"] for split, figures in report["sets"].items()}
    assert counts == {"train": 24, "validation": 8, "test": 8}
    assert report["options"]["drawing"]["bag_mean"] == 3
    sets = load_splits(out, verify=True)
    assert sets["train"].pool.values.shape[1:] == (8, 9)
    assert run("data", "inspect", out, "--strict")[0] == 0


def test_a_table_becomes_sets(tmp_path: Path) -> None:
    table = tmp_path / "täble.csv"
    table.write_text("claim,bag,label\n" + "".join(f"q{row},a{row}|b{row},{row % 2}\n" for row in range(20)))
    out = tmp_path / "out"
    code, printed, error = run(
        "data", "from-table", table, "--out", out, "--query-column", "claim", "--validation", "0.1"
    )
    assert code == 0, error
    assert printed.splitlines()[0].split()[:3] == ["train", "14", "exemplars"]
    assert "split by instances: 14 train, 2 validation, 4 test" in error
    assert {split: len(found) for split, found in load_splits(out).items()} == {"train": 14, "validation": 2, "test": 4}


def test_bad_input_is_one_message_and_the_older_set_stays(tmp_path: Path, pictures: Path) -> None:
    out = tmp_path / "out"
    assert run("data", "from-folder", pictures, "--out", out, *SMALL)[0] == 0
    before = content(out)
    good = json.dumps({"query": "a", "bag": ["b"], "label": 1})
    table = tmp_path / "a.jsonl"
    table.write_text("\n".join([good] * 7311 + ["{" + good] + [good]))
    done = run("data", "from-table", table, "--out", out, "--overwrite")
    assert_one_message(done, "a.jsonl, line 7312", "broken JSON")
    bad = pictures / "klasse 3 ü" / "bad.png"
    bad.write_bytes(b"\x89PNG\r\n\x1a\n")
    done = run("data", "from-folder", pictures, "--out", out, "--overwrite", *SMALL)
    assert_one_message(done, "bad.png")
    assert content(out) == before
    assert [entry.name for entry in tmp_path.iterdir() if ".part" in entry.name] == []

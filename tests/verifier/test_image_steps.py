import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from miv import ExemplarSet, Verifier
from miv.data import load_splits, save_splits
from miv.data.pool import InstanceForm
from miv.data.sources import Drawing, FromFolder, ImageForm, Shares
from miv.errors import MIVError
from miv.runtime import SilentProgress
from miv.tasks.base import create_task
from miv.tasks.signature import find_signatures
from miv.training.config import TrainingConfig
from miv.training.new_verifier import create_verifier
from miv.verifier.table_writing import score_table

SHAPE = {"kind": "image", "height": 16, "width": 32, "mode": "L"}
STEPS = ["otsu", "resize 256x512 stretch lanczos", "resize 16x32 stretch bilinear"]


def scan(rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """A dark line on unevenly grey paper."""
    paper = rng.integers(150, 200, (40, 90)).astype(np.uint8)
    for column in range(90):
        row = int(20 + 15 * np.sin(column / rng.uniform(5, 9)))
        paper[row : row + 3, column] = rng.integers(60, 100)
    return paper


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root, rng = tmp_path_factory.mktemp("raw"), np.random.default_rng(0)
    for writer in range(9):
        for kind in ("genuine", "forged"):
            (root / f"{writer:03}" / kind).mkdir(parents=True)
            for number in range(3):
                Image.fromarray(scan(rng)).save(root / f"{writer:03}" / kind / f"{number}.png")
    return root


@pytest.fixture(scope="module")
def sets(raw: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, ExemplarSet]:
    """The sets of the signature builder, saved and opened again."""
    built = create_task("signature", raw=raw, width=32, height=16, held_out=0.34).build(SilentProgress())
    folder = tmp_path_factory.mktemp("sets")
    save_splits(built, folder, builder="signature", options={}, seed=0)
    return load_splits(folder)


@pytest.fixture(scope="module")
def saved(sets: dict[str, ExemplarSet], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verifier")
    create_verifier(TrainingConfig(backbone="pixels"), sets["train"].pool).save_pretrained(folder)
    return folder


def scans_of(raw: Path, instances: list[Any]) -> list[Path]:
    """The raw file of each instance, found by what the builder makes of it."""
    from miv.tasks.signature import read_signature

    made = {read_signature(file.path, 32, 16).tobytes(): file.path for file in find_signatures(raw)}
    return [made[np.asarray(instance).tobytes()] for instance in instances]


def test_a_raw_scan_gets_the_verdict_of_the_instance_that_the_builder_made(
    raw: Path, sets: dict[str, ExemplarSet], saved: Path, tmp_path: Path
) -> None:
    verifier, exemplars = Verifier.from_pretrained(saved), sets["test"]
    assert json.loads((saved / "config.json").read_text())["instances"] == {**SHAPE, "steps": STEPS}
    instances = exemplars.pool.values
    bag = [instances[i] for i in exemplars.bag(0)]
    query_file, *bag_files = scans_of(raw, [instances[exemplars.query[0]], *bag])
    expected = verifier.verify(instances[exemplars.query[0]], bag)
    assert verifier.verify(query_file, bag_files).probability == expected.probability
    with Image.open(query_file) as picture:
        assert verifier.verify(picture, bag_files).probability == expected.probability
    table = tmp_path / "pairs.csv"
    table.write_text(f"query,bag\n{query_file},{'|'.join(map(str, bag_files))}\n")
    score_table(verifier, table, tmp_path / "out.csv", progress=SilentProgress())
    assert repr(expected.probability) in (tmp_path / "out.csv").read_text()
    # A verifier that does not record the steps takes the grey scan as it is.
    shutil.copytree(saved, tmp_path / "older")
    config = json.loads((saved / "config.json").read_text())
    (tmp_path / "older" / "config.json").write_text(json.dumps({**config, "instances": SHAPE}))
    older = Verifier.from_pretrained(tmp_path / "older")
    assert older.verify(query_file, bag_files, resize="stretch").probability != expected.probability
    with pytest.raises(MIVError, match=r"40 × 90 grey pixels\. The verifier was trained on 16 × 32 grey"):
        older.verify(query_file, bag_files)


def test_another_resize_than_in_training_prints_a_warning(
    raw: Path, saved: Path, caplog: pytest.LogCaptureFixture
) -> None:
    verifier, files = Verifier.from_pretrained(saved), sorted((raw / "000" / "genuine").iterdir())
    verifier.verify(files[0], files[1:], resize="stretch")
    assert caplog.text == ""
    verifier.verify(files[0], files[1:], resize="crop")
    assert "resize is 'crop', but the verifier was trained on images made by: otsu, resize" in caplog.text


def test_from_folder_records_what_it_does_to_files(raw: Path) -> None:
    form = ImageForm((16, 32), fit="pad", binarise=True, invert=True)
    source = FromFolder(raw, form, Drawing(200, 3, 2, 4), Shares(0, 0), split_by="parent")
    pool = source.build(SilentProgress())["train"].pool
    assert pool.image_steps == ("otsu", "invert", "resize 16x32 pad bilinear")
    found = InstanceForm.of(pool)
    assert found is not None
    verifier = Verifier("baseline", "pixels", instances=found.document())
    files = sorted((raw / "000" / "genuine").iterdir())
    read = verifier.verify(files[0], files).shown
    assert read is not None
    assert {image.tobytes() for image in read.pool.values} <= {image.tobytes() for image in pool.values}
    with pytest.raises(MIVError, match="cannot be in colour and binarised"):
        ImageForm(colour=True, binarise=True)


@pytest.mark.parametrize("steps", ["otsu", ["sharpen"], ["resize 0x8 stretch bilinear"], ["otsu"] * 17, [["otsu"]]])
def test_a_config_with_other_steps_is_refused(steps: Any) -> None:
    with pytest.raises(MIVError, match="Expected a list of at most 16 of otsu"):
        Verifier("baseline", "pixels", instances={**SHAPE, "steps": steps})

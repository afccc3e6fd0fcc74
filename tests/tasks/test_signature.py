from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from miv.data import ExemplarSet
from miv.errors import MIVError
from miv.runtime import SilentProgress
from miv.tasks.base import create_task
from miv.tasks.signature import find_signatures, read_signature
from miv.tasks.signatures_twin import Signer

TRAINING = "trainingSet/OfflineSignatures/{}/TrainingSet"
TEST = "Testdata_SigComp2011/SigComp11-Offlinetestset/{}"


def save(path: Path, image: np.ndarray) -> None:
    """Save ink as a scan: in colour, on greyish paper."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scan = np.stack([60 + image // 255 * 180, 60 + image // 255 * 175, 90 + image // 255 * 140], axis=-1)
    Image.fromarray(scan.astype(np.uint8)).resize((150, 70)).save(path)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SigComp2011 as its archives unpack: 9 Dutch and 5 Chinese writers, 3 genuine and 2 forged each."""
    root = tmp_path_factory.mktemp("sigcomp")
    rng = np.random.default_rng(0)
    for script, kind, training, test in (("Dutch", "joined", 4, 5), ("Chinese", "separate", 3, 2)):
        for number in range(1, training + test + 1):
            signer, forger = Signer.draw(kind, rng), Signer.draw(kind, rng)
            genuine = signer.sign(3, 32, 1.0, rng)
            forged = signer.sign(2, 32, 1.0, rng, forger)
            if number <= training:
                folder = root / TRAINING.format(script)
                for i, image in enumerate(genuine, start=1):
                    save(folder / "Offline Genuine" / f"{number:03d}_{i:02d}.PNG", image)
                for i, image in enumerate(forged, start=1):
                    save(folder / "Offline Forgeries" / f"01{i:02d}{number:03d}_{i}.png", image)
            else:
                folder = root / TEST.format(script)
                reference = "Reference(646)" if script == "Dutch" else "Ref(115)"
                questioned = "Questioned(1287)" if script == "Dutch" else "Questioned(487)"
                for i, image in enumerate(genuine[:2], start=1):
                    save(folder / reference / f"{number:03d}" / f"{i:02d}_{number:03d}.PNG", image)
                save(folder / questioned / f"{number:03d}" / f"03_{number:03d}.png", genuine[2])
                for i, image in enumerate(forged, start=1):
                    save(folder / questioned / f"{number:03d}" / f"{i:02d}_01{i:02d}{number:03d}.PNG", image)
    (root / "trainingSet" / "readme.txt").write_text("not an image")
    (root / "__MACOSX").mkdir()
    (root / "__MACOSX" / "._001_01.PNG").write_bytes(b"not an image either")
    return root


def build(raw: Path, **options: object) -> dict[str, ExemplarSet]:
    return create_task("signature", raw=raw, **options).build(SilentProgress())


def test_every_file_of_the_official_layout_is_understood(archive: Path) -> None:
    files = find_signatures(archive)
    assert len(files) == 14 * 5
    for script, writers in (("dutch", 9), ("chinese", 5)):
        for number in range(1, writers + 1):
            mine = [f for f in files if (f.script, f.writer) == (script, f"{number:03d}")]
            assert sorted(f.forged for f in mine) == [False] * 3 + [True] * 2


def test_end_to_end(archive: Path) -> None:
    sets = build(archive, width=64, height=32, held_out=0.25)
    assert list(sets) == ["train", "validation", "test"]
    writers = {}
    for split, exemplars in sets.items():
        assert exemplars.pool.values.shape[1:] == (32, 64)
        assert exemplars.pool.classes is not None
        writers[split] = {name.removesuffix("/forged") for name in exemplars.pool.classes}
        assert {name.split("/")[0] for name in writers[split]} == {"dutch", "chinese"}
        # 3 genuine, 2 forged: three queries, two anchors each, both labels
        assert len(exemplars) == len(writers[split]) * 3 * 2 * 2
    assert len(writers["validation"]) == len(writers["test"]) == 2 + 1
    assert sum(map(len, writers.values())) == len(set.union(*writers.values())) == 14


def test_the_seed_and_the_round_decide(archive: Path) -> None:
    options = {"width": 16, "height": 8, "held_out": 0.25}
    first, again = build(archive, **options), build(archive, **options)
    other = build(archive, **options, round=1)
    assert {split: s.fingerprint for split, s in first.items()} == {s: e.fingerprint for s, e in again.items()}
    assert first["train"].fingerprint != other["train"].fingerprint


def test_caps(archive: Path) -> None:
    sets = build(archive, width=16, height=8, held_out=0.25, anchors_per_query=1, exemplars=5)
    assert len(sets["train"]) == 5
    assert len(sets["test"]) == 3 * 3 * 1 * 2


def test_images_become_black_ink_on_white_paper(archive: Path) -> None:
    path = archive / TRAINING.format("Dutch") / "Offline Genuine" / "001_01.PNG"
    image = read_signature(path, 256, 128)
    assert image.shape == (128, 256)
    assert 0.5 < (image > 250).mean() < 0.98  # paper
    assert (image < 5).mean() > 0.005  # ink


def test_any_folder_of_writers(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for number in range(9):
        signer = Signer.draw("joined", rng)
        for kind, count in (("Genuine", 3), ("forged", 2)):
            for i, image in enumerate(signer.sign(count, 16, 1.0, rng)):
                save(tmp_path / f"Žofie {number}" / kind / f"scan {i}.png", image)
    sets = build(tmp_path, width=32, height=16, held_out=0.34)
    assert sum(len({*s.pool.classes}) for s in sets.values() if s.pool.classes is not None) == 18
    assert sets["train"].group is not None
    assert set(sets["train"].group) == {""}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Dutch/Offline Genuine/0102001_01.png", "name says it is a forged signature"),
        ("Dutch/Offline Forgeries/001_01.png", "name says it is a genuine signature"),
        ("Dutch/Offline Genuine/holiday.png", "nor named as in SigComp2011"),
        ("Dutch/Offline Genuine/1_2.png", "three digits of the writer"),
        ("Danish/Offline Genuine/001_01.png", "nor named as in SigComp2011"),
        ("Dutch/Offline Forgeries/0102009_01.png", "a forgery of writer '009', who has no genuine"),
        ("genuine/a.png", "no writer folder above"),
    ],
)
def test_files_that_cannot_be_placed_are_named(tmp_path: Path, name: str, message: str) -> None:
    save(tmp_path / name, np.zeros((8, 16), np.uint8))
    with pytest.raises(MIVError, match=message) as error:
        find_signatures(tmp_path)
    assert Path(name).name in str(error.value)


def test_a_missing_and_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(MIVError, match=r"is not a folder\. Expected the unpacked archives of SigComp2011"):
        build(tmp_path / "nowhere")
    with pytest.raises(MIVError, match="contains no images"):
        build(tmp_path)


def test_too_few_writers_for_three_splits(archive: Path) -> None:
    with pytest.raises(MIVError, match="of 14 writers, 2 would be in validation"):
        build(archive)


def test_a_damaged_image_is_named(tmp_path: Path, archive: Path) -> None:
    for number in range(9):
        for i in range(2):
            save(tmp_path / str(number) / "genuine" / f"{i}.png", np.zeros((8, 16), np.uint8))
    whole = (tmp_path / "3" / "genuine" / "1.png").read_bytes()
    (tmp_path / "3" / "genuine" / "1.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(MIVError, match=r"3/genuine/1\.png"):
        build(tmp_path, held_out=0.34)


@pytest.mark.parametrize(
    "options", [{"width": 0}, {"held_out": 0.0}, {"held_out": 0.6}, {"exemplars": 0}, {"seed": -1}]
)
def test_impossible_options(tmp_path: Path, options: dict[str, object]) -> None:
    with pytest.raises(MIVError, match=f"{next(iter(options))} is "):
        build(tmp_path, **options)

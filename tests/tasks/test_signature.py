from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image

from miv.data import ExemplarSet, InstancePool
from miv.errors import MIVError
from miv.runtime import SilentProgress
from miv.tasks.base import create_task
from miv.tasks.signature import Writer, draw_exemplars, find_signatures, read_signature

TRAINING = "trainingSet/OfflineSignatures/{}/TrainingSet"
TEST = "Testdata_SigComp2011/SigComp11-Offlinetestset/{}"


def save(path: Path, image: np.ndarray) -> None:
    """Save ink as a scan: in colour, on greyish paper."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scan = np.stack([60 + image // 255 * 180, 60 + image // 255 * 175, 90 + image // 255 * 140], axis=-1)
    Image.fromarray(scan.astype(np.uint8)).resize((150, 70)).save(path)


def sign(count: int, height: int, rng: np.random.Generator) -> np.ndarray:
    """Return ``(N, H, 2 H)``: a black stroke up and down across white paper."""
    images = np.full((count, height, 2 * height), 255, np.uint8)
    for image in images:
        image[rng.integers(2, height - 2, 2 * height), np.arange(2 * height)] = 0
    return images


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SigComp2011 as its archives unpack: 9 Dutch and 5 Chinese writers, 3 genuine and 2 forged each."""
    root = tmp_path_factory.mktemp("sigcomp")
    rng = np.random.default_rng(0)
    for script, training, test in (("Dutch", 4, 5), ("Chinese", 3, 2)):
        for number in range(1, training + test + 1):
            genuine, forged = sign(3, 32, rng), sign(2, 32, rng)
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
        writers[split] = {name.removesuffix("/forged") for name in exemplars.pool.classes}
        assert {name.split("/")[0] for name in writers[split]} == {"dutch", "chinese"}
        # 3 genuine, 2 forged: three queries, two anchors each, both labels
        assert len(exemplars) == len(writers[split]) * 3 * 2 * 2
    assert len(writers["validation"]) == len(writers["test"]) == 2 + 1
    assert sum(map(len, writers.values())) == len(set.union(*writers.values())) == 14


def test_images_become_black_ink_on_white_paper(archive: Path) -> None:
    path = archive / TRAINING.format("Dutch") / "Offline Genuine" / "001_01.PNG"
    image = read_signature(path, 256, 128)
    assert image.shape == (128, 256)
    assert 0.5 < (image > 250).mean() < 0.98  # paper
    assert (image < 5).mean() > 0.005  # ink


def test_any_folder_of_writers(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for number in range(9):
        for kind, count in (("Genuine", 3), ("forged", 2)):
            for i, image in enumerate(sign(count, 16, rng)):
                save(tmp_path / f"Žofie {number}" / kind / f"scan {i}.png", image)
    sets = build(tmp_path, width=32, height=16, held_out=0.34)
    assert sum(len({*s.pool.classes}) for s in sets.values() if s.pool.classes is not None) == 18
    assert set(sets["train"].group) == {""}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Dutch/Offline Genuine/0102001_01.png", "name says it is a forged signature"),
        ("Dutch/Offline Forgeries/001_01.png", "name says it is a genuine signature"),
        ("Dutch/Offline Genuine/holiday.png", "nor named as in SigComp2011"),
        ("Dutch/Offline Genuine/1_2.png", "three digits of the writer"),
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
    with pytest.raises(MIVError, match=r"is not a folder\. Expected SigComp2011"):
        build(tmp_path / "nowhere")
    with pytest.raises(MIVError, match="contains no images"):
        build(tmp_path)


def test_too_few_writers_for_three_splits(archive: Path) -> None:
    with pytest.raises(MIVError, match="of 14 writers, 2 would be in validation"):
        build(archive)


# How exemplars are drawn.


def people(counts: list[tuple[str, int, int]]) -> list[Writer]:
    """Writers of (script, number of genuine, number of forged), their images one after the other."""
    writers, place = [], 0
    for script, genuine, forged in counts:
        middle = place + genuine
        writers.append(Writer(script, list(range(place, middle)), list(range(middle, middle + forged))))
        place = middle + forged
    return writers


def draw(writers: list[Writer], anchors_per_query: int = 0, seed: int = 0) -> ExemplarSet:
    images = sum(len(writer.genuine) + len(writer.forged) for writer in writers)
    pool = InstancePool("image", np.zeros((images, 1, 1), np.uint8))
    return draw_exemplars(pool, writers, anchors_per_query, np.random.default_rng(seed))


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.sampled_from(["dutch", "chinese"]), st.integers(2, 4), st.integers(0, 5)), min_size=3, max_size=9
    ),
    st.integers(0, 2),
    st.integers(0, 99),
)
def test_the_rules_of_the_task(counts: list[tuple[str, int, int]], anchors: int, seed: int) -> None:
    writers = people(counts)
    exemplars = draw(writers, anchors, seed)
    owner = {image: i for i, writer in enumerate(writers) for image in writer.genuine}
    victim = {image: i for i, writer in enumerate(writers) for image in writer.forged}
    expected = sum(max(g, f) * 2 * (min(anchors, g - 1) if anchors else g - 1) for _, g, f in counts)
    assert len(exemplars) == expected
    assert exemplars.label.mean() == 0.5
    for e in range(len(exemplars)):
        query, bag, witness = int(exemplars.query[e]), exemplars.bag(e).tolist(), exemplars.bag_witness(e)
        assert 2 <= len(bag) <= 8
        assert len(set(bag)) == len(bag)
        assert query not in bag
        assert set(bag) <= set(owner)  # anchors are genuine
        if exemplars.label[e]:
            assert witness.tolist() == [owner[image] == owner[query] for image in bag]
            assert 1 <= witness.sum() <= 2
        else:
            assert not witness.any()
            if query in victim:
                assert victim[query] in {owner[image] for image in bag}
            else:
                assert owner[query] not in {owner[image] for image in bag}


def test_too_few_writers_are_refused() -> None:
    with pytest.raises(MIVError, match=r"Got 2 writers\. Expected at least 3"):
        draw(people([("dutch", 3, 0), ("dutch", 3, 0)]))
    with pytest.raises(MIVError, match="two genuine"):
        draw(people([("dutch", 1, 3)] * 5))


# The Dutch signatures of a public repository, arranged as the task reads them.

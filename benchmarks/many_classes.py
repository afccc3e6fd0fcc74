"""Sets of many classes for the ablation: characters, writers, signers and sentences. No class is in two splits."""

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import plain_sets
from benchmarks.signatures_twin import Signer
from numpy.typing import NDArray
from PIL import Image

from miv.backbones import create_backbone
from miv.data import SPLITS, ExemplarSet, InstancePool
from miv.data.sources.drawing import Drawing
from miv.data.splits import Shares, split_names
from miv.runtime import SilentProgress

Sets = dict[str, ExemplarSet]
SIZES = (2_000, 4_000)
TEST = 2_000
_SHARES = Shares(validation=1 / 8, test=1 / 4)


def omniglot_background(size: int, seed: int, data: Path, cache: Path) -> Sets:
    """Characters of 30 alphabets as gradient histograms."""
    return _characters("images_background", size, seed, data, cache)


def omniglot_evaluation(size: int, seed: int, data: Path, cache: Path) -> Sets:
    """Characters of the 20 other alphabets."""
    return _characters("images_evaluation", size, seed, data, cache)


def omniglot_pixels(size: int, seed: int, data: Path, cache: Path) -> Sets:
    """All characters as 256 pixels; whole alphabets are held out."""
    images, classes = plain_sets.read_omniglot(data / "omniglot")
    small = np.stack([np.asarray(Image.fromarray(one).resize((16, 16), Image.Resampling.BOX)) for one in images])
    pool = InstancePool("features", 1 - small.reshape(len(small), -1).astype(np.float32) / 255, classes)
    return _drawn(pool, [str(name).split("/")[0] for name in classes], size, seed)


def qmnist_hog(size: int, seed: int, data: Path, cache: Path) -> Sets:
    """Digits of 539 writers as gradient histograms."""
    sets = plain_sets.as_vectors(plain_sets.qmnist(data, seed), create_backbone("hog"), cache)
    return _cut(sets, size, seed)


def signatures(size: int, seed: int, data: Path, cache: Path) -> Sets:
    """Ten invented signatures of each of 600 signers as gradient histograms."""
    random = np.random.default_rng([seed, 81])
    scripts = [("joined", "separate")[number % 4 == 3] for number in range(600)]
    signed = [Signer.draw(script, random).sign(10, 32, 3.0, random) for script in scripts]
    names = np.repeat([f"signer {number}" for number in range(600)], 10).astype(object)
    sets = _drawn(InstancePool("image", np.concatenate(signed), names), names, size, seed)
    return plain_sets.as_vectors(sets, create_backbone("hog"), cache)


def fever_evidence(size: int, seed: int, data: Path, cache: Path) -> Sets:
    """Claims and their evidence as vectors of MiniLM."""
    sets = plain_sets.as_vectors(plain_sets.fever_evidence(data, seed), create_backbone("hf:minilm"), cache)
    return _cut(sets, size, seed)


def snli_premises(size: int, seed: int, data: Path, cache: Path) -> Sets:
    """Hypotheses; is the premise that entails one among these? Vectors of MiniLM."""
    with gzip.open(data / "nli" / "train.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [row for row in map(json.loads, file) if row["label"] == "entailment"]
    pairs = list({row["premise"]: row["hypothesis"] for row in rows}.items())[:9_000]
    texts = np.array([text for pair in pairs for text in pair], object)  # premise, hypothesis, premise, …
    pool = InstancePool("text", texts)
    random, sets = np.random.default_rng([seed, 83]), {}
    parts = np.split(random.permutation(len(pairs)), [6_000, 7_000])
    for split, part, count in zip(SPLITS, parts, (size, size // 4, TEST), strict=True):
        bags, labels = [], np.arange(count) % 2
        for pair, label in zip(part[:count], labels, strict=True):
            others = random.choice(part[part != pair], 10, replace=False)
            bags.append(2 * np.append(others[1:], pair if label else others[0]))
        witness = [np.append(np.zeros(9, bool), bool(label)) for label in labels]
        sets[split] = ExemplarSet.from_lists(pool, (2 * part[:count] + 1).tolist(), bags, labels.tolist(), witness)
    return plain_sets.as_vectors(sets, create_backbone("hf:minilm"), cache)


def chimpanzees(size: int, seed: int, data: Path, cache: Path, backbone: str = "hog_colour") -> Sets:
    """Faces of 78 chimpanzees (github.com/cvjena/chimpanzee_faces), by gradients and colours."""
    faces = data / "chimpanzee_faces" / "datasets_cropped_chimpanzee_faces" / "data_CTai"
    rows = [line.split() for line in (faces / "annotations_ctai.txt").read_text(encoding="utf-8").splitlines()]
    images = [Image.open(faces / row[row.index("Filename") + 1]).convert("RGB").resize((96, 96)) for row in rows]
    names = np.array([row[row.index("Name") + 1] for row in rows], object)
    sets = _drawn(InstancePool("image", np.stack([np.asarray(image) for image in images]), names), names, size, seed)
    return plain_sets.as_vectors(sets, create_backbone(backbone), cache)


SETS: Mapping[str, Callable[[int, int, Path, Path], Sets]] = {
    "omniglot-background": omniglot_background,
    "signatures": signatures,
    "omniglot-pixels": omniglot_pixels,
    "qmnist-hog": qmnist_hog,
    "omniglot-evaluation": omniglot_evaluation,
    "chimpanzees": chimpanzees,
    "chimpanzees-efficientnet": partial(chimpanzees, backbone="efficientnet"),
    "snli-premises": snli_premises,
    "fever-evidence": fever_evidence,
}


def _characters(archive: str, size: int, seed: int, data: Path, cache: Path) -> Sets:
    images, classes = plain_sets.read_omniglot(data / "omniglot", (archive,))
    sets = _drawn(InstancePool("image", images, classes), classes, size, seed)
    return plain_sets.as_vectors(sets, create_backbone("hog"), cache)


def _drawn(pool: InstancePool, units: Sequence[Any] | NDArray[np.object_], size: int, seed: int) -> Sets:
    """Exemplars of the classes of a pool; ``units`` (of classes) are not divided between splits."""
    assert pool.classes is not None
    members: dict[str, NDArray[np.int64]] = {
        str(name): np.flatnonzero(pool.classes == name) for name in dict.fromkeys(pool.classes)
    }
    unit_of = dict(zip(map(str, pool.classes), map(str, units), strict=True))
    random = np.random.default_rng([seed, 82])
    sets = {}
    for split, names in split_names(sorted(set(unit_of.values())), _SHARES, random, "classes").items():
        count = {"train": size, "validation": size // 4, "test": TEST}[split]
        chosen = {name: rows for name, rows in members.items() if unit_of[name] in names}
        sets[split] = Drawing(exemplars=count).draw(pool, chosen, count, random, SilentProgress(), split).compact()
    return sets


def _cut(sets: Sets, size: int, seed: int) -> Sets:
    counts, random = {"train": size, "validation": size // 4, "test": TEST}, np.random.default_rng([seed, 7])
    return {
        split: exemplars.subset(np.sort(random.permutation(len(exemplars))[: counts[split]]))
        for split, exemplars in sets.items()
    }

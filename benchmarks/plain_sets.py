"""Sets for measuring `miv train`: real data and twins, each in several sizes and draws."""

import zipfile
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from miv.backbones import create_backbone
from miv.backbones.cache import embed_pool
from miv.data import SPLITS, ExemplarSet, InstancePool
from miv.data.sources.drawing import Drawing
from miv.data.splits import Shares, split_names
from miv.runtime import SilentProgress
from miv.tasks import create_task
from miv.verifier.network import Verifier

Sets = dict[str, ExemplarSet]

OMNIGLOT_EXEMPLARS = 9_000  # in all; two thirds are train
OMNIGLOT_SIDE = 32


def qmnist(data: Path, seed: int) -> Sets:
    """Is one of these digits by the writer of the query? Images."""
    return create_task("qmnist", raw=data / "qmnist", round=seed).build(SilentProgress())


def qmnist_vectors(data: Path, seed: int, cache: Path) -> Sets:
    """The same as the features of the shipped verifier ``miv/digits``."""
    return as_vectors(qmnist(data, seed), Verifier.from_pretrained("miv/digits").backbone, cache)


def omniglot(data: Path, seed: int) -> Sets:
    """Is one of these characters the query's? Images of 1,623 characters; no character is in two splits."""
    images, classes = read_omniglot(data / "omniglot")
    pool = InstancePool("image", images, classes)
    shares = Shares(validation=1 / 9, test=2 / 9)
    random = [np.random.default_rng([seed, number]) for number in range(4)]
    members: dict[str, NDArray[np.int64]] = {
        str(name): np.flatnonzero(classes == name) for name in dict.fromkeys(classes)
    }
    sets = {}
    for split, names in split_names(sorted(members), shares, random[3], "classes").items():
        count = round(OMNIGLOT_EXEMPLARS * shares.by_split()[split])
        chosen = {name: members[name] for name in names}
        draw = Drawing(exemplars=OMNIGLOT_EXEMPLARS).draw
        sets[split] = draw(pool, chosen, count, random[SPLITS.index(split)], SilentProgress(), split).compact()
    return sets


def omniglot_vectors(data: Path, seed: int, cache: Path) -> Sets:
    """The same as histograms of oriented gradients."""
    return as_vectors(omniglot(data, seed), create_backbone("hog"), cache)


def fever_verdicts(data: Path, seed: int) -> Sets:
    """Do these sentences support the claim, or refute it? Texts; the splits are given, so seeds differ in training."""
    task = create_task("claims", raw=data / "fever-dev", validation_file="validation.jsonl", page_field="", round=seed)
    return task.build(SilentProgress())


def fever_evidence(data: Path, seed: int) -> Sets:
    """Is the claim's evidence among these sentences? Texts."""
    options = {"raw": data / "fever-dev", "validation_file": "validation.jsonl", "page_field": "", "round": seed}
    return evidence(options, seed)


def fm2_evidence(data: Path, seed: int) -> Sets:
    """The same on Fool Me Twice."""
    return evidence({"raw": data / "fm2", "train_file": "dev.jsonl", "missing_gold": "add", "round": seed}, seed)


def digits_twin(data: Path, seed: int) -> Sets:
    return create_task("digits-twin", seed=seed).build(SilentProgress())


def of_signatures_twin(data: Path, seed: int) -> Sets:
    import signatures_twin as signatures_twin  # type: ignore[import-not-found]  # registers the task

    return create_task("signatures-twin", seed=seed).build(SilentProgress())


def of_claims_twin(data: Path, seed: int) -> Sets:
    from claims_twin import SyntheticClaims  # type: ignore[import-not-found]

    return dict(SyntheticClaims(seed=seed).build(SilentProgress()))


WITHOUT_CACHE: Mapping[str, Callable[[Path, int], Sets]] = {
    "qmnist": qmnist,
    "omniglot": omniglot,
    "fever-verdicts": fever_verdicts,
    "fever-evidence": fever_evidence,
    "fm2-evidence": fm2_evidence,
    "digits-twin": digits_twin,
    "signatures-twin": of_signatures_twin,
    "claims-twin": of_claims_twin,
}
WITH_CACHE: Mapping[str, Callable[[Path, int, Path], Sets]] = {
    "qmnist-vectors": qmnist_vectors,
    "omniglot-vectors": omniglot_vectors,
}
NAMES = (*WITHOUT_CACHE, *WITH_CACHE)


def build(name: str, data: Path, seed: int, size: int | None, cache: Path) -> Sets:
    """The splits of a set with ``size`` exemplars in train (all of them where it is ``None``).

    A person with few train exemplars has few to validate with: validation is a quarter of train, and at least 50
    exemplars. Test is whole, as it is what measures.
    """
    sets = WITHOUT_CACHE[name](data, seed) if name in WITHOUT_CACHE else WITH_CACHE[name](data, seed, cache)
    random = np.random.default_rng([seed, 7])
    if size is not None and size < len(sets["train"]):
        sets["train"] = _some(sets["train"], size, random)
        sets["validation"] = _some(sets["validation"], max(50, size // 4), random)
    return sets


def as_vectors(sets: Sets, backbone: object, cache: Path) -> Sets:
    """The same exemplars over the features of a backbone."""
    changed = {}
    for split, exemplars in sets.items():
        features = np.array(embed_pool(backbone, exemplars.pool, cache))  # type: ignore[arg-type]
        pool = InstancePool("features", features, exemplars.pool.classes)
        parts = (exemplars.query, exemplars.bag_ptr, exemplars.bag_index, exemplars.label)
        changed[split] = ExemplarSet(pool, *parts, exemplars.witness, exemplars.group)
    return changed


def evidence(options: dict[str, Any], seed: int) -> Sets:
    """Claims asked whether their evidence is in the bag: every second bag has lost it.

    A bag has as many sentences as it had distractors, with its evidence or without: where evidence stays, as many
    distractors leave at random. So neither the size nor the claim's truth says anything of the label.
    """
    # The task marks evidence only of supported claims, so refuted ones are read as supported, too.
    by_truth = [create_task("claims", **options, supports=yes, refutes=no).build(SilentProgress()) for yes, no in _BOTH]
    return {
        split: _without_evidence(by_truth[0][split], by_truth[1][split], np.random.default_rng([seed, number]))
        for number, split in enumerate(SPLITS)
    }


_BOTH = (("SUPPORTS", "REFUTES"), ("REFUTES", "SUPPORTS"))


def _without_evidence(supported: ExemplarSet, refuted: ExemplarSet, random: np.random.Generator) -> ExemplarSet:
    """Both are the same claims over the same pool; each marks the evidence of its own half."""
    assert supported.witness is not None
    assert refuted.witness is not None
    is_gold = supported.witness | refuted.witness
    queries, bags, witnesses = [], [], []
    labels: list[int] = []
    for exemplar in range(len(supported)):
        members = slice(*supported.bag_ptr[exemplar : exemplar + 2])
        bag, gold = supported.bag_index[members], is_gold[members]
        if not gold.any() or (~gold).sum() <= gold.sum():
            continue
        label = len(labels) % 2
        rest = random.permutation(bag[~gold])
        kept = np.concatenate([bag[gold], rest[gold.sum() :]]) if label else rest
        order = random.permutation(len(kept))
        queries.append(int(supported.query[exemplar]))
        bags.append(kept[order])
        witnesses.append((order < gold.sum()) & bool(label))
        labels.append(label)
    return ExemplarSet.from_lists(supported.pool, queries, bags, labels, witnesses)


def _some(exemplars: ExemplarSet, count: int, random: np.random.Generator) -> ExemplarSet:
    if count >= len(exemplars):
        return exemplars
    # The pool stays whole, so that its features are computed once for all sizes.
    return exemplars.subset(np.sort(random.permutation(len(exemplars))[:count]))


def read_omniglot(
    folder: Path, archives: Sequence[str] = ("images_background", "images_evaluation")
) -> tuple[NDArray[np.uint8], NDArray[np.object_]]:
    """All images, and the alphabet and character of each, joined by a slash."""
    images, classes = [], []
    for name in archives:
        with zipfile.ZipFile(folder / f"{name}.zip") as archive:
            for member in sorted(archive.namelist()):
                if member.endswith(".png"):
                    image = Image.open(BytesIO(archive.read(member))).convert("L")
                    images.append(np.asarray(image.resize((OMNIGLOT_SIDE, OMNIGLOT_SIDE), Image.Resampling.BOX)))
                    classes.append("/".join(member.split("/")[1:3]))
    return np.stack(images), np.array(classes, dtype=object)

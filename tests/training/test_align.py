"""A map of frozen features: learned where it helps, and left alone where it does not."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from miv import Verifier
from miv.data import ExemplarSet, InstancePool
from miv.evaluation import auroc
from miv.evaluation.cosines import cosines
from miv.poolings.similar import AlignedNorm
from miv.training.run import Machine, train
from miv.training.start import fit_start
from tests.training.test_pilot import SIMILAR
from tests.training.tiny import FEATURES, rows

CLASSES, INSTANCES, CHANNELS = 40, 600, 24
ALIGNED: dict[str, Any] = {
    **SIMILAR,
    "align_epochs": 12,
    "align_learning_rate": 1e-2,
    "contrast_batch_size": 16,
    "pull": 0.0,
}


def hidden(split: int, nuisance: float, signal: float = 1.0) -> ExemplarSet:
    """Classes are told by the first eight channels; the others are noise of a strength of its own."""
    random = np.random.default_rng(split)
    centres = np.random.default_rng(100 + split).normal(size=(CLASSES, 8))  # other classes in every split
    classes = np.arange(INSTANCES) % CLASSES
    values = np.concatenate(
        [
            signal * centres[classes] + 0.3 * random.normal(size=(INSTANCES, 8)),
            nuisance * random.normal(size=(INSTANCES, CHANNELS - 8)),
        ],
        axis=1,
    )
    queries, bags, labels = [], [], []
    for number in range(400):
        query = int(random.integers(INSTANCES))
        others = random.permutation(np.flatnonzero(classes != classes[query]))[:5]
        own = random.permutation(np.flatnonzero((classes == classes[query]) & (np.arange(INSTANCES) != query)))[:1]
        queries.append(query)
        bags.append(np.concatenate([others[1:], own if number % 2 else others[:1]]))
        labels.append(number % 2)
    return ExemplarSet.from_lists(InstancePool("features", values.astype(np.float32)), queries, bags, labels)


def aligned(tmp_path: Path, sets: dict[str, ExemplarSet], **changes: Any) -> Verifier:
    config = FEATURES.changed({**ALIGNED, **changes})
    train(sets, config, tmp_path / "run", Machine(tmp_path / "cache", quiet=True))
    return Verifier.from_pretrained(tmp_path / "run" / "checkpoints" / "align" / "best")


def nearest(exemplars: ExemplarSet, verifier: Verifier | None = None) -> float:
    values = exemplars.pool.values
    if verifier is not None:
        assert isinstance(verifier.pooling.norm, AlignedNorm)
        with torch.inference_mode():
            values = verifier.pooling.norm.direction(torch.from_numpy(values)).numpy()
    return auroc(exemplars.label, cosines(exemplars, values).nearest)


def test_a_map_finds_classes_under_strong_nuisance(tmp_path: Path) -> None:
    sets = {split: hidden(number, nuisance=1.3) for number, split in enumerate(("train", "validation", "test"))}
    verifier = aligned(tmp_path, sets, pooling="baseline")
    assert nearest(sets["test"], verifier) > nearest(sets["test"]) + 0.1  # on classes that it has never seen
    found = json.loads((tmp_path / "run" / "evaluation.json").read_text())["test"]["classification"]["auroc"]
    assert found > nearest(sets["test"]) + 0.1


def test_where_no_map_helps_that_of_the_start_is_kept(tmp_path: Path) -> None:
    """Positive bags of train hold one of another class than the query's: what is learned there is wrong elsewhere."""
    sets = {split: hidden(number, nuisance=0.3) for number, split in enumerate(("train", "validation", "test"))}
    given = sets["train"]
    random = np.random.default_rng(0)
    pool = InstancePool("features", random.permutation(given.pool.values))  # nothing in common with validation
    sets["train"] = ExemplarSet(pool, given.query, given.bag_ptr, given.bag_index, given.label)
    verifier = aligned(tmp_path, sets)
    start = Verifier("cap_dba_l2", channels=CHANNELS)
    known = {split: one.pool.values for split, one in sets.items()}
    fit_start(start, sets, known, FEATURES.seed, only_scale=False, with_head=False)
    assert isinstance(verifier.pooling.norm, AlignedNorm)
    assert isinstance(start.pooling.norm, AlignedNorm)
    assert torch.equal(verifier.pooling.norm.map, start.pooling.norm.map)
    state = torch.load(tmp_path / "run/checkpoints/align/last.ckpt", weights_only=True)["stage"]
    assert max(row["validation_auroc"] for row in state["history"]) <= state["start"]["validation_auroc"]


def test_it_moves_the_map_and_nothing_else_and_the_next_stage_does_not(tmp_path: Path) -> None:
    sets = {split: hidden(number, nuisance=1.3) for number, split in enumerate(("train", "validation", "test"))}
    verifier = aligned(tmp_path, sets, align_epochs=2)
    fitted = {"norm.centre", "norm.map", "sharpness", "similarity.scale", "similarity.intercept"}
    torch.manual_seed(0)
    fresh = Verifier("cap_dba_l2", channels=CHANNELS, pooling_options={"heads": 1})
    before, after = fresh.state_dict(), verifier.state_dict()
    moved = {name for name, weight in after.items() if not torch.equal(weight, before[name])}
    assert "pooling.norm.map" in moved
    assert moved <= {f"pooling.{name}" for name in fitted}
    final = Verifier.from_pretrained(tmp_path / "run").state_dict()
    assert torch.equal(final["pooling.norm.map"], after["pooling.norm.map"])
    assert [row["stage"] for row in rows(tmp_path / "run")][:3] == ["align", "align", "frozen"]


@pytest.mark.filterwarnings("ignore:The verifier is no better than chance")
def test_a_gain_that_may_be_chance_is_not_kept(tmp_path: Path) -> None:
    splits = enumerate(("train", "validation", "test"))
    sets = {split: hidden(number, nuisance=0.6, signal=0.1) for number, split in splits}
    verifier = aligned(tmp_path, sets)
    state = torch.load(tmp_path / "run/checkpoints/align/last.ckpt", weights_only=True)["stage"]
    assert max(row["validation_auroc"] for row in state["history"]) > state["start"]["validation_auroc"]
    start = Verifier("cap_dba_l2", channels=CHANNELS)
    known = {split: one.pool.values for split, one in sets.items()}
    fit_start(start, sets, known, FEATURES.seed, only_scale=False, with_head=False)
    assert isinstance(verifier.pooling.norm, AlignedNorm)
    assert isinstance(start.pooling.norm, AlignedNorm)
    assert torch.equal(verifier.pooling.norm.map, start.pooling.norm.map)

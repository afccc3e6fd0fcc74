"""Batch by batch gives what all at once gives."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.multiprocessing.spawn import spawn
from torchmetrics import Metric

from miv import MIVError
from miv.evaluation import Predictions, evaluate
from miv.evaluation.stateful import ClassificationMetrics, EntropyMetrics, GroupMetrics, WitnessMetrics
from tests.evaluation.examples import example_predictions

WHOLE = example_predictions()
BATCHES = [WHOLE.take(range(start, stop)) for start, stop in ((0, 25), (25, 26), (26, 60))]


def tensors(batch: Predictions) -> dict[str, Tensor]:
    names = ("label", "probability", "ptr", "attention", "witness")
    return {name: torch.from_numpy(getattr(batch, name)) for name in names}


def test_classification() -> None:
    metrics = ClassificationMetrics()
    for _ in range(2):  # the second time after a reset
        for batch in BATCHES:
            metrics.update(tensors(batch)["label"], tensors(batch)["probability"])
        assert metrics.compute() == evaluate(WHOLE).classification
        metrics.reset()


def test_witnesses_and_entropy() -> None:
    witnesses, entropy = WitnessMetrics(), EntropyMetrics()
    for _ in range(2):
        for batch in BATCHES:
            t = tensors(batch)
            witnesses.update(t["ptr"], t["witness"], t["attention"], t["label"])
            entropy.update(t["ptr"], t["attention"], t["label"])
        assert witnesses.compute() == evaluate(WHOLE).witnesses
        assert entropy.compute() == evaluate(WHOLE).entropy
        witnesses.reset()
        entropy.reset()


def test_groups() -> None:
    metrics = GroupMetrics(["0", "1", "2"])
    for _ in range(2):
        for batch in BATCHES:
            assert batch.group is not None
            metrics.update(tensors(batch)["label"], tensors(batch)["probability"], batch.group.tolist())
        assert metrics.compute() == evaluate(WHOLE).groups
        metrics.reset()
    with pytest.raises(MIVError, match="no group '7'"):
        metrics.update(torch.tensor([1]), torch.tensor([0.5]), ["7"])


def test_half_precision_and_gradients_are_no_hindrance() -> None:
    metrics = ClassificationMetrics()
    metrics.update(torch.tensor([1.0, 0.0]), torch.tensor([0.75, 0.25], dtype=torch.bfloat16, requires_grad=True))
    assert metrics.compute()["auroc"] == 1.0


@pytest.mark.filterwarnings("ignore:The ``compute`` method")
@pytest.mark.parametrize("metrics", [ClassificationMetrics(), WitnessMetrics(), EntropyMetrics(), GroupMetrics(["0"])])
def test_nothing_is_measured_before_the_first_batch(metrics: Metric) -> None:
    with pytest.raises(MIVError, match="before any update"):
        metrics.compute()


def _one_of_two(rank: int, folder: Path) -> None:
    """Process ``rank``: the first takes a third of the exemplars, the second the rest."""
    where = (folder / "meeting").as_uri()
    torch.distributed.init_process_group("gloo", init_method=where, rank=rank, world_size=2)
    classification, witnesses = ClassificationMetrics(), WitnessMetrics()
    groups = GroupMetrics(["0", "1", "2"])
    t = tensors(share := WHOLE.take(range(20) if rank == 0 else range(20, 60)))
    classification.update(t["label"], t["probability"])
    witnesses.update(t["ptr"], t["witness"], t["attention"], t["label"])
    assert share.group is not None
    groups.update(t["label"], t["probability"], share.group.tolist())
    found = [classification.compute(), witnesses.compute(), groups.compute()]
    (folder / f"{rank}.json").write_text(json.dumps(found))
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_two_processes_measure_the_union(tmp_path: Path) -> None:
    spawn(_one_of_two, (tmp_path,), nprocs=2)
    whole = evaluate(WHOLE)
    expected = json.loads(json.dumps([whole.classification, whole.witnesses, whole.groups]))
    for rank in (0, 1):
        assert json.loads((tmp_path / f"{rank}.json").read_text()) == expected

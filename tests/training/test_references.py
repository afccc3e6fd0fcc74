"""Training on exemplars with several references."""

from pathlib import Path

import numpy as np
import pytest

from miv import ExemplarSet, InstancePool, Verifier
from miv.evaluation import auroc
from miv.evaluation.calibration_fits import MEAN_SHARE, SHARPNESS, fit_reference_rule
from miv.evaluation.predicting import predict
from miv.training.config import TrainingConfig
from miv.training.run import Machine, run_training
from miv.verifier.references import ReferenceRule

CHANNELS, CLASSES = 8, 12


def noisy_set(exemplars: int, references: int, seed: int) -> ExemplarSet:
    """Classes are directions; references and targets are noisy, so that more references tell more."""
    random = np.random.default_rng(seed)
    kinds = np.random.default_rng(0).normal(size=(CLASSES, CHANNELS))

    def draw(kind: int) -> np.ndarray:
        return kinds[kind] + random.normal(size=CHANNELS) * 1.5

    values: list[np.ndarray] = []
    asked, bags, labels = [], [], []
    for number in range(exemplars):
        kind, label = int(random.integers(CLASSES)), number % 2
        others = random.permutation([other for other in range(CLASSES) if other != kind])[:4]
        members = [*others[:3], kind if label else others[3]]
        first = len(values)
        values += [draw(kind) for _ in range(references)] + [draw(int(one)) for one in members]
        asked.append(list(range(first, first + references)))
        bags.append(list(range(first + references, len(values))))
        labels.append(label)
    pool = InstancePool("features", np.array(values, np.float32))
    return ExemplarSet.from_lists(pool, None, bags, labels, references=asked)


def sets_of(references: int) -> dict[str, ExemplarSet]:
    return {"train": noisy_set(300, references, 1), "validation": noisy_set(240, references, 2)}


def test_a_run_learns_from_references_and_saves_the_rule(tmp_path: Path) -> None:
    sets = sets_of(4) | {"test": noisy_set(400, 4, 3)}
    config = TrainingConfig(pooling="cap_dba_l2", start="similar", max_epochs=2, batch_size=32, select_by="auroc")
    evaluations = run_training(sets, config, tmp_path / "run", Machine(tmp_path / "cache", quiet=True))
    verifier = Verifier.from_pretrained(tmp_path / "run")
    assert "references" in verifier.configuration
    several = predict(verifier, sets["test"])
    assert evaluations["test"].metrics["auroc"] == pytest.approx(auroc(several.label, several.logit), abs=1e-6)
    single = predict(verifier, sets["test"].with_first_reference())
    assert auroc(several.label, several.logit) > auroc(single.label, single.logit) + 0.03


@pytest.mark.parametrize("true_rule", [ReferenceRule(0.0, 1.0), ReferenceRule(256.0, 0.0)])
def test_the_fitted_rule_is_not_below_the_best_of_the_grid(true_rule: ReferenceRule) -> None:
    """Labels that follow one rule: this rule is found, up to a standard error."""
    exemplars = noisy_set(400, 3, 5)
    verifier = Verifier("nearest", channels=CHANNELS).eval()
    verifier.set_reference_rule(true_rule)
    logit = predict(verifier, exemplars).logit
    exemplars = ExemplarSet(
        exemplars.pool,
        exemplars.query,
        exemplars.bag_ptr,
        exemplars.bag_index,
        (logit > np.median(logit)).astype(np.int8),
        reference_ptr=exemplars.reference_ptr,
        reference_index=exemplars.reference_index,
    )
    verifier.set_reference_rule(ReferenceRule())
    found = fit_reference_rule(verifier, exemplars)
    assert found is not None
    assert found == verifier.reference_rule
    aurocs = {}
    for sharpness in SHARPNESS:
        for share in MEAN_SHARE:
            verifier.set_reference_rule(ReferenceRule(sharpness, share))
            aurocs[verifier.reference_rule] = auroc(exemplars.label, predict(verifier, exemplars).logit)
    assert aurocs[found] > max(aurocs.values()) - 0.01

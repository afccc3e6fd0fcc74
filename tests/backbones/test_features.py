"""Vectors as they are, or with every channel brought to one scale."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from miv import Bags, Verifier
from miv.backbones import create_backbone
from miv.backbones.cache import embed_instances
from miv.backbones.descriptors import Features
from miv.data import ExemplarSet, InstancePool
from miv.training.auto import choose
from miv.training.run import Machine, train
from tests.training.tiny import tiny_sets


def in_other_units(exemplars: ExemplarSet) -> ExemplarSet:
    """The last channel in units a thousand times as small."""
    values = exemplars.pool.values * np.array([1.0] * 7 + [1_000.0], np.float32)
    pool = InstancePool("features", values, exemplars.pool.classes)
    given = exemplars
    return ExemplarSet(pool, given.query, given.bag_ptr, given.bag_index, given.label, witness=given.witness)


def test_standardised_channels_have_mean_0_and_deviation_1() -> None:
    values = np.array([[1, 10, 5], [3, 30, 5]], np.float32)
    backbone = create_backbone("features", channels=3, standardise=True)
    assert isinstance(backbone, Features)
    backbone.fit(values)
    assert backbone(torch.from_numpy(values)).tolist() == [[-1, -1, 0], [1, 1, 0]]  # a constant channel tells nothing


def test_auto_standardises_tables_and_leaves_embeddings() -> None:
    sets = tiny_sets("features")
    embeddings = {
        split: replace(one, pool=replace(one.pool, values=np.tile(one.pool.values, 8))) for split, one in sets.items()
    }
    assert choose(embeddings, {}).config.backbone_options == {}  # 64 channels
    choice = choose({split: in_other_units(one) for split, one in sets.items()}, {})
    assert choice.config.backbone_options == {"standardise": True}
    assert "standardised" in choice.reason


def test_units_do_not_matter(tmp_path: Path) -> None:
    """Trained on other units, saved and loaded, a verifier is as good as on the first ones."""
    sets = {split: in_other_units(one) for split, one in tiny_sets("features").items()}
    config = choose(sets, {"max_epochs": 1, "align_epochs": 0}).config.changed({"max_epochs": 1, "align_epochs": 0})
    found = train(sets, config, tmp_path / "run", Machine(tmp_path / "cache", quiet=True))["test"].metrics["auroc"]
    assert found > 0.95
    backbone = Verifier.from_pretrained(tmp_path / "run").backbone
    assert isinstance(backbone, Features)
    assert float(backbone.deviation[7] / backbone.deviation[0]) == pytest.approx(1_000, rel=0.3)


def test_verify_standardises_too() -> None:
    verifier = Verifier("nearest", channels=2, backbone_options={"standardise": True}).eval()
    assert isinstance(verifier.backbone, Features)
    vectors = np.array([[1, 900], [1, 100], [3, 1000], [0, 400]], np.float32)
    verifier.backbone.fit(vectors)
    query, *targets = torch.from_numpy(vectors)
    expected = verifier(query[None], Bags.from_list([torch.stack(targets)])).probability.item()
    assert verifier.verify(vectors[0], vectors[1:]).probability == pytest.approx(expected, abs=1e-6)
    assert expected != pytest.approx(Verifier("nearest", channels=2).verify(vectors[0], vectors[1:]).probability)


def test_vectors_go_where_the_mean_is() -> None:
    """A backbone without weights still has a device."""
    backbone = create_backbone("features", channels=3, standardise=True).to("meta")
    pool = InstancePool("features", np.ones((2, 3), np.float32))
    with pytest.raises(NotImplementedError, match="meta"):  # it computes there, where there are no numbers to read
        embed_instances(backbone, pool, np.arange(2))


@pytest.mark.parametrize("preset", ["auto", "features"])
def test_a_classifier_standardises_too(preset: str) -> None:
    sets = {split: in_other_units(one) for split, one in tiny_sets("features").items()}
    given = {} if preset == "auto" else {"backbone": "features"}
    assert choose(sets, given).config.backbone_options == {"standardise": True}

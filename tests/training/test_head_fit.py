"""The weights of the similarity, fitted to the train bags before anything else learns."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file

from miv import ExemplarSet, InstancePool, Verifier
from miv.evaluation import auroc
from miv.evaluation.predicting import predict
from miv.files.weights import WEIGHTS_NAME, load_weights
from miv.poolings import ScaledProduct
from miv.training.similar_start import fit_scale_and_sharpness
from miv.training.start import STRENGTHS, fit_head

CHANNELS = 8


def exemplars_where(label: NDArray[np.int8], query: NDArray[np.float64], target: NDArray[np.float64]) -> ExemplarSet:
    """Bags of one target, so that its vector is the bag vector."""
    count = len(label)
    pool = InstancePool("features", np.concatenate([query, target]).astype(np.float32))
    return ExemplarSet(pool, np.arange(count), np.arange(count + 1), np.arange(count, 2 * count), label)


def told_by_one_channel(count: int, seed: int) -> ExemplarSet:
    """Query and target agree in the first channel if the label is 1; the other channels say nothing."""
    random = np.random.default_rng(seed)
    label = (np.arange(count) % 2).astype(np.int8)
    query, target = random.choice([-1.0, 1.0], (count, CHANNELS)), random.choice([-1.0, 1.0], (count, CHANNELS))
    target[:, 0] = np.where(label == 1, query[:, 0], -query[:, 0])
    return exemplars_where(label, query, target)


def fitted(train: ExemplarSet, pooling: str = "cap_dba_l2") -> tuple[Verifier, float | None]:
    options = {"heads": 1} if pooling.startswith("cap") else {}
    verifier = Verifier(pooling, channels=CHANNELS, pooling_options=options)
    fit_scale_and_sharpness(verifier, train, train.pool.values)
    return verifier, fit_head(verifier, train, train.pool.values)


def similarity_of(verifier: Verifier) -> ScaledProduct:
    assert isinstance(verifier.pooling.similarity, ScaledProduct)
    return verifier.pooling.similarity


@pytest.mark.parametrize("pooling", ["cap_dba_l2", "baseline"])
def test_finds_the_channel_that_tells(pooling: str) -> None:
    verifier, strength = fitted(told_by_one_channel(200, 0), pooling)
    test = told_by_one_channel(200, 1)
    plain = Verifier("nearest", channels=CHANNELS)
    assert strength in STRENGTHS
    assert similarity_of(verifier).weight.argmax() == 0
    assert auroc(test.label, predict(plain, test).logit) < 0.85
    assert auroc(test.label, predict(verifier, test).logit) > 0.95


def test_distances_tell_what_products_cannot() -> None:
    """The label says whether two positive values are near each other; their product says how large they are."""
    random = np.random.default_rng(0)
    label = (np.arange(400) % 2).astype(np.int8)
    query = random.uniform(1, 3, (400, CHANNELS))
    target = random.uniform(1, 3, (400, CHANNELS))
    target[:, 0] = np.where(label == 1, query[:, 0], (query[:, 0] + 1) % 2 + 1)
    verifier, strength = fitted(exemplars_where(label, query, target))
    assert strength is not None
    assert similarity_of(verifier).distance.argmax() == 0


def test_the_witnesses_stay_as_they_were() -> None:
    train = told_by_one_channel(200, 0)
    verifier = Verifier("cap_vema", channels=CHANNELS, pooling_options={"heads": 1})
    fit_scale_and_sharpness(verifier, train, train.pool.values)
    before = predict(verifier, train).attention
    assert fit_head(verifier, train, train.pool.values) is not None
    np.testing.assert_array_equal(predict(verifier, train).attention, before)


def test_files_without_distances_still_load(tmp_path: Path) -> None:
    verifier = Verifier("cap_dba_l2", channels=CHANNELS)
    verifier.save_pretrained(tmp_path)
    weights = load_weights(tmp_path / WEIGHTS_NAME)
    save_file(
        {name: one for name, one in weights.items() if name != "pooling.similarity.distance"}, tmp_path / WEIGHTS_NAME
    )
    again = Verifier.from_pretrained(tmp_path)
    assert torch.equal(similarity_of(again).distance, torch.zeros(CHANNELS))

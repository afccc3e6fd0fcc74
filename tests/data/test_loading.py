"""A set as a Dataset: one exemplar, a DataLoader's batches, and what a set says of itself."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from miv import ExemplarSet, InstancePool, MIVError, Verifier, collate_exemplars

VECTORS = np.arange(8, dtype=np.float32).reshape(4, 2)
SET = ExemplarSet.from_lists(InstancePool("features", VECTORS), [0, 3, 1], [[1, 2], [0], [2, 3, 0]], labels=[1, 0, 1])


def test_one_exemplar_has_its_values() -> None:
    query, bag, label = SET[-2]
    assert (query.tolist(), bag.tolist(), label) == ([6, 7], [[0, 1]], 0)
    assert [exemplar.label for exemplar in SET] == [1, 0, 1]
    assert SET[1:].query.tolist() == [3, 1]
    with pytest.raises(IndexError, match="There is no exemplar 3"):
        SET[3]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_data_loader_makes_batches(workers: int) -> None:
    dataset: Any = SET  # has all that a Dataset has, but is no subclass
    loader: Any = DataLoader(dataset, batch_size=2, collate_fn=collate_exemplars, num_workers=workers)
    first, second = loader
    assert first.query.tolist() == [[0, 1], [6, 7]]
    assert [bag.tolist() for bag in first.bags] == [[[2, 3], [4, 5]], [[0, 1]]]
    assert (first.label.tolist(), len(second.bags)) == ([1, 0], 1)


def test_images_are_prepared_for_the_backbone() -> None:
    images = np.random.default_rng(0).integers(0, 256, (4, 6, 6), dtype=np.uint8)
    exemplars = ExemplarSet.from_lists(InstancePool("image", images), [0], [[1, 2, 3]], labels=[1])
    assert collate_exemplars([exemplars[0]]).query.dtype == torch.uint8
    verifier = Verifier("nearest", "hog").eval()
    batch = collate_exemplars([exemplars[0]], verifier.backbone.prepare)
    expected = verifier.verify(images[0], images[1:]).probability
    assert verifier(batch.query, batch.bags).probability.item() == pytest.approx(expected, abs=1e-6)


def test_texts_need_to_be_prepared() -> None:
    texts = np.array(["red", np.str_("green"), "a longer text"], dtype=object)
    exemplars = ExemplarSet.from_lists(InstancePool("text", texts), [0], [[1, 2]], labels=[0])
    with pytest.raises(MIVError, match="prepare=verifier.backbone.prepare".replace(".", r"\.")):
        collate_exemplars([exemplars[0]])
    lengths = partial(collate_exemplars, prepare=lambda values: torch.tensor([[float(len(text))] for text in values]))
    assert lengths([exemplars[0]]).bags.values.flatten().tolist() == [5, 13]

"""Embedding the instances of a step in chunks: the same gradient in any memory."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor

from miv import Backbone, Verifier
from miv.backbones.hf_text import chunks_by_length
from miv.training.steps import StepEmbedding
from tests.training.test_fine_tuning import WORDS, encoder

PLENTY = 1 << 40


@pytest.fixture
def texts() -> np.ndarray:
    """40 texts of 1 to 12 words."""
    random = np.random.default_rng(0)
    return np.array([" ".join(random.choice(WORDS, 1 + number % 12)) for number in range(40)], dtype=object)


def text_backbone(folder: Path, **options: Any) -> Backbone:
    return Verifier("baseline", encoder(folder), backbone_options=options).backbone.train()


def gradients(backbone: Backbone, features: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Of a loss in which every feature meets every other, as in a pooling."""
    backbone.zero_grad(set_to_none=True)
    (features @ features.T).logsumexp(dim=1).sum().backward()
    learning = {name: one.grad for name, one in backbone.named_parameters() if one.grad is not None}
    return features.detach(), {name: gradient.clone() for name, gradient in learning.items()}


def assert_equal(found: tuple[Tensor, dict[str, Tensor]], expected: tuple[Tensor, dict[str, Tensor]]) -> None:
    torch.testing.assert_close(found[0], expected[0], atol=1e-5, rtol=1e-5)
    assert found[1].keys() == expected[1].keys()
    assert found[1]
    for name, gradient in expected[1].items():
        torch.testing.assert_close(found[1][name], gradient, atol=1e-5, rtol=1e-5, msg=name)


@pytest.mark.parametrize("memory", [0, PLENTY])
@pytest.mark.parametrize("layers", [None, 1])
def test_the_gradient_is_that_of_the_whole_batch(
    tmp_path: Path, texts: np.ndarray, memory: int, layers: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("miv.backbones.hf_text.chunks_by_length.__defaults__", (40,))  # several chunks
    backbone = text_backbone(tmp_path).train_only_last(layers)
    tokens = backbone.prepare(texts)
    expected = gradients(backbone, backbone(tokens))
    embedding = StepEmbedding(backbone, bucket=8, most_bytes=memory)
    chunks = len(chunks_by_length(tokens[:, 1].sum(dim=1)))
    for _ in range(2):
        assert_equal(gradients(backbone, embedding(tokens)), expected)
        assert embedding.recomputed == (0 if memory else chunks)


def test_dropout_is_the_same_when_a_chunk_is_recomputed(tmp_path: Path, texts: np.ndarray) -> None:
    backbone = text_backbone(tmp_path, dropout=0.3)
    tokens, results = backbone.prepare(texts), []
    for memory in (PLENTY, 0):
        torch.manual_seed(0)
        results.append(gradients(backbone, StepEmbedding(backbone, bucket=8, most_bytes=memory)(tokens)))
    assert_equal(*results)
    assert not torch.allclose(results[0][0], backbone.eval()(tokens))


def test_a_recomputed_chunk_has_the_precision_of_the_first_pass(
    tmp_path: Path, texts: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("miv.backbones.precision.has_native_bfloat16", lambda: True)
    backbone = text_backbone(tmp_path)
    tokens = backbone.prepare(texts)
    kept, again = (StepEmbedding(backbone, most_bytes=memory, lower=True)(tokens).float() for memory in (PLENTY, 0))
    assert not torch.equal(kept, backbone(tokens))
    assert_equal(gradients(backbone, again), gradients(backbone, kept))


class Normed(Backbone):
    """A layer, and a BatchNorm that learns from the batch."""

    kind, channels, instance_shape = "features", 5, (4,)

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.BatchNorm1d(5))

    def forward(self, instances: Tensor) -> Tensor:
        features: Tensor = self.layers(instances)
        return features


def test_a_learning_batch_norm_sees_the_whole_batch_once() -> None:
    rows, results = torch.rand(20, 4), []
    for embed in (lambda net: net, lambda net: StepEmbedding(net, bucket=8, most_bytes=0)):
        torch.manual_seed(0)
        net = Normed().train()
        gradient = gradients(net, embed(net)(rows))
        results.append((gradient[0], {**gradient[1], **{name: part.double() for name, part in net.named_buffers()}}))
    assert_equal(*results)
    assert results[1][1]["layers.1.num_batches_tracked"] == 1


def test_the_graph_that_is_kept_does_not_exceed_the_limit() -> None:
    """A row keeps its input of 10 and its output of 100 numbers; weights are no part of the graph."""
    layer = torch.nn.Sequential(torch.nn.Linear(10, 100), Exp())
    for chunks, recomputed in ((0, 6), (1, 6), (3, 4), (5, 2), (6, 0)):  # beside one that is recomputed
        embedding = StepEmbedding(cast(Backbone, layer), bucket=10, most_bytes=chunks * 10 * 440)
        embedding(torch.rand(60, 10))
        assert embedding.recomputed == recomputed


class Exp(torch.nn.Module):
    def forward(self, rows: Tensor) -> Tensor:
        return rows.exp()

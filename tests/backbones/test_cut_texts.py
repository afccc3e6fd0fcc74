"""Texts that are longer than the encoder reads."""

import warnings
from pathlib import Path

import numpy as np
import pytest

import miv
from miv import Verifier
from miv.backbones.cache import embed_pool
from miv.data import ExemplarSet, InstancePool
from miv.errors import MIVWarning
from miv.training.config import TrainingConfig
from miv.training.run import Machine, train
from tests.training.test_fine_tuning import encoder

# The tiny encoder's tokenizer adds no token of its own: a word is a token.
TEXTS = ["red", "red green blue", "red green blue brown", "red thing", "thing " * 9]


def pool(*texts: str) -> InstancePool:
    return InstancePool("text", np.array(texts, dtype=object))


def test_longer_texts_are_counted_and_those_that_just_fit_are_not(tmp_path: Path) -> None:
    backbone = Verifier("baseline", encoder(tmp_path), backbone_options={"max_tokens": 3}).backbone
    assert backbone.count_cut(np.array(TEXTS, dtype=object)) == 2
    assert backbone.count_cut(np.array(TEXTS * 700, dtype=object)) == 1400  # in several portions
    assert Verifier("baseline", "compact_cnn").backbone.count_cut(np.zeros((3, 8, 8), np.uint8)) == 0


def test_embedding_warns_once_of_the_same_texts(tmp_path: Path) -> None:
    backbone = Verifier("baseline", encoder(tmp_path / "a"), backbone_options={"max_tokens": 3}).backbone
    texts = pool(*TEXTS, "embedded here")
    with pytest.warns(MIVWarning, match=r"2 of 6 texts have more than 3 tokens.*max_tokens") as caught:
        embed_pool(backbone, texts, tmp_path / "cache")
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        embed_pool(backbone, texts, tmp_path / "other cache")
        embed_pool(backbone, pool("red", "short"), tmp_path / "cache")


def test_a_training_warns_once_of_all_its_texts_also_where_features_are_cached(tmp_path: Path) -> None:
    exemplars = ExemplarSet.from_lists(pool(*TEXTS, "trained here"), [0, 0], [[1, 2], [3, 4]], labels=[1, 0])
    other = ExemplarSet.from_lists(pool("a b c d", "red"), [0, 1], [[1], [0]], labels=[1, 0])
    sets = {"train": exemplars, "validation": other, "test": exemplars}
    config = TrainingConfig(
        backbone=encoder(tmp_path / "e"), backbone_options={"max_tokens": 3}, max_epochs=1, heads=1, bucket=8
    )
    with pytest.warns(MIVWarning) as caught:
        train(sets, config, tmp_path / "run", Machine(tmp_path / "cache", quiet=True))
    said = [str(one.message) for one in caught if one.category is MIVWarning]
    about_texts = [text for text in said if " texts have " in text]  # two exemplars are at chance, which is said too
    assert [text.partition(" have")[0] for text in about_texts] == ["3 of 8 texts"]


def test_sentences_that_are_not_read_to_their_end_are_counted_by_a_check(tmp_path: Path) -> None:
    pytest.importorskip("sentencex", reason="needs sentencex, of the extra text")
    verifier = Verifier("nearest", encoder(tmp_path), backbone_options={"max_tokens": 6}).eval()
    long = "Bees make sweet honey from all the flowers."
    answer, sources = f"{long} Wasps hunt for meat.", {"a": f"{long} Bees live in hives.", "b": "Hives " * 9}
    with pytest.warns(MIVWarning) as caught:
        miv.check(answer, sources, verifier=verifier)
    [said] = [str(one.message) for one in caught]
    assert said.startswith("1 of 2 checked sentences of the answer is longer than 6 tokens; ")
    assert "only the beginning was read" in said
    assert "max_tokens" not in said
    assert caught[0].filename == __file__

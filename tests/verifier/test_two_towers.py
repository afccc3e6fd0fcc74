"""A text as the query of a bag of vectors: two backbones that meet in one space."""

import json
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from miv import Gallery, MIVError, Verifier, register_backbone
from miv.backbones import create_backbone, exemplars_of_two_kinds
from miv.data import bag_side, query_side
from miv.scoring import score
from miv.verifier.stored_bag import verifier_fingerprint
from tests.cli.running import run_command

WORDS, PICTURE = 8, 6


@register_backbone("test_words")
class Words(nn.Module):
    """Counts of hashed words, through a weight, so that there is something to save."""

    kind = "text"

    def __init__(self, channels: int = WORDS) -> None:
        super().__init__()
        self.channels = channels
        self.weight = nn.Parameter(torch.linspace(1, 2, channels))

    def prepare(self, values: Any) -> Tensor:
        counts = torch.zeros(len(values), self.channels)
        for row, text in enumerate(values):
            for word in str(text).split():
                counts[row, crc32(word.encode()) % self.channels] += 1
        return counts

    def forward(self, counts: Tensor) -> Tensor:
        return counts * self.weight


@pytest.fixture
def verifier() -> Verifier:
    torch.manual_seed(0)
    made = Verifier("cap_dba_l2", channels=WORDS + PICTURE, query_backbone="test_words")
    for weight in made.pooling.parameters():
        weight.data += 0.2 * torch.randn_like(weight)
    return made.eval()


def pictures(count: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(count, PICTURE)).astype(np.float32)


def test_a_query_is_embedded_by_its_own_backbone(verifier: Verifier) -> None:
    words = Words()
    asked = words(words.prepare(["a red star", "a star"])).detach().numpy()
    plain = Verifier("cap_dba_l2", channels=WORDS + PICTURE)
    plain.load_state_dict({k: v for k, v in verifier.state_dict().items() if not k.startswith("query_backbone")})
    bag = bag_side(pictures(4), WORDS).astype(np.float32)
    expected = [plain.verify(query_side(one, PICTURE), bag).probability for one in asked]
    found = verifier.verify_many(["a red star", "a star"], [pictures(4)] * 2)
    assert found.probability == pytest.approx(expected, abs=1e-6)
    assert verifier.verify("a star", pictures(4)).probability == pytest.approx(expected[1], abs=1e-6)
    several = verifier.verify(["a red star", "a star"], pictures(4))
    assert several.matches is not None
    assert several.matches.shape == (2, 4)


def test_it_is_saved_frozen_and_loaded(verifier: Verifier, tmp_path: Path) -> None:
    assert verifier.query_backbone is not None
    assert not any(weight.requires_grad for weight in verifier.query_backbone.parameters())
    verifier.save_pretrained(tmp_path / "v")
    again = Verifier.from_pretrained(tmp_path / "v")
    assert again.query_backbone is not None
    assert not any(weight.requires_grad for weight in again.query_backbone.parameters())
    assert again.verify("red", pictures(3)).probability == verifier.verify("red", pictures(3)).probability
    assert "query_backbone" not in Verifier(channels=4).configuration


def test_wrong_parts_and_inputs_are_said_plainly(verifier: Verifier) -> None:
    with pytest.raises(MIVError, match="Expected queries of texts or images"):
        Verifier(backbone="compact_cnn", query_backbone="test_words")
    with pytest.raises(MIVError, match="the query backbone alone has 8"):
        Verifier(channels=WORDS, query_backbone="test_words")
    with pytest.raises(MIVError, match="no query_backbone"):
        Verifier(channels=3, query_backbone_options={"channels": 2})
    with pytest.raises(MIVError, match=rf"\(number of vectors, {PICTURE}\)"):
        verifier.verify("red", pictures(3)[:, :2])
    with pytest.raises(MIVError, match="Expected a text"):
        verifier.verify(pictures(1)[0], pictures(3))


def test_the_commands_and_a_gallery_take_such_queries(
    verifier: Verifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    verifier.save_pretrained("v")
    np.save("bag.npy", pictures(3))
    expected = verifier.verify("a red star", pictures(3)).probability
    said = json.loads(run_command("verify", "v", "--query", "a red star", "--bag", "bag.npy", "--json"))
    assert said["probability"] == pytest.approx(expected, abs=1e-6)
    row = {"query": "a red star", "bag": pictures(3).tolist()}
    Path("pairs.jsonl").write_text(json.dumps(row) + "\n")
    run_command("verify", "v", "--bags", "pairs.jsonl", "--out", "out.csv")
    header, found = (line.split(",") for line in Path("out.csv").read_text().splitlines())
    assert float(found[header.index("probability")]) == pytest.approx(expected, abs=1e-6)
    gallery = Gallery.create("gallery", verifier)
    gallery.add_many({"a": pictures(3), "b": pictures(3, seed=1)})
    assert gallery.search("a red star", top=2)[0].probability >= expected - 1e-6
    assert run_command("gallery", "search", "gallery", "--query", "a red star")


def test_a_bag_in_chunks_and_a_kept_bag_take_such_queries(
    verifier: Verifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = ["a red star", "a star"]
    expected = [verifier.verify(one, pictures(5)).probability for one in asked]
    kept = verifier.keep_bag(pictures(5), "kept", rows="float32")
    for bag in (pictures(5), iter([pictures(5)[:2], pictures(5)[2:]]), list(pictures(5)), kept):
        found = [one.probability for one in verifier.verify_stream(asked, bag)]
        assert found == pytest.approx(expected, abs=1e-5)
    with pytest.raises(MIVError, match=rf"\(number of vectors, {PICTURE}\)"):
        verifier.verify_stream(asked, pictures(5)[:, :2])
    with pytest.raises(MIVError, match="Expected a text"):
        verifier.verify_stream([pictures(1)[0]], pictures(5))
    verifier.save_pretrained("v")
    np.save("bag.npy", pictures(5))
    flags = ("--query", "a star", "--bag", "bag.npy", "--stream", "--json")
    said = json.loads(run_command("verify", "v", *flags))
    assert said["verdicts"][0]["probability"] == pytest.approx(expected[1], abs=1e-5)


def test_another_query_backbone_is_another_verifier(verifier: Verifier) -> None:
    before = verifier_fingerprint(verifier)
    assert verifier_fingerprint(verifier) == before
    assert verifier.query_backbone is not None
    next(verifier.query_backbone.parameters()).data += 1
    assert verifier_fingerprint(verifier) != before


def test_a_set_of_embedded_queries_is_not_scored_again(
    verifier: Verifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    verifier.save_pretrained("v")
    made = exemplars_of_two_kinds(["a star"], [pictures(3)], [1], "test_words")
    made.save("set", builder="test", options={}, seed=0)
    with pytest.raises(MIVError, match="whose queries are embedded already"):
        score("v", "set", "out")
    Path("pairs.jsonl").write_text(json.dumps({"query": "a star", "bag": pictures(3).tolist()}) + "\n")
    assert score("v", "pairs.jsonl", "out").scored.exemplars == 1


def test_the_service_refuses_such_a_verifier(verifier: Verifier, tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    pytest.importorskip("prometheus_client")
    from miv.service import ServiceSettings
    from miv.service.metrics import ServiceMetrics
    from miv.service.models import ServedModels

    verifier.save_pretrained(tmp_path / "v")
    with pytest.raises(MIVError, match="v takes queries of another kind than its bags, which the service cannot"):
        ServedModels(ServiceSettings((str(tmp_path / "v"),)), ServiceMetrics()).load()


def test_a_set_of_two_kinds_holds_what_verify_would_see() -> None:
    bags = [pictures(3), pictures(2, seed=1)]
    made = exemplars_of_two_kinds(["a star", "a star"], bags, [1, 0], "test_words")
    assert made.pool.values.shape == (1 + 5, WORDS + PICTURE)  # the text once
    words = Words()
    query = query_side(words(words.prepare(["a star"])).detach().numpy(), PICTURE)
    np.testing.assert_allclose(made.pool.values[made.query[1]], query[0])
    np.testing.assert_allclose(made.pool.values[made.bag(1)], bag_side(bags[1], WORDS))
    with pytest.raises(MIVError, match="Expected one for texts or images"):
        exemplars_of_two_kinds(["a"], bags[:1], [1], create_backbone("features", channels=3))

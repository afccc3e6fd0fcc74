"""The scores of a verdict: what each instance would be worth as a bag of its own."""

import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from miv import MIVError, Verifier, list_poolings
from miv.backbones.cnn import CompactCNN
from miv.verifier.decisions import OperatingPoint
from miv.verifier.scalings import Platt
from miv.verifier.verdict import Verdicts, witness_places


def vectors(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def some_verifier(pooling: str) -> Verifier:
    torch.manual_seed(0)
    verifier = Verifier(pooling, channels=4).eval()
    for weight in verifier.parameters():
        weight.data += 0.3 * torch.randn_like(weight)
    verifier.operating_point = OperatingPoint(Platt(2.0, -0.5), threshold=0.4)
    return verifier


def likeness() -> Verifier:
    """The instance most like the query decides; without likeness the logit is far below 0."""
    verifier = Verifier("baseline", channels=4, start="paper").eval()
    verifier.pooling.similarity.weight.data = torch.ones(4)
    return verifier


@pytest.mark.parametrize("pooling", list_poolings())
def test_a_score_is_the_probability_of_a_bag_of_one(pooling: str) -> None:
    verifier = some_verifier(pooling)
    queries, bags = vectors(3, 4), [vectors(size, 4, seed=size) for size in (5, 1, 3)]
    found = verifier.verify_many(queries, bags)
    expected = [
        verifier.verify(query, member[None]).probability
        for query, bag in zip(queries, bags, strict=True)
        for member in bag
    ]
    near = partial(pytest.approx, rel=1e-3, abs=1e-5)  # some logits are large, and processors round them differently
    assert found[2].scores == near(expected[6:])  # one exemplar, before the others were asked for
    assert found.scores == near(expected)
    assert found[0].scores == near(expected[:5])
    assert found[1].document()["scores"] == near([found[1].probability])


def test_shares_sum_to_one_in_every_bag_and_scores_do_not() -> None:
    query = [1.0, 0.0, 0.0, -1.0]
    other = [-1.0, 0.0, 0.0, 1.0]
    with_witness, without = (likeness().verify(query, bag) for bag in ([query, other], [other, other]))
    assert with_witness.shares is not None
    assert without.shares is not None
    assert with_witness.shares.sum() == without.shares.sum() == 1
    assert with_witness.scores is not None
    assert without.scores is not None
    assert with_witness.scores[0] > 0.8
    assert max(*without.scores, with_witness.scores[1]) < 0.2


def test_nothing_is_embedded_twice_and_nothing_computed_before_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    verifier = Verifier("cap_dba_l2", "compact_cnn").eval()
    images = np.random.default_rng(0).integers(0, 256, (4, 8, 8), dtype=np.uint8)
    calls = []
    verify = Verifier.verify_features

    def counted(verifier: Verifier, query: Any, bags: Any) -> Any:
        calls.append(len(bags))
        return verify(verifier, query, bags)

    monkeypatch.setattr(Verifier, "verify_features", counted)
    verdict = verifier.verify(images[0], images[1:])
    assert calls == [1]
    monkeypatch.setattr(CompactCNN, "forward", lambda *_: pytest.fail("the backbone was run again"))
    assert verdict.scores is not None
    assert verdict.scores is verdict.scores
    assert calls == [1, 3]  # one bag, then three of one instance each


def test_a_verdict_alone_has_no_scores() -> None:
    verdict = likeness().verify([1.0, 0, 0, 0], [[1.0, 0, 0, 0]], witnesses="none")
    assert verdict.scores is None
    assert verdict.document()["scores"] is None
    assert "score" not in str(verdict) + verdict._repr_html_()


def test_another_process_gets_them_with_the_verdicts() -> None:
    verifier = some_verifier("cap_vema")
    found = verifier.verify_many(vectors(2, 4), [vectors(3, 4, seed=1), vectors(2, 4, seed=2)])
    copy: Verdicts = pickle.loads(pickle.dumps(found))
    assert copy.scores == pytest.approx(found.scores)
    assert copy[1].scores == pytest.approx(found[1].scores)
    assert pickle.loads(pickle.dumps(found[1])).scores == pytest.approx(found[1].scores)


def test_they_stand_beside_the_shares() -> None:
    verdict = likeness().verify([1.0, 0, 0, -1.0], [[-1.0, 0, 0, 1.0], [1.0, 0, 0, -1.0]])
    assert verdict.scores is not None
    low, high = verdict.scores
    lines = str(verdict).splitlines()
    assert lines[2].split() == ["place", "share", "score"]
    assert lines[3].split() == ["0", "0.000", f"{low:.3f}"]
    assert lines[4].split() == ["1", "1.000", "█" * 20, f"{high:.3f}", "witness"]
    assert {
        line.index(number) for line, number in zip(lines[2:5], ("score", f"{low:.3f}", f"{high:.3f}"), strict=True)
    } == {lines[2].index("score")}
    page = verdict._repr_html_()
    assert f"share 1.00 · score {high:.2f} <b>witness</b>" in page
    assert f"attention 0.000, score {low:.2f}" in page


def test_a_score_that_overflows_is_named_by_its_exemplar() -> None:
    verifier = likeness()
    found = verifier.verify_many(vectors(2, 4), [vectors(1, 4), vectors(1, 4)])
    verifier.pooling.similarity.weight.data *= float("nan")
    with pytest.raises(MIVError, match=r"score for exemplar 1 \(from 0\) is NaN"):
        _ = found[1].scores


def test_the_places_of_witnesses_are_those_of_the_single_verdicts() -> None:
    random = np.random.default_rng(0)
    bags = [random.normal(size=(size, 4)) for size in (1, 9, 30, 2) * 5]
    bags[2][7] = bags[2][3]  # equal shares
    verifier, queries = Verifier("cap_dba_l2", channels=4), random.normal(size=(20, 4))
    found = verifier.verify_many(queries, bags)
    places = witness_places(found.witness, found.shares, found.ptr)
    assert max(map(len, places)) > 2
    assert places == [[one.index for one in verdict.witnesses] for verdict in found]
    none = verifier.verify_many(queries, bags, witnesses="none")
    assert witness_places(none.witness, none.shares, none.ptr) == [[]] * 20
    assert found.witness is not None
    for named, first, verdict in zip(places, found.ptr.tolist(), found, strict=False):
        assert (shares := verdict.shares) is not None
        among = [place for place in range(verdict.size) if found.witness[first + place]]
        assert named == sorted(among, key=(-shares).__getitem__)  # equal shares stay in their order

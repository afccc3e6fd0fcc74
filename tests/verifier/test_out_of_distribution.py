import json
from pathlib import Path

import numpy as np
import pytest

from miv import Verifier
from miv.evaluation.out_of_distribution import fit_out_of_distribution
from miv.runtime import SilentProgress
from miv.verifier.table_writing import score_table

FAR = [90.0, -90.0]


@pytest.fixture(scope="module")
def verifier() -> Verifier:
    """Answers by cosine; its train features are near (1, 0) and (0, 1)."""
    random = np.random.default_rng(0)
    known = np.eye(2)[random.integers(2, size=400)] + random.normal(0, 0.1, (400, 2))
    found = Verifier("nearest", channels=2)
    found.unlike = fit_out_of_distribution(known[:200].astype(np.float32), known[200:].astype(np.float32))
    return found


def test_a_query_out_of_distribution_gives_unsure(verifier: Verifier) -> None:
    bag = [[1.0, 0.0], [0.0, 1.0]]
    usual = verifier.verify([1.0, 0.1], bag)
    assert (usual.decision, usual.reason, usual.document()["unlike"]) == ("yes", None, {"query": False, "places": []})
    odd = verifier.verify(FAR, [FAR, *bag])
    assert (odd.decision, odd.verdict, bool(odd)) == ("unsure", False, False)
    assert odd.reason == "the query is out of distribution"
    assert str(odd).startswith("Unsure: the query is out of distribution (probability ")
    assert "1 instance is out of distribution: place 0." in str(odd)
    document = json.loads(json.dumps(odd.document()))
    assert (document["decision"], document["unlike"]) == ("unsure", {"query": True, "places": [0]})
    assert document["reason"] == "the query is out of distribution"
    assert "Unsure: the query is out of distribution" in odd._repr_html_()


def test_instances_of_the_bag_are_named_and_a_bag_of_them_alone_gives_unsure(verifier: Verifier) -> None:
    query, ordinary = [1.0, 0.0], [1.0, 0.1]
    some = verifier.verify(query, [FAR, ordinary, FAR])
    assert some.decision == "yes"
    assert "2 instances are out of distribution: places 0, 2." in str(some)
    assert "2 instances are out of distribution: places 0, 2." in some._repr_html_()
    assert " out of distribution</small>" in some._repr_html_()
    alone = verifier.verify(query, [FAR, FAR])
    assert alone.decision == "unsure"
    assert alone.reason == "every instance of the bag is out of distribution"
    assert "out of distribution" in str(verifier.verify(query, [FAR, ordinary], witnesses="none"))


def test_many_verdicts_frames_and_tables_say_it_too(verifier: Verifier, tmp_path: Path) -> None:
    given = [[1.0, 0.0], FAR, [0.0, 1.0], [0.0, 1.0]]
    bags = [[[1.0, 0.0]], [[1.0, 0.0]], [FAR], [FAR, [1.0, -0.1]]]
    verdicts = verifier.verify_many(given, bags)
    assert verdicts.decision.tolist() == [one.decision for one in verdicts] == ["yes", "unsure", "unsure", "no"]
    assert "1 yes, 2 unsure" in repr(verdicts)
    assert verdicts.unlike is not None
    assert verdicts.unlike.query.tolist() == [False, True, False, False]
    table = tmp_path / "pairs.jsonl"
    table.write_text(
        "".join(json.dumps({"query": query, "bag": bag}) + "\n" for query, bag in zip(given, bags, strict=True))
    )
    scored = score_table(verifier, table, tmp_path / "out.csv", progress=SilentProgress())
    assert (scored.yes, scored.unsure) == (1, 2)
    header, *rows = (tmp_path / "out.csv").read_text().splitlines()
    assert header.endswith("reason,unlike_query,unlike")
    assert "the query is out of distribution" in rows[1]
    score_table(verifier, table, tmp_path / "by.csv", by_instance=True, progress=SilentProgress())
    marks = [line.rsplit(",", 1)[1] for line in (tmp_path / "by.csv").read_text().splitlines()]
    assert marks[0] == "unlike"
    assert [mark.lower() for mark in marks[1:]] == ["false", "false", "true", "true", "false"]


def test_references_are_out_of_distribution_only_if_all_are(verifier: Verifier) -> None:
    bag = [[1.0, 0.0], [0.0, 1.0]]
    assert verifier.verify([FAR, [1.0, 0.0]], bag).reason is None
    verdicts = verifier.verify_many([[FAR, FAR], [[1.0, 0.0], FAR, FAR], [FAR]], [bag, bag, bag])
    assert verdicts.unlike is not None
    assert verdicts.unlike.query.tolist() == [True, False, True]


def test_is_saved_with_the_verifier_and_replaced_with_it(verifier: Verifier, tmp_path: Path) -> None:
    verifier.save_pretrained(tmp_path / "v")
    again = Verifier.from_pretrained(tmp_path / "v")
    assert again.unlike is not None
    assert again.verify(FAR, [[1.0, 0.0]]).decision == "unsure"
    Verifier("nearest", channels=2).save_pretrained(tmp_path / "v")
    without = Verifier.from_pretrained(tmp_path / "v")
    assert without.unlike is None
    assert without.verify(FAR, [[1.0, 0.0]]).unlike is None

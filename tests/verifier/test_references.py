"""Queries of several references: combined logits, matches, attention, and every way to give them."""

import csv
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from miv import Bags, ExemplarSet, InstancePool, MIVError, Verifier, list_poolings
from miv.cli.app import app
from miv.evaluation import explain, predict
from miv.verifier.explain import METHODS, explain_features
from miv.verifier.references import ReferenceRule

REFERENCES = [[1.0, 0.2, 0.0, 0.1], [0.8, 0.0, 0.3, 0.0], [0.5, 0.5, 0.0, 0.0]]
BAG = [[0.9, 0.1, 0.0, 0.0], [0.0, 1.0, 0.0, 0.2], [0.0, 0.0, 1.0, 0.0], [0.1, 0.4, 0.0, 0.9]]
RULES = [ReferenceRule(0.0, 0.0), ReferenceRule(1.0, 0.5), ReferenceRule(4.0, 0.0), ReferenceRule(0.0, 1.0)]


def a_verifier(pooling: str = "cap_dba_l2") -> Verifier:
    torch.manual_seed(0)
    verifier = Verifier(pooling, channels=4).eval()
    with torch.no_grad():  # so that logits differ clearly
        for weight in verifier.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    return verifier


def by_hand(verifier: Verifier, references: list[list[float]], bag: list[list[float]]) -> float:
    """The combined logit by the definition, one reference at a time."""
    rule = verifier.reference_rule
    logits = [float(verifier.verify_many([one], [bag]).logit[0]) for one in references]
    of_mean = float(verifier.verify_many([np.mean(references, axis=0)], [bag]).logit[0])
    soft = np.mean(logits)
    if rule.sharpness:
        soft = np.log(np.mean(np.exp(rule.sharpness * np.array(logits)))) / rule.sharpness
    return float((1 - rule.mean_share) * soft + rule.mean_share * of_mean)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("pooling", list_poolings())
def test_the_logit_is_combined_as_the_rule_says(pooling: str, rule: ReferenceRule) -> None:
    verifier = a_verifier(pooling)
    verifier.set_reference_rule(rule)
    found = verifier.verify_many([REFERENCES, REFERENCES[1]], [BAG, BAG[:2]])
    assert found.logit[0] == pytest.approx(by_hand(verifier, REFERENCES, BAG), abs=1e-4)
    alone = verifier.verify_many([REFERENCES[1]], [BAG[:2]])
    assert found.logit[1] == pytest.approx(alone.logit[0], rel=1e-5)
    if found.attention is not None:
        assert found.attention[:4].sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("pooling", ["cap_dba_l2", "baseline", "mi_net"])
def test_one_reference_is_exactly_the_query(pooling: str) -> None:
    verifier = a_verifier(pooling)
    one, listed = verifier.verify(REFERENCES[0], BAG), verifier.verify([REFERENCES[0]], BAG)
    assert one.probability == listed.probability
    assert np.array_equal(one.shares, listed.shares)  # type: ignore[arg-type]
    assert np.array_equal(one.scores, listed.scores)  # type: ignore[arg-type]


def test_the_numpy_form_for_a_search_is_the_same() -> None:
    verifier = a_verifier()
    for rule in RULES:
        verifier.set_reference_rule(rule)
        asked = rule.queries(np.array(REFERENCES, np.float32))
        logits = [[verifier.verify_many([one], [bag]).logit[0] for bag in (BAG, BAG[1:])] for one in asked]
        expected = verifier.verify_many([REFERENCES] * 2, [BAG, BAG[1:]]).logit
        assert rule.combined(np.array(logits)) == pytest.approx(expected, rel=1e-4)
        assert rule.combined(np.array(logits)[:1]).tolist() == list(map(float, logits[0]))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("pooling", ["maxsim", "baseline", "nearest", "cap_dba_l2"])
def test_a_score_is_the_probability_of_the_instance_alone(pooling: str, rule: ReferenceRule) -> None:
    verifier = a_verifier(pooling)
    verifier.set_reference_rule(rule)
    alone = [verifier.verify(REFERENCES, [one]).probability for one in BAG]
    assert verifier.verify(REFERENCES, BAG).scores == pytest.approx(alone, abs=1e-5)


def test_matches_say_which_reference_is_near_which_instance() -> None:
    verifier = a_verifier()
    verdict = verifier.verify(REFERENCES, BAG)
    assert verdict.matches is not None
    assert verdict.matches.shape == (3, 4)
    expected = [[verifier.verify(one, [member]).probability for member in BAG] for one in REFERENCES]
    assert verdict.matches == pytest.approx(np.array(expected), abs=1e-4)
    assert verdict.matched_by == tuple(int(verdict.matches[:, one.index].argmax()) for one in verdict.witnesses)
    document = json.loads(json.dumps(verdict.document()))
    assert np.shape(document["matches"]) == (3, 4)
    assert "Query of 3 references." in str(verdict)
    assert "nearest reference" in str(verdict)
    again = pickle.loads(pickle.dumps(verdict))
    assert again.matches.tolist() == verdict.matches.tolist()
    single = verifier.verify(REFERENCES[0], BAG)
    assert single.matches is None
    assert "matches" not in single.document()
    assert verifier.verify(REFERENCES, BAG, witnesses="none").matches is None


@pytest.mark.parametrize("method", METHODS)
def test_every_explanation_takes_references(method: str) -> None:
    verifier = a_verifier()
    features, bags = torch.tensor(REFERENCES), Bags.from_list([torch.tensor(BAG), torch.tensor(BAG[:1])])
    references = Bags.from_list([features, features[:1]])
    scores = explain_features(verifier, references, bags, method)
    assert scores.shape == (5,)
    assert float(scores[4]) == pytest.approx(
        float(explain_features(verifier, features[:1], bags[1:], method)), abs=1e-5
    )
    if method == "alone":
        combined = verifier.verify_features(references[:1], bags[:1].__class__.from_list([bags[0][:1]])).logit
        assert float(scores[0]) == pytest.approx(float(combined.detach()), abs=1e-4)


def test_a_set_is_predicted_and_explained_as_the_same_lists() -> None:
    verifier = a_verifier()
    pool = InstancePool("features", np.array(REFERENCES + BAG, np.float32))
    exemplars = ExemplarSet.from_lists(pool, [0, 1], [[3, 4, 5, 6], [4, 5]], [1, 0], references=[[1, 2], []])
    verdicts = verifier.verify_many([REFERENCES, REFERENCES[1]], [BAG, BAG[1:3]])
    answers = predict(verifier, exemplars)
    assert answers.logit == pytest.approx(verdicts.logit, abs=1e-5)
    assert answers.attention == pytest.approx(verdicts.attention, abs=1e-5)
    assert explain(verifier, exemplars, "alone").shape == (6,)


def test_tensors_take_bags_of_references() -> None:
    verifier = a_verifier()
    features, bags = torch.tensor(REFERENCES), Bags.from_list([torch.tensor(BAG)])
    answer = verifier(Bags.from_list([features]), bags)
    assert float(answer.logit) == pytest.approx(float(verifier.verify_many([REFERENCES], [BAG]).logit[0]), abs=1e-6)
    assert answer.query_vector.shape == answer.bag_vector.shape == (1, 4)
    with pytest.raises(MIVError, match="There are 1 queries and 2 bags"):
        verifier(Bags.from_list([features]), Bags.from_list([features, features]))


def test_the_rule_is_saved_with_the_verifier(tmp_path: Path) -> None:
    verifier = a_verifier()
    verifier.set_reference_rule(ReferenceRule(2.0, 0.25))
    verifier.save_pretrained(tmp_path / "verifier")
    loaded = Verifier.from_pretrained(tmp_path / "verifier")
    assert loaded.reference_rule == ReferenceRule(2.0, 0.25)
    assert loaded.configuration["references"] == {"sharpness": 2.0, "mean_share": 0.25}
    assert a_verifier().configuration.get("references") is None
    with pytest.raises(MIVError, match="mean_share of the reference rule is 2"):
        ReferenceRule(1.0, 2)
    with pytest.raises(MIVError, match="Expected the two numbers sharpness and mean_share"):
        Verifier("baseline", channels=2, references={"sharp": 1})


def test_wrong_references_are_named() -> None:
    verifier = a_verifier()
    with pytest.raises(MIVError, match=r"The query, reference 1 has the shape \(3,\)"):
        verifier.verify([REFERENCES[0], [1.0, 2.0, 3.0]], BAG)
    with pytest.raises(MIVError, match=r"The query has the shape \(3,\)"):
        verifier.verify([[1.0, 2.0, 3.0]], BAG)
    with pytest.raises(MIVError, match="Query 1, reference 0: the vector contains NaN"):
        verifier.verify_many([REFERENCES[0], [[np.nan] * 4, REFERENCES[0]]], [BAG, BAG])


def test_query_can_be_repeated_on_the_command_line(tmp_path: Path) -> None:
    a_verifier().save_pretrained(tmp_path / "verifier")
    np.save(tmp_path / "bag.npy", np.array(BAG, np.float32))
    queries = [argument for one in REFERENCES for argument in ("--query", json.dumps(one))]
    command = ["verify", str(tmp_path / "verifier"), *queries, "--bag", str(tmp_path / "bag.npy")]
    printed = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert np.shape(printed["matches"]) == (3, 4)
    assert len(printed["query"]) == 3
    expected = Verifier.from_pretrained(tmp_path / "verifier").verify(REFERENCES, BAG)
    assert printed["probability"] == pytest.approx(expected.probability)
    assert "Query of 3 references" in CliRunner().invoke(app, command).stdout


def test_a_table_may_have_references(tmp_path: Path) -> None:
    a_verifier().save_pretrained(tmp_path / "verifier")
    rows = [{"references": REFERENCES, "bag": BAG}, {"query": REFERENCES[1], "references": None, "bag": BAG[:2]}]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    out = tmp_path / "verdicts.csv"
    arguments = ["verify", str(tmp_path / "verifier"), "--bags", str(tmp_path / "pairs.jsonl"), "--out", str(out)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    found = [float(row["probability"]) for row in csv.DictReader(out.read_text().splitlines())]
    verdicts = a_verifier().verify_many([REFERENCES, REFERENCES[1]], [BAG, BAG[:2]])
    assert found == pytest.approx(verdicts.probability.tolist(), abs=1e-6)

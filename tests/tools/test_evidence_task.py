"""Claims with and without their evidence."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools.evidence_task import Evidence

from miv import ExemplarSet, MIVError
from miv.runtime import SilentProgress
from tests.tasks.test_claims import write_lines


@pytest.fixture
def topics(tmp_path: Path) -> Path:
    """Each topic is four claims that share the gold sentence "fact"; all claims have own gold and four distractors."""
    for split, topics in (("train", 6), ("validation", 3), ("test", 3)):
        rows = []
        for topic in range(topics):
            for claim in range(4):
                name = f"{split} {topic} {claim}"
                gold = [f"{name} gold.", f"{split} {topic} fact."]
                away = [f"{name} distractor {n}." for n in range(5)]
                label = "SUPPORTS" if claim % 2 else "REFUTES"
                row = {"text": f"{name} claim.", "label": label, "gold_evidence": gold}
                rows.append({**row, "retrieved_evidence": [*away, *gold]})
        write_lines(tmp_path / f"{split}.jsonl", rows)
    return tmp_path


def build_evidence(topics: Path, **options: Any) -> dict[str, ExemplarSet]:
    return Evidence(topics, **options).build(SilentProgress())


def test_half_of_the_bags_have_lost_their_evidence(topics: Path) -> None:
    test = build_evidence(topics)["test"]
    assert test.label.tolist() == [0, 1] * 6
    assert test.bag_sizes.tolist() == [5] * 12  # the same size, with evidence or without
    for number in range(12):
        texts = set(test.pool.values[test.bag(number)])
        claim = str(test.pool.values[test.query[number]]).removesuffix(" claim.")
        gold = {f"{claim} gold.", f"{claim[:-2]} fact."}
        assert (gold <= texts) if test.label[number] else gold.isdisjoint(texts)
        members = slice(*test.bag_ptr[number : number + 2])
        marked = set(test.pool.values[test.bag_index[members][test.witness[members]]])
        assert marked == (gold if test.label[number] else set())


def test_sentences_on_the_topic_come_first(topics: Path) -> None:
    """A topic has three other gold sentences, which all are in a bag without evidence."""
    test = build_evidence(topics)["test"]
    for number in np.flatnonzero(test.label == 0).tolist():
        claim = str(test.pool.values[test.query[number]]).removesuffix(" claim.")
        on_topic = {f"{claim[:-1]}{other} gold." for other in range(4) if str(other) != claim[-1]}
        assert on_topic <= set(test.pool.values[test.bag(number)])


def test_claims_of_one_topic_share_a_query_id(topics: Path) -> None:
    test = build_evidence(topics)["test"]
    names = [str(text).split()[1] for text in test.pool.values[test.query]]
    assert len(set(zip(names, test.query_id.tolist(), strict=True))) == len(set(test.query_id)) == 3


def test_larger_bags_are_filled_with_other_sentences(topics: Path) -> None:
    sizes = build_evidence(topics, min_size=10, max_size=40)["train"].bag_sizes
    assert sizes.min() >= 9
    assert 30 < sizes.max() <= 40
    assert len(set(sizes.tolist())) > 5
    with pytest.raises(MIVError, match="max_size is 3"):
        Evidence(topics, min_size=10, max_size=3)

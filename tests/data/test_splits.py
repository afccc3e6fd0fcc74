"""Which exemplars every division of a set keeps together."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from hypothesis import given, strategies as st

from miv import ExemplarSet, InstancePool
from miv.data import csr
from miv.data.sources import FromTable, Shares
from miv.data.splits import connected, hold_out, query_groups
from miv.runtime import SilentProgress
from tests.data.sources.test_table import write_json_lines

LINKS = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=4), min_size=1, max_size=8)


@given(LINKS, st.randoms(use_true_random=False))
def test_the_number_is_the_smallest_node_in_reach_whatever_the_order(links: list[list[int]], random: object) -> None:
    expected = []
    for link in links:
        reach = set(link)
        for _ in links:  # as often as the longest way can need it
            reach = reach.union(*(other for other in links if reach & set(other)))
        expected.append(min(reach))
    ptr = csr.borders([len(link) for link in links])
    for _ in range(2):
        assert connected(ptr, np.array([node for link in links for node in link]), 10).tolist() == expected
        links = [sorted(link, key=lambda _: random.random()) for link in links]  # type: ignore[attr-defined]


# Which exemplars every division of a set keeps together.

COUNT = 40  # exemplars, four for each of ten query ids


def with_ids() -> ExemplarSet:
    """Each exemplar has its own query; four share an id."""
    values = np.random.default_rng(0).normal(size=(2 * COUNT, 3)).astype(np.float32)
    return ExemplarSet.from_lists(
        InstancePool("features", values),
        list(range(COUNT)),
        [[COUNT + row] for row in range(COUNT)],
        [row // 2 % 2 for row in range(COUNT)],
        query_ids=[f"id {row % 10}" for row in range(COUNT)],
    )


def with_shared_references() -> ExemplarSet:
    """The four exemplars of a query list the same references, each another one first."""
    references = [[10 * ((row // 10 + turn) % 4) + row % 10 for turn in range(2)] for row in range(COUNT)]
    exemplars = with_ids()
    bags = [exemplars.bag(row) for row in range(COUNT)]
    return ExemplarSet.from_lists(exemplars.pool, None, bags, exemplars.label, references=references)


def shared_by(first: ExemplarSet, second: ExemplarSet) -> set[object]:
    """Query ids or references that are on both sides."""
    if first.query_id is not None and second.query_id is not None:
        return set(first.query_id) & set(second.query_id)
    return set(first.all_references[1]) & set(second.all_references[1])


def test_held_out_exemplars_share_no_query_id_and_no_reference() -> None:
    for exemplars in (with_ids(), with_shared_references()):
        sets = hold_out(exemplars, 0.3, seed=0)
        assert len(sets["train"]) + len(sets["validation"]) == COUNT
        assert not shared_by(sets["train"], sets["validation"])


def test_classes_come_first_and_single_queries_last() -> None:
    exemplars = with_ids()
    classes = np.array([f"class {row % 5}" for row in range(2 * COUNT)])
    known = replace(exemplars, pool=replace(exemplars.pool, classes=classes))
    assert query_groups(known).tolist() == [row % 5 for row in range(COUNT)]
    assert query_groups(exemplars).tolist() == [row % 10 for row in range(COUNT)]
    assert query_groups(with_shared_references()).tolist() == [row % 10 for row in range(COUNT)]
    assert query_groups(replace(exemplars, query_id=None)).tolist() == list(range(COUNT))


def test_a_table_split_by_query_keeps_shared_references_together(tmp_path: Path) -> None:
    rows = [
        {"references": [f"query {row}", f"of {row % 10}"], "bag": ["the same"], "label": row // 2 % 2}
        for row in range(COUNT)
    ]
    table = FromTable(write_json_lines(tmp_path / "a.jsonl", rows), shares=Shares(0.3, 0), split_by="query")
    sets = table.build(SilentProgress())
    texts = [set(split.pool.values[split.all_references[1]]) for split in sets.values()]
    assert len(texts) == 2
    assert not texts[0] & texts[1]

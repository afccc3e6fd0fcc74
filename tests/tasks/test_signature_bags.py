from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miv.data import ExemplarSet, InstancePool
from miv.errors import MIVError
from miv.tasks.signature import Writer, draw_exemplars


def people(counts: list[tuple[str, int, int]]) -> list[Writer]:
    """Writers of (script, number of genuine, number of forged), their images one after the other."""
    writers, place = [], 0
    for script, genuine, forged in counts:
        middle = place + genuine
        writers.append(Writer(script, list(range(place, middle)), list(range(middle, middle + forged))))
        place = middle + forged
    return writers


def draw(writers: list[Writer], anchors_per_query: int = 0, seed: int = 0) -> ExemplarSet:
    images = sum(len(writer.genuine) + len(writer.forged) for writer in writers)
    pool = InstancePool("image", np.zeros((images, 1, 1), np.uint8))
    return draw_exemplars(pool, writers, anchors_per_query, np.random.default_rng(seed))


def test_three_writers_by_hand() -> None:
    # Only the first has two genuine signatures: each asks once for the other, positive and negative.
    exemplars = draw(people([("dutch", 2, 1), ("dutch", 1, 0), ("chinese", 1, 0)]))
    assert exemplars.label.tolist() == [1, 0, 1, 0]
    assert sorted(exemplars.query[exemplars.label == 1].tolist()) == [0, 1]
    for positive in (0, 2):
        query = int(exemplars.query[positive])
        assert set(exemplars.bag(positive).tolist()) == {1 - query, 3, 4}
        witness = exemplars.bag_witness(positive)
        assert witness is not None
        assert exemplars.bag(positive)[witness].tolist() == [1 - query]


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.sampled_from(["dutch", "chinese"]), st.integers(2, 4), st.integers(0, 5)),
        min_size=3,
        max_size=9,
    ),
    st.integers(0, 2),
    st.integers(0, 99),
)
def test_the_rules_of_the_task(counts: list[tuple[str, int, int]], anchors: int, seed: int) -> None:
    writers = people(counts)
    exemplars = draw(writers, anchors, seed)
    owner = {image: i for i, writer in enumerate(writers) for image in writer.genuine}
    victim = {image: i for i, writer in enumerate(writers) for image in writer.forged}
    expected = sum(max(g, f) * 2 * (min(anchors, g - 1) if anchors else g - 1) for _, g, f in counts)
    assert len(exemplars) == expected
    assert exemplars.label.mean() == 0.5
    for e in range(len(exemplars)):
        query, bag, witness = int(exemplars.query[e]), exemplars.bag(e).tolist(), exemplars.bag_witness(e)
        assert witness is not None
        assert 2 <= len(bag) <= 8
        assert len(set(bag)) == len(bag)
        assert query not in bag
        assert set(bag) <= set(owner)  # anchors are genuine
        if exemplars.label[e]:
            assert witness.tolist() == [owner[image] == owner[query] for image in bag]
            assert 1 <= witness.sum() <= 2
        else:
            assert not witness.any()
            if query in victim:
                assert victim[query] in {owner[image] for image in bag}
            else:
                assert owner[query] not in {owner[image] for image in bag}


def test_shares_of_kinds_and_scripts() -> None:
    writers = people([("dutch", 8, 6)] * 10 + [("chinese", 8, 12)] * 6)
    exemplars = draw(writers)
    script = {image: writer.script for writer in writers for image in writer.genuine}
    forged = {image for writer in writers for image in writer.forged}
    negatives = exemplars.query[exemplars.label == 0].tolist()
    assert sum(query in forged for query in negatives) / len(negatives) == pytest.approx(0.9, abs=0.02)
    assert forged <= set(negatives)  # every forgery asks
    assert exemplars.group is not None
    kinds = Counter(
        script[int(image)] == exemplars.group[e]
        for e in range(len(exemplars))
        for image in exemplars.bag(e)
        if exemplars.label[e]
    )
    assert kinds[True] > 1.5 * kinds[False]
    assert set(exemplars.bag_sizes.tolist()) == set(range(2, 9))


def test_too_few_writers_are_refused() -> None:
    with pytest.raises(MIVError, match=r"signatures of 2 writers\. Expected at least 3"):
        draw(people([("dutch", 3, 0), ("dutch", 3, 0)]))
    with pytest.raises(MIVError, match="two genuine"):
        draw(people([("dutch", 1, 3)] * 5))

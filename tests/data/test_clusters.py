from hypothesis import given
from hypothesis import strategies as st

from miv.data.splits import connected

LINKS = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=4), min_size=1, max_size=8)


@given(LINKS, st.randoms(use_true_random=False))
def test_the_number_is_the_smallest_node_in_reach_whatever_the_order(links: list[list[int]], random: object) -> None:
    expected = []
    for link in links:
        reach = set(link)
        for _ in links:  # as often as the longest way can need it
            reach = reach.union(*(other for other in links if reach & set(other)))
        expected.append(min(reach))
    shuffled = [sorted(link, key=lambda _: random.random()) for link in links]  # type: ignore[attr-defined]
    assert connected(links, 10).tolist() == connected(shuffled, 10).tolist() == expected

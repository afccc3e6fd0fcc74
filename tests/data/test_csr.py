"""Ragged arithmetic against a loop over the bags."""

import numpy as np
from hypothesis import given, strategies as st

from miv.data import csr

numbers = st.floats(-1e6, 1e6)
ragged = st.lists(st.lists(numbers, max_size=4), max_size=6)


def flat(bags: list[list[float]]) -> tuple[np.ndarray, np.ndarray]:
    """The rows of all bags, and the borders between them."""
    ptr = [0]
    for bag in bags:
        ptr.append(ptr[-1] + len(bag))
    return np.array([value for bag in bags for value in bag], float), np.array(ptr)


@given(ragged)
def test_borders_owners_and_places_count_the_rows_of_each_bag(bags: list[list[float]]) -> None:
    _, ptr = flat(bags)
    rows = [(number, place) for number, bag in enumerate(bags) for place in range(len(bag))]
    borders = csr.borders([len(bag) for bag in bags])
    assert borders.dtype == np.int64
    assert borders.tolist() == ptr.tolist()
    assert list(zip(csr.owners(ptr).tolist(), csr.places(ptr).tolist(), strict=True)) == rows


@given(ragged)
def test_each_bag_is_reduced_alone(bags: list[list[float]]) -> None:
    values, ptr = flat(bags)
    np.testing.assert_allclose(csr.bag_sums(values, ptr), [sum(bag) for bag in bags], atol=1e-6)
    assert csr.bag_maxima(values, ptr).tolist() == [max(bag, default=-np.inf) for bag in bags]
    above = [[value > 0 for value in bag] for bag in bags]
    assert csr.bag_any(values > 0, ptr).tolist() == [any(bag) for bag in above]
    assert csr.bag_sums(values > 0, ptr).tolist() == [sum(bag) for bag in above]


@given(ragged)
def test_a_value_of_a_bag_goes_to_each_of_its_rows(bags: list[list[float]]) -> None:
    _, ptr = flat(bags)
    values = np.arange(2 * len(bags)).reshape(len(bags), 2)
    rows = [values[number].tolist() for number, bag in enumerate(bags) for _ in bag]
    assert csr.to_rows(values, ptr).tolist() == rows


@given(ragged.filter(len), st.data())
def test_chosen_bags_keep_their_rows_in_the_order_asked(bags: list[list[float]], data: st.DataObject) -> None:
    values, ptr = flat(bags)
    chosen = data.draw(st.lists(st.integers(0, len(bags) - 1), max_size=8))
    taken, rows = csr.take_bags(ptr, np.array(chosen, np.int64))
    expected, borders = flat([bags[number] for number in chosen])
    assert taken.tolist() == borders.tolist()
    assert values[rows].tolist() == expected.tolist()

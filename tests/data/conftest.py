"""Fixtures for tests of data."""

from collections.abc import Iterator

import pytest

from miv.errors import collect_warnings


@pytest.fixture
def warned() -> Iterator[list[str]]:
    """The warnings of this test."""
    with collect_warnings() as collected:
        yield collected

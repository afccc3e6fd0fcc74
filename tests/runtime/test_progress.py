from contextlib import suppress

import pytest

from miv.runtime import RichProgress


@pytest.mark.parametrize(("units", "shown"), [([2, 1], "3/3"), ([], "1/1")])
def test_a_step_of_unknown_length_ends_with_its_count(
    capsys: pytest.CaptureFixture[str], units: list[int], shown: str
) -> None:
    with RichProgress().step("Reading exemplars") as advance:
        for count in units:
            advance(count)
    said = capsys.readouterr().err
    assert shown in said
    assert "?" not in said


def test_a_step_that_fails_does_not_claim_to_be_complete(capsys: pytest.CaptureFixture[str]) -> None:
    step = RichProgress().step("Reading exemplars")
    with suppress(ValueError), step as advance:
        advance(2)
        raise ValueError
    assert "2/2" not in capsys.readouterr().err

"""Goals for a threshold: equal errors, a bound on one or both kinds of error, or the lowest cost."""

from miv.calibration.both_rates_goal import BothAtMost
from miv.calibration.cost_goals import EqualErrors, LeastCost
from miv.calibration.goal_base import Goal
from miv.calibration.rate_goals import FalseAcceptsAtMost, FalseRejectsAtMost
from miv.errors import MIVError

__all__ = ["BothAtMost", "EqualErrors", "FalseAcceptsAtMost", "FalseRejectsAtMost", "Goal", "LeastCost", "parse_goal"]

FORMS = (
    "eer, far=0.01, frr=0.05, both as far=0.01,frr=0.05, or cost=FALSE_ACCEPT:FALSE_REJECT[:PRIOR] such as "
    "cost=10:1:0.2"
)


def parse_goal(text: str) -> Goal:
    """Parse a goal in the form of the command line.

    >>> parse_goal("far=0.01").words
    'false-accept rate <= 0.01'
    >>> parse_goal("far=0.01,frr=0.05").words
    'false-accept rate <= 0.01, false-reject rate <= 0.05'
    """
    parts = [_parse_one(part, text) for part in text.split(",")]
    if len(parts) == 1:
        return parts[0]
    far = [part for part in parts if isinstance(part, FalseAcceptsAtMost)]
    frr = [part for part in parts if isinstance(part, FalseRejectsAtMost)]
    if len(parts) != 2 or len(far) != 1 or len(frr) != 1:
        raise MIVError(f"The goal is {text!r}. Expected {FORMS}.")
    return BothAtMost(far[0], frr[0])


def _parse_one(part: str, text: str) -> Goal:
    name, _, rest = part.strip().partition("=")
    numbers = []
    for number in rest.split(":") if rest else []:
        try:
            numbers.append(float(number))
        except ValueError as error:
            raise MIVError(f"The goal is {text!r}, in which {number!r} is not a number. Expected {FORMS}.") from error
    if name == "eer" and not numbers:
        return EqualErrors()
    if name in ("far", "frr") and len(numbers) == 1:
        return FalseAcceptsAtMost(*numbers) if name == "far" else FalseRejectsAtMost(*numbers)
    if name == "cost" and len(numbers) in (2, 3):
        return LeastCost(*numbers)
    raise MIVError(f"The goal is {text!r}. Expected {FORMS}.")

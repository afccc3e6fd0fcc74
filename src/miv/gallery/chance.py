"""False accepts grow with the number of bags: how likely the best of many is a hit by chance."""

import math
from typing import Any

from miv.decisions.operating_point import OperatingPoint


class Chance:
    r"""The probability that the best of ``N`` bags without the query's class reaches some probability.

    .. math:: P = 1 - (1 - r)^N

    The false-accept rate :math:`r` of one bag is that of the negatives on which the verifier was calibrated, counted so
    that it is never 0: a probability above all ``n`` negatives has :math:`r = 1 / (n + 1)`.

    Args:
        point: the operating point of the verifier.
    """

    def __init__(self, point: OperatingPoint) -> None:
        self._is_calibrated = not point.is_default
        self._threshold = point.threshold
        self._tail = _tail_of(point.measured)
        self._rate_at_threshold = _rate_of(point.measured)

    def rate(self, probability: float) -> tuple[float, bool] | None:
        """The false-accept rate of one bag, and whether it is only an upper bound; ``None`` if unknown."""
        if self._tail is not None:
            negatives, reached, counts = self._tail
            for count, value in zip(counts, reached, strict=True):
                if value < probability:
                    return min(1.0, max(count / (counts[-1] + 1), 1 / (negatives + 1))), count == 1
            return 1.0, False
        if self._rate_at_threshold is not None and probability >= self._threshold:
            return self._rate_at_threshold, True
        return None

    def of(self, probability: float, bags: int) -> float | None:
        """The probability that a chance hit is this good, among so many bags."""
        rate = self.rate(probability)
        if rate is None:
            return None
        return 1.0 if rate[0] >= 1 else -math.expm1(bags * math.log1p(-rate[0]))

    def words(self, probability: float | None, bags: int) -> str:
        """What to tell about the best hit."""
        if not self._is_calibrated:
            return (
                "The verifier is not calibrated, so the probabilities are rough, and nothing can be said about chance "
                "hits. Run `miv calibrate`."
            )
        if probability is None:
            return "The gallery is empty."
        chance, rate = self.of(probability, bags), self.rate(probability)
        if chance is None or rate is None:
            return (
                "The calibration does not say how often a bag without the query's class gets so high a probability. "
                "Calibrate again with `miv calibrate`."
            )
        if rate[1] and chance > 0.99:
            return (
                f"Among {bags:,} bags without the query's class, the best might look this good by chance: the data of "
                "the calibration have too few negatives to rule that out."
            )
        at_most = "at most " if rate[1] else ""
        return (
            f"If none of the {bags:,} bags held the query's class, the best would look this good with probability "
            f"{at_most}{_shown(chance)}."
        )


def _shown(chance: float) -> str:
    return "above 0.99" if chance > 0.99 else f"{chance:.2g}"


def _tail_of(measured: dict[str, Any]) -> tuple[float, list[float], list[int]] | None:
    """Effective number of negatives, and the probability that 1, 2, ... of them reach, if the file has them."""
    tail = measured.get("false_accepts")
    if not isinstance(tail, dict):
        return None
    negatives, reached, counts = tail.get("effective_negatives"), tail.get("probability"), tail.get("count")
    if not isinstance(reached, list) or not isinstance(counts, list) or not 0 < len(reached) == len(counts):
        return None
    if not _are_numbers([negatives, *reached, *counts]) or negatives is None or min(negatives, *counts) <= 0:
        return None
    return float(negatives), reached, counts


def _rate_of(measured: dict[str, Any]) -> float | None:
    rates = measured.get("false_accept_rate")
    rate = rates.get("at_most", rates.get("value")) if isinstance(rates, dict) else None
    return float(rate) if rate is not None and _are_numbers([rate]) and 0 <= rate <= 1 else None


def _are_numbers(values: list[Any]) -> bool:
    return all(isinstance(one, int | float) and not isinstance(one, bool) and math.isfinite(one) for one in values)

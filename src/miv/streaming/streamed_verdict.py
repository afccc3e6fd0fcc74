"""The verdict on a bag that was read in chunks."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from miv.errors import MIVError
from miv.files.json import Floats, Mask
from miv.poolings.kept_form import PooledBag
from miv.verifier.decisions import Decision, decision_of, threshold_words
from miv.verifier.engine import warn_of_other_sizes, witnesses_by
from miv.verifier.out_of_distribution import UNLIKE
from miv.verifier.verdict import Witness

if TYPE_CHECKING:
    from miv.verifier.network import Verifier


@dataclass(frozen=True)
class StreamedVerdict:
    """The verdict on one query and a bag of ``N`` targets, of which only the leading ones are named.

    Args:
        verdict: whether the bag holds something of the query's class.
        probability: probability that it does, calibrated if the verifier is.
        threshold: the verdict is yes if the probability is at least this.
        logit: before calibration.
        leading: the targets with the largest shares of attention, largest first, as many as were asked for.
        witnesses: those of ``leading`` that the verifier's witness rule chooses.
        size: ``N``.
        lower_threshold: as in ``Verdict``.
        reason: why no answer is given, if the query or the whole bag is unlike the training data.
    """

    verdict: bool
    probability: float
    threshold: float
    logit: float
    leading: tuple[Witness, ...]
    witnesses: tuple[Witness, ...]
    size: int
    lower_threshold: float | None
    reason: str | None

    @property
    def decision(self) -> Decision:
        """``yes``, ``no`` or ``unsure``, as in ``Verdict``."""
        return "unsure" if self.reason else decision_of(self.verdict, self.probability, self.lower_threshold)

    def __bool__(self) -> bool:
        return self.verdict

    def __str__(self) -> str:
        words = threshold_words(self.threshold, self.lower_threshold)
        because = f" ({self.reason})" if self.reason else ""
        lines = [f"{self.decision.capitalize()}{because}: probability {self.probability:.3f}, {words}."]
        lines.append(f"Bag of {self.size:,}, {len(self.leading)} leading by attention:" if self.leading else "")
        witnesses = {witness.index for witness in self.witnesses}
        mark = "witness" if self.verdict else "candidate"
        for target in self.leading:
            word = mark if target.index in witnesses else ""
            lines.append(f"{target.index:>12}  {target.score:.6f}  {word}".rstrip())
        return "\n".join(line for line in lines if line)

    def document(self) -> dict[str, Any]:
        """Return plain values, for JSON, with the bounds and the error that an exact answer has."""
        return {
            "verdict": self.verdict,
            "decision": self.decision,
            "probability": self.probability,
            "probability_bounds": [self.probability, self.probability],
            "standard_error": 0.0,
            "threshold": self.threshold,
            "lower_threshold": self.lower_threshold,
            "logit": self.logit,
            "size": self.size,
            "compared": self.size,
            "leading": [asdict(target) for target in self.leading],
            "witnesses": [asdict(target) for target in self.witnesses],
            "reason": self.reason,
        }


def check_logits(logit: Floats) -> None:
    """Raise an error unless the logits ``(R,)`` of all queries are finite."""
    if not np.isfinite(logit).all():
        raise MIVError(
            f"The verifier's logit for query {int((~np.isfinite(logit)).argmax())} is NaN or infinite, so there is no "
            "verdict. The instances contain numbers far outside the range of the training data, or the verifier's "
            "weights are damaged."
        )


def warn_of_size(verifier: "Verifier", size: int) -> None:
    """Warn if the verifier was calibrated on bags of other sizes."""
    warn_of_other_sizes(verifier.operating_point, np.array([0, size]), None)


def streamed_verdicts(
    verifier: "Verifier", pooled: PooledBag, size: int, unlike_query: Mask, all_unlike: bool
) -> list[StreamedVerdict]:
    """Apply the operating point to the answers for ``R`` queries on a bag of ``size``."""
    check_logits(pooled.logit)
    point = verifier.operating_point
    if len(pooled.places[0]) and (by := witnesses_by(verifier, None)) != "attention":
        raise MIVError(
            f"The verifier's witness rule was calibrated on {by}, but a bag in chunks has only attention. Use top=0, "
            "or calibrate with --witnesses attention."
        )
    probability = point.probability(pooled.logit)
    verdicts = []
    for query, (places, shares) in enumerate(zip(pooled.places, pooled.shares, strict=True)):
        of_query = float(probability[query])
        reason = f"the query is {UNLIKE}" if unlike_query[query] else None
        reason = reason or (f"every instance of the bag is {UNLIKE}" if all_unlike else None)
        leading = tuple(Witness(int(place), float(share)) for place, share in zip(places, shares, strict=True))
        marked = point.witness_rule.chosen(of_query, not point.rejected(of_query), shares, size)
        verdicts.append(
            StreamedVerdict(
                bool(point.verdict(of_query)) and reason is None,
                of_query,
                point.threshold,
                float(pooled.logit[query]),
                leading,
                tuple(witness for witness, is_marked in zip(leading, marked, strict=True) if is_marked),
                size,
                point.lower_threshold,
                reason,
            )
        )
    return verdicts

"""The paper's claims on all its tasks: one table, from finished cells, by the paper's scoring and by ours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from miv.errors import MIVError
from miv.experiments.assertions import judge_claims
from miv.experiments.comparison import CellEvidence
from miv.experiments.conclusion_words import Judged, parts_of, survival
from miv.experiments.contrasts import MISSING
from miv.experiments.grids import EXPERIMENTS
from miv.experiments.judging import MARGIN, Assertion
from miv.experiments.report_documents import claim_document
from miv.experiments.text_tables import NOTHING, Table
from miv.experiments.tiers import find_tier

NO_CELLS, CELLS_MISSING = "no cells", "cells missing"
NOT_CLAIMED = "not claimed"


@dataclass(frozen=True)
class Ground:
    """The cells that claims are judged by: a task in a tier.

    Args:
        heading: its column.
        task: the task.
        tier: the tier; ``None`` for the one asked for.
        shared: what its rounds share, which no error here covers.
    """

    heading: str
    task: str
    tier: str | None
    shared: str


_WRITERS = "the rounds draw other exemplars, but of the same 148 test writers"
GROUNDS = (
    Ground("QMNIST", "qmnist", None, _WRITERS),
    Ground("QMNIST, frozen backbone", "qmnist", "frozen", f"{_WRITERS}, and they share one backbone"),
    Ground("signatures", "signature", None, "the rounds divide the same few writers anew, so test writers recur"),
    Ground(
        "FEVER, development set", "fever-dev", None, "the rounds test on the same claims and topics, with other weights"
    ),
)


@dataclass(frozen=True)
class Conclusions:
    """Every claim on every ground.

    Args:
        remarks: what a reader must know.
        tables: judgements, and the contrasts behind them.
        sentences: which claims survive.
        judged: the judgements by ground and name.
    """

    remarks: list[str]
    tables: list[Table]
    sentences: list[str]
    judged: Mapping[str, Judged] = field(repr=False)
    title: str = "Which of the paper's claims hold?"
    key: str = "conclusions"
    claims: tuple[Assertion, ...] = ()  # the tables have them

    def document(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        grounds = {
            heading: {name: None if claim is None else claim_document(claim) for name, claim in some.items()}
            for heading, some in self.judged.items()
        }
        return {"remarks": self.remarks, "sentences": self.sentences, "grounds": grounds}


def draw_conclusions(results: Path, tier: str, rounds: Sequence[int]) -> Conclusions:
    """Judge every claim by the finished cells of every ground."""
    if find_tier(tier).is_twin:
        raise MIVError(f"The tier {tier} runs on synthetic twins, which say nothing about the paper. Use --tier cpu.")
    judged = {one.heading: _judge(CellEvidence(one.task, one.tier or tier, tuple(rounds), results)) for one in GROUNDS}
    found = {name: parts_of(name, some) for some in judged.values() for name in some}
    claims = list(dict.fromkeys(claim for claim, _ in found.values()))
    names = sorted(found, key=lambda name: claims.index(found[name][0]))  # the scorings of a claim together
    rows, behind = [], []
    for name in names:
        rows.append([*found[name], *(_cell(some, name) for some in judged.values())])
        behind.append([*found[name], *(_behind(some, name) for some in judged.values())])
    headings = ["claim", "witnesses scored", *judged]
    note = (
        "The number is the effect of the contrast that shows the claim least, with its 95 % interval: the wider one of "
        "the interval over exemplars (normal distribution) and, with several rounds, the one over rounds (Student's "
        "t). A claim about several differences holds only if all of them show it. It must be above 0; of baseline ≥ "
        f"benchmarks above −{MARGIN}, and of what matters little within ±{MARGIN}. It does not hold if one of them is "
        "significantly beyond that bound after Holm's correction, so an interval beyond it is not enough. * one round: "
        "its interval covers new exemplars, not other training runs."
    )
    tables = [
        Table("Every claim on every task", headings, rows, note),
        Table("The contrast that shows a claim least, or the reason why nothing can be told", headings, behind),
    ]
    shared = "; ".join(f"{one.heading}: {one.shared}" for one in GROUNDS)
    remarks = [
        "`miv reproduce --conclusions` writes this from the finished cells. docs/reproducing.md says how claims are "
        "judged and witnesses are scored.",
        f"Rounds are not independent. {shared}. Neither the tests nor the intervals cover that.",
    ]
    return Conclusions(remarks, tables, survival(judged), judged)


def _judge(evidence: CellEvidence) -> Judged:
    """The claims by name; ``None`` for those that need cells which are not computed."""
    found: dict[str, Assertion | None] = {}
    for one in EXPERIMENTS[evidence.task].values():
        for claim in judge_claims(one, evidence):
            found[claim.name] = None if claim.reason.startswith(MISSING) else claim
    return found


def _cell(judged: Judged, name: str) -> str:
    if name not in judged:
        return NOT_CLAIMED
    claim = judged[name]
    if claim is None:
        return CELLS_MISSING if any(judged.values()) else NO_CELLS
    if claim.weakest is None:
        return claim.judgement
    value = claim.weakest.value
    low, high = value.interval
    star = "*" if value.rounds == 1 else ""
    return f"{claim.judgement}\n{value.value:+.3f} [{low:+.3f}, {high:+.3f}]{star}"


def _behind(judged: Judged, name: str) -> str:
    claim = judged.get(name)
    if claim is None:
        return NOTHING
    if claim.weakest is None:
        return claim.reason
    among = f"\nof {len(claim.effects)}: {min(claim.effects):+.3f} to {max(claim.effects):+.3f}"
    return claim.weakest.what + (among if len(claim.effects) > 1 else "")

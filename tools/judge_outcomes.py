"""Fit how the answers of a judge to pairs become the outcomes of `miv check`, and measure them.

    python -m tools.judge_outcomes --data DATA [--judge FOLDER] [--split test]

The cases are claims of fever-dev and fm2 with their whole bags, validation splits only: as they are, with a number, a
name or a word swapped, negated, and with a bag without their evidence. `--split test` fits nothing: it measures the
settings on claims of the test splits.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit
from sklearn.linear_model import LogisticRegression
from tools.judge_data import read_claims_of
from tools.judge_rules import NameBook, antonym_swap, negated, swaps
from tools.judge_shipping import lines_of

from miv import Verifier
from miv.backbones.pairs import JUDGE_SETTINGS, Judge
from miv.checking.details import capitalised
from miv.checking.judging import JudgeSettings, SourceBag, read_claims
from miv.checking.results import JUDGED, Source
from miv.checking.sentences import Sentence
from miv.tasks.claims import ClaimBag

SUPPORTED, CONTRADICTED, ABSENT = range(3)
FALSE_KINDS = ("refuted", "number", "name", "negation", "antonym")
MOST_FALSE, MOST_CONTRADICTED, MOST_ABSENT = 0.10, 0.03, 0.03  # what the thresholds are chosen for


@dataclass(frozen=True)
class Case:
    """A claim, what the sources say about it, and how it came about."""

    claim: str
    truth: int
    kind: str


def cases_of(bag: ClaimBag, book: NameBook, random: np.random.Generator) -> Iterator[Case]:
    """The claim, and claims made from it by rule."""
    yield Case(bag.claim, SUPPORTED if bag.supported else CONTRADICTED, "true" if bag.supported else "refuted")
    negative = negated(bag.claim, random)
    if negative:
        yield Case(negative, CONTRADICTED, "negation") if bag.supported else Case(negative, SUPPORTED, "negated false")
    if not bag.supported:
        return
    gold = [sentence.text for sentence in bag.sentences if sentence.is_evidence]
    found = [swap for target in gold for swap in swaps(bag.claim, target, book, random)]
    for kind in ("number", "name"):
        own = [swap for swap in found if (kind == "number") == (swap.old[0].isdigit() or swap.old[0].islower())]
        if own:
            swap = own[int(random.integers(len(own)))]
            yield Case(swap(bag.claim), CONTRADICTED, kind)
    opposite = antonym_swap(bag.claim)
    if opposite:
        yield Case(opposite(bag.claim), CONTRADICTED, "antonym")


def source_bag(texts: list[str], judge: Judge) -> SourceBag:
    """Sentences as one document."""
    sentences = [Sentence(text, number, number, True, True, number, "") for number, text in enumerate(texts, 1)]
    source = Source("source", tuple(sentences))
    return SourceBag([(source, sentence) for sentence in sentences], judge)


@dataclass(frozen=True)
class Row:
    """A case as the judge read it: the inputs of the settings, whether a detail is missing, and all pairs."""

    name: str  # of the set
    case: Case
    inputs: NDArray[np.float64]
    missing: bool
    pairs: NDArray[np.float64]  # (P, 3) of the whole claim; of the candidates first, in the order of their rank
    near: NDArray[np.float64]  # (P',) similarity of the candidates


def read(judge: Judge, name: str, bags: list[ClaimBag], seed: int) -> Iterator[Row]:
    """Let the judge read all cases."""
    random = np.random.default_rng(seed)
    book = NameBook([text for bag in bags for text in (bag.claim, *(one.text for one in bag.sentences))])
    for number, bag in enumerate(bags):
        if number % 50 == 0:
            print(f"{number} of {len(bags)} claims", flush=True)
        whole = [sentence.text for sentence in bag.sentences]
        others = [sentence.text for sentence in bag.sentences if not sentence.is_evidence]
        jobs = [(list(cases_of(bag, book, random)), whole)]
        if others and number % 2:
            jobs.append(([Case(bag.claim, ABSENT, "absent")], others))
        for cases, texts in jobs:
            sources = source_bag(texts, judge)
            found = read_claims(judge, [case.claim for case in cases], sources)
            for case, one in zip(cases, found, strict=True):
                positions = tuple(one.cited("supported", 3))
                missing = sources.missing_details(case.claim, positions, capitalised([case.claim]))
                yield Row(name, case, one.inputs[0], bool(missing), one.whole.answers, one.whole.similarity)


def fit(rows: list[Row]) -> JudgeSettings:
    """Weights by multinomial regression on all sets, each outcome counting equally; thresholds by rates on FEVER.

    The claims of Fool Me Twice were written to mislead, so rates on them would be those of no ordinary text.
    """
    x = np.array([row.inputs for row in rows])
    x[:, :2] = logit(np.clip(x[:, :2], 1e-6, 1 - 1e-6))
    model = LogisticRegression(C=1.0, class_weight="balanced", max_iter=1000).fit(x, [row.case.truth for row in rows])
    weights = np.column_stack([model.coef_, model.intercept_]).round(4)
    fitted = JudgeSettings(tuple(map(tuple, weights.tolist())))
    rows = [row for row in rows if row.name == "fever"]
    p, missing = fitted.probabilities(np.array([row.inputs for row in rows])), np.array([row.missing for row in rows])
    kind = np.array([row.case.kind for row in rows])
    supported = max(_least(np.where(missing, 0.0, p[:, 0])[kind == name], MOST_FALSE) for name in FALSE_KINDS)
    contradicted = _least(p[kind == "true", 1], MOST_CONTRADICTED)
    absent = _least(p[kind == "true", 2], MOST_ABSENT)
    limits = dict(zip(JUDGED, (supported, contradicted, absent), strict=True))
    return replace(fitted, thresholds={name: round(value, 4) for name, value in limits.items()})


def _least(values: NDArray[np.float64], share: float) -> float:
    """The least threshold that at most a share of new values reaches, on average: conformal risk control."""
    allowed = max(0, int(share * (len(values) + 1)) - 1)
    return float(np.sort(values)[::-1][allowed]) + 1e-4


Shares = dict[str, dict[str, dict[str, float]]]


def measure(settings: JudgeSettings, rows: list[Row]) -> Shares:
    """The share of each outcome, by set and kind of case."""
    said: dict[str, dict[str, list[str]]] = {}
    for row, p in zip(rows, settings.probabilities(np.array([row.inputs for row in rows])), strict=True):
        outcome = settings.outcome(p, None)
        outcome = "unsure" if outcome == "supported" and row.missing else outcome
        said.setdefault(row.name, {}).setdefault(row.case.kind, []).append(outcome)
    names = (*JUDGED, "unsure")
    return {
        name: {
            kind: {one: round(some.count(one) / len(some), 3) for one in names} | {"n": len(some)}
            for kind, some in kinds.items()
        }
        for name, kinds in said.items()
    }


def goal_of(shares: Shares) -> str:
    """What the thresholds gave, in words."""
    fever, hard = shares["fever"], shares.get("fm2", {})
    false = max(fever[kind]["supported"] for kind in FALSE_KINDS)
    words = (
        f"of FEVER claims {fever['true']['supported']:.0%} of the true ones were called supported and "
        f"{fever['true']['contradicted']:.0%} contradicted, and up to {false:.0%} of the false ones supported"
    )
    return f"{words}; of claims made to mislead, {hard['refuted']['supported']:.0%}" if hard else words


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--judge", type=Path, default=Path("src/miv/verifier/shipped_verifiers/judge"))
    parser.add_argument("--split", default="validation", choices=["validation", "test"])
    parser.add_argument("--most", type=int, default=500, help="claims of each set")
    options = parser.parse_args()
    judge = Verifier.from_pretrained(options.judge).backbone
    assert isinstance(judge, Judge)
    settings = JudgeSettings.of(options.judge, judge.weights_sha256)
    rows: list[Row] = []
    for name in ("fever", "fm2"):
        splits = read_claims_of(options.data, name)
        if options.split in splits:
            order = np.random.default_rng(0).permutation(len(splits[options.split]))[: options.most]
            rows += read(judge, name, [splits[options.split][place] for place in order], 0)
    if options.split == "validation":
        settings = fit(rows)
    shares = measure(settings, rows)
    for name, kinds in shares.items():
        for kind, one in kinds.items():
            print(f"{name:6} {kind:14}", one)
    if options.split == "validation":
        document = {
            "weights_sha256": judge.weights_sha256,
            "weights": settings.weights,
            "thresholds": settings.thresholds,
            "measured": {"goal": goal_of(shares), "claims": "fever-dev and fm2, validation", "shares": shares},
        }
        (options.judge / JUDGE_SETTINGS).write_text(lines_of(document), encoding="utf-8")
        print(goal_of(shares), settings.thresholds)


if __name__ == "__main__":
    main()

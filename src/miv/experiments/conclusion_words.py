"""Which of the paper's claims survive, in sentences, from the judgements by task and scoring."""

from collections.abc import Iterable, Mapping

from miv.experiments.judging import FAILS, HOLDS, UNKNOWN, Assertion
from miv.experiments.scorings import PAPERS, SCORINGS

Judged = Mapping[str, Assertion | None]  # by name; ``None`` if there is no cell
_PAPERS, _NO_WITNESSES = "as in the paper", "–"


def parts_of(name: str, names: Iterable[str]) -> tuple[str, str]:
    """A claim and how witnesses are scored in it, from its name among all names.

    >>> names = ["CAP > baseline", "gap", "gap, by own score"]
    >>> [parts_of(name, names) for name in names]
    [('CAP > baseline', '–'), ('gap', 'as in the paper'), ('gap', 'by own score')]
    """
    for scoring in SCORINGS:
        if scoring is not PAPERS and name.endswith(f", {scoring.name}"):
            return name.removesuffix(f", {scoring.name}"), scoring.name
    others = {scoring.of(name) for scoring in SCORINGS if scoring is not PAPERS}
    return name, _PAPERS if others & set(names) else _NO_WITNESSES


def survival(grounds: Mapping[str, Judged]) -> list[str]:
    """One paragraph per ground that has cells, and one about all of them."""
    sentences = []
    kept: list[dict[str, bool]] = []  # whether a claim that is judged survives
    for heading, judged in grounds.items():
        claims = _by_claim(judged)
        if not claims:
            sentences.append(f"{heading}: no cells, so nothing is judged.")
            continue
        survives = {name: set(some.values()) == {HOLDS} for name, some in claims.items()}
        survivors = [name for name in survives if survives[name]]
        kept.append(survives)
        sentences.append(f"{heading}: {_words(claims, survivors)}")
    if len(kept) > 1:
        names = dict.fromkeys(name for some in kept for name in some)
        everywhere = [name for name in names if all(some.get(name, True) for some in kept)]
        sentences.append(f"These survive every scoring on every task that has their cells: {_listed(everywhere)}.")
    return sentences


def _by_claim(judged: Judged) -> dict[str, dict[str, str]]:
    """The judgement of each claim that has cells, by scoring."""
    found: dict[str, dict[str, str]] = {}
    for name, claim in judged.items():
        if claim is not None:
            whole, scoring = parts_of(name, judged)
            found.setdefault(whole, {})[scoring] = claim.judgement
    return found


def _words(claims: Mapping[str, Mapping[str, str]], survivors: list[str]) -> str:
    only_papers = [
        name for name, some in claims.items() if some.get(_PAPERS) == HOLDS and set(some.values()) != {HOLDS}
    ]
    refuted = [
        f"{name} ({scoring})" if scoring != _NO_WITNESSES else name
        for name, some in claims.items()
        for scoring, judgement in some.items()
        if judgement == FAILS
    ]
    told = {name for name, some in claims.items() if FAILS in some.values()} | set(only_papers) | set(survivors)
    unknown = [name for name, some in claims.items() if name not in told and UNKNOWN in some.values()]
    parts = [
        f"These survive every scoring that applies: {_listed(survivors)}.",
        f"These hold as the paper scores them, but are not shown by every other scoring: {_listed(only_papers)}.",
        f"These do not hold: {_listed(refuted)}.",
        f"Of these it cannot be told: {_listed(unknown)}.",
    ]
    return " ".join(parts)


def _listed(names: Iterable[str]) -> str:
    return "; ".join(names) or "none"

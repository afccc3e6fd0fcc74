"""Verdicts, tests and orders as plain values, for JSON."""

import math
from dataclasses import asdict, replace
from typing import Any

from miv.experiments.comparison import Comparison, PairedTest
from miv.experiments.judging import Assertion
from miv.experiments.ranking import Ranking
from miv.experiments.report_tables import label


def verdict_document(verdict: Comparison) -> dict[str, Any]:
    """A figure of a table, and the paper's."""
    ours, paper = verdict.ours, verdict.paper
    document = {
        "model": verdict.row.model,
        "variant": verdict.row.variant,
        "metric": verdict.metric,
        "ours": None if ours is None else ours.value,
        "standard_error": None if ours is None else ours.standard_error,
        "error_over": None if ours is None else "exemplars" if ours.over_rounds is None else "rounds",
        "rounds": 0 if ours is None else ours.rounds,
        "paper": None if paper is None else paper.mean,
        "paper_standard_error": None if paper is None else paper.standard_error,
        "difference": verdict.difference,
        "verdict": verdict.word or None,
    }
    return _without_nan(document)


def paired_document(test: PairedTest) -> dict[str, Any]:
    """A paired test."""
    return _without_nan(
        {
            "row": label(test.row),
            "against": label(test.reference),
            "metric": test.metric,
            "difference": test.difference.value,
            "standard_error_over_exemplars": test.difference.over_exemplars,
            "standard_error_over_rounds": test.difference.over_rounds,
            "rounds": test.difference.rounds,
            "p_holm": test.p,
        }
    )


def ranking_document(ranking: Ranking) -> dict[str, Any]:
    """An order of the models."""
    return _without_nan(asdict(ranking))


def claim_document(claim: Assertion) -> dict[str, Any]:
    """A claim and our judgement, with the contrast that shows it least."""
    document = asdict(replace(claim, weakest=None))
    least, effects = claim.weakest, document.pop("effects")
    document["weakest"] = None
    if least is not None:
        low, high = least.value.interval
        document["weakest"] = _without_nan(
            {"what": least.what, "value": least.value.value, "low": low, "high": high, "p_holm": least.p_holm}
        )
    document["range"] = [min(effects), max(effects)] if effects else None
    return document


def _without_nan(document: dict[str, Any]) -> dict[str, Any]:
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in document.items()
    }

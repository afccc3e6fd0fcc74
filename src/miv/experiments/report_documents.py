"""Verdicts, tests and orders as plain values, for JSON."""

import math
from dataclasses import asdict
from typing import Any

from miv.experiments.comparison import Comparison, PairedTest
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


def _without_nan(document: dict[str, Any]) -> dict[str, Any]:
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in document.items()
    }

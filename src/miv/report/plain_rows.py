"""The reference rows in the table of results: plain methods on the same data."""

from dataclasses import asdict
from html import escape

from miv.reference import Figures
from miv.report.marks import letter
from miv.report.report_sources import ReportSource

PLAIN_WORDS = (
    " Rows marked plain are simple methods on the same data. They give a score, not a verdict, and a model should "
    "beat them. The letters name the models that provided the features."
)


def plain_rows(source: ReportSource) -> list[tuple[str, dict[str, float]]]:
    """The plain methods, each with its head; a method with the same figures for several models appears once."""
    owners: dict[tuple[str, Figures], list[int]] = {}
    for number, model in enumerate(source.models):
        for method, figures in model.reference.items():
            owners.setdefault((method, figures), []).append(number)
    return [
        (
            f"{escape(method)} <small>(plain, {', '.join(map(letter, numbers))})</small>",
            {name: value for name, value in asdict(figures).items() if value is not None},
        )
        for (method, figures), numbers in owners.items()
    ]

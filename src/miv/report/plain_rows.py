"""The rows of the reference in the table of results: what plain methods reach on the same data."""

from dataclasses import asdict
from html import escape

from miv.reference import Figures
from miv.report.marks import letter
from miv.report.report_sources import ReportSource

PLAIN_WORDS = (
    " Rows marked plain are simple methods on the same data, which give a score and no verdict: what a model has to "
    "beat. The letters say on the features of which model they were scored."
)


def plain_rows(source: ReportSource) -> list[tuple[str, dict[str, float]]]:
    """The plain methods, each with its head; one that has the same figures for several models stands once."""
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

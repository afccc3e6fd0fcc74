"""The page itself: one file with inline style and script, and a security policy that blocks everything else."""

import json
from html import escape
from pathlib import Path
from typing import Any

from miv.errors import MIVError
from miv.evaluation import report_sections
from miv.evaluation.page import badge, check_page_name, page_part, whole_page
from miv.evaluation.report_audit import audit_section, read_audit
from miv.evaluation.report_exemplars import gallery
from miv.evaluation.report_sections import calibration_section
from miv.evaluation.report_source import ReportSource
from miv.files.atomic import whole_file

MOST_EXEMPLARS = 20_000


def write_report(
    source: ReportSource,
    out: Path | str,
    *,
    exemplars: int = 2000,
    title: str = "",
    audit: Path | None = None,
) -> None:
    """Write the report as one HTML file, atomically.

    Args:
        source: the result of ``open_runs``.
        out: the output file.
        exemplars: maximum number of exemplars in the gallery, most confident errors first.
        title: title of the page.
        audit: a JSON file that ``miv audit`` wrote for these models.
    """
    out = Path(out)
    check_report(out, exemplars, audit)
    page = render(source, exemplars, title or f"{source.data}, {source.split}", audit)
    with whole_file(out) as temporary:
        temporary.write_text(page, encoding="utf-8", errors="replace")


def check_report(out: Path, exemplars: int, audit: Path | None) -> None:
    """Raise an error before the work starts if something cannot be written or read."""
    if not 1 <= exemplars <= MOST_EXEMPLARS:
        raise MIVError(f"exemplars is {exemplars}. Expected 1 to {MOST_EXEMPLARS:,}.")
    check_page_name(out)
    if audit is not None:
        read_audit(audit)


def render(source: ReportSource, exemplars: int, title: str, audit: Path | None = None) -> str:
    """Return the whole page as text."""
    data = gallery(source, exemplars)
    shown = len(data["exemplar"])
    parts = [
        ("results", "Results", report_sections.results(source)),
        ("exemplars", "Exemplars", _gallery_frame(source, shown)),
        ("reasons", "Right for the right reason?", audit_section(source, audit)),
        ("curves", "Curves", report_sections.curves(source)),
        ("calibration", "Calibration", calibration_section(source)),
        ("training", "Training", report_sections.history(source)),
        ("runs", "Runs", report_sections.settings(source)),
    ]
    navigation = "".join(f'<li><a href="#{name}">{escape(name.capitalize())}</a></li>' for name, _, _ in parts)
    body = "".join(
        f'<section id="{name}" aria-labelledby="{name}-heading"><h2 id="{name}-heading" tabindex="-1">'
        f"{escape(heading)}</h2>{content}</section>"
        for name, heading, content in parts
    )
    data_part = f'<script type="application/json" id="data">{_embedded(data)}</script>'
    return whole_page(
        f"{title}: miv report",
        '<a class="skip" href="#results">Skip to the results</a>'
        f'<header class="top"><h1>{escape(title)}</h1><nav aria-label="Parts of the report">'
        f"<ul>{navigation}</ul></nav></header>"
        f"<main>{_introduction(source)}{body}</main>",
        page_part("report.css"),
        page_part("report.js"),
        data_part,
    )


def _introduction(source: ReportSource) -> str:
    """The idea at a glance; the script adds a typical exemplar of the data."""
    models = source.models
    several = "Two models" if len(models) == 2 else f"{len(models)} models"
    names = " and ".join(badge(n, m.name) for n, m in enumerate(models)) if len(models) < 3 else several
    answers = "each model’s answer" if len(models) > 1 else "the model’s answer"
    return (
        '<section class="lead" aria-labelledby="lead-heading"><h2 id="lead-heading">Does the bag hold something of the '
        "query’s class, and what shows it?</h2>"
        '<ol class="steps"><li><b class="query-word">Query</b> the instance to verify.</li>'
        "<li><b>Bag</b> several instances; only the bag as a whole has a label.</li>"
        '<li><b class="witness-word">Witness</b> an instance of the query’s class in the bag: the reason for a yes. '
        "Framed.</li>"
        f"<li><b>{answers[0].upper() + answers[1:]}</b>, and in bars where it looked ({names}).</li></ol>"
        '<div id="telling"></div></section>'
    )


def _gallery_frame(source: ReportSource, shown: int) -> str:
    total = len(source.exemplars)
    chosen = f"All {total:,}" if shown == total else f"{shown:,} of {total:,}"
    return (
        f"<p>{chosen} exemplars. Most confident errors come first, then the right answers closest to an error.</p>"
        '<form id="filters" class="filters" aria-label="Choose exemplars"></form>'
        '<p id="count" class="count" role="status" aria-live="polite"></p>'
        '<div id="cards" class="cards"></div>'
        '<nav id="pages" class="pages" aria-label="Pages of exemplars"></nav>'
        '<noscript><p class="note">The exemplars need JavaScript; the rest of this page does not.</p></noscript>'
    )


def _embedded(data: dict[str, Any]) -> str:
    """JSON that is safe inside a script element: every < is escaped."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")

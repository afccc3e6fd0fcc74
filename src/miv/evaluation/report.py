"""``miv report``: the page of a report."""

import json
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from miv.errors import MIVError
from miv.evaluation import report_sections
from miv.evaluation.page import badge, check_page_name, page_part, style, whole_page
from miv.evaluation.report_data import ReportModel, ReportSource, gallery
from miv.evaluation.verifier_audit import reasons
from miv.files.atomic import whole_file

MOST_EXEMPLARS = 20_000


def write_report(source: ReportSource, out: Path | str, *, exemplars: int = 2000, title: str = "") -> None:
    """Write the report of ``open_runs`` as one HTML file, atomically; the arguments are those of ``miv.report``."""
    out = Path(out)
    check_report(out, exemplars)
    page = render(source, exemplars, title or f"{source.data}, {source.split}")
    with whole_file(out) as temporary:
        temporary.write_text(page, encoding="utf-8", errors="replace")


def check_report(out: Path, exemplars: int) -> None:
    """Raise an error before the work starts if the page cannot be written."""
    if not 1 <= exemplars <= MOST_EXEMPLARS:
        raise MIVError(f"exemplars is {exemplars}. Expected 1 to {MOST_EXEMPLARS:,}.")
    check_page_name(out)


def render(source: ReportSource, exemplars: int, title: str) -> str:
    """Return the whole page as text."""
    data, models, total = gallery(source, exemplars), source.models, len(source.exemplars)
    shown = len(data["exemplar"])
    several = f"{len(models)} models"
    body = Template(page_part("report.html")).substitute(
        title=escape(title),
        answers="Each model’s answer" if len(models) > 1 else "The model’s answer",
        names=" and ".join(badge(n, m.name) for n, m in enumerate(models)) if len(models) < 3 else several,
        shown=f"All {total:,}" if shown == total else f"{shown:,} of {total:,}",
        results=report_sections.results(source),
        reasons=_reasons(source),
        curves=report_sections.curves(source),
        calibration=report_sections.calibration(source),
        runs=report_sections.settings(source),
    )
    data_part = f'<script type="application/json" id="data">{_embedded(data)}</script>'
    return whole_page(f"{title}: miv report", body, page_part("report.css"), page_part("report.js"), data_part)


def _embedded(data: dict[str, Any]) -> str:
    """JSON that is safe inside a script element: every < is escaped."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


# Right for the right reason: the 2 × 2 table of verdict and witness for every model with attention.


def _reasons(source: ReportSource) -> str:
    shown = "".join(_square(number, model, source) for number, model in enumerate(source.models))
    if not shown:
        return (
            '<p class="note">This needs attention and known witnesses, which these runs or data lack. '
            "<code>miv audit</code> finds witnesses for every pooling.</p>"
        )
    return (
        '<p class="note">For positives with a witness and something else: is the verdict right, and is the instance '
        "with the highest attention a witness? A yes for the wrong reason may be luck.</p>"
        f'<div class="squares">{shown}</div><p class="note"><code>miv audit RUN… DATA</code> tests more: does the '
        "verdict change when witnesses are deleted or the query is swapped?</p>"
    )


def _square(number: int, model: ReportModel, source: ReportSource) -> str:
    attention, witness = model.answers.attention, source.exemplars.witness
    if attention is None or witness is None:
        return ""
    counts = reasons(model.answers, model.verdict, witness, attention)
    total = counts["positives"]
    if total == 0:
        return ""

    def cell(name: str, words: str, mark: str) -> str:
        count = counts[name]
        return f'<td class="{mark}"><b>{count / total:.0%}</b><small>{words} ({count:,})</small></td>'

    return (
        f'<table class="square {style(number)}"><caption>{badge(number, model.name)}</caption><thead><tr><td></td>'
        '<th scope="col">looked at a witness</th><th scope="col">looked elsewhere</th></tr></thead><tbody>'
        f'<tr><th scope="row">said yes</th>{cell("verdict_right_witness_right", "right, for the right reason", "good")}'
        f"{cell('verdict_right_witness_wrong', 'right, for the wrong reason', 'odd')}</tr>"
        '<tr><th scope="row">said no</th>'
        f"{cell('verdict_wrong_witness_right', 'saw it, but said no', 'odd')}"
        f"{cell('verdict_wrong_witness_wrong', 'missed it', 'bad')}</tr></tbody></table>"
    )

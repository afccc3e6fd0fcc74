"""``miv report``: the page of a report, with the audit if there is one."""

import json
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from miv.errors import MIVError
from miv.evaluation import report_sections
from miv.evaluation.audit_report import findings, heading, tables
from miv.evaluation.page import NONE, badge, check_page_name, page_part, style, table, whole_page
from miv.evaluation.report_data import ReportModel, ReportSource, gallery
from miv.evaluation.verifier_audit import reasons
from miv.files.atomic import whole_file
from miv.files.json import read_json_object
from miv.files.weights import WEIGHTS_NAME, hash_of_weights, load_weights

MOST_EXEMPLARS = 20_000


def write_report(
    source: ReportSource, out: Path | str, *, exemplars: int = 2000, title: str = "", audit: Path | None = None
) -> None:
    """Write the report of ``open_runs`` as one HTML file, atomically; the arguments are those of ``miv.report``."""
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
    data, models, total = gallery(source, exemplars), source.models, len(source.exemplars)
    shown = len(data["exemplar"])
    several = f"{len(models)} models"
    body = Template(page_part("report.html")).substitute(
        title=escape(title),
        answers="Each model’s answer" if len(models) > 1 else "The model’s answer",
        names=" and ".join(badge(n, m.name) for n, m in enumerate(models)) if len(models) < 3 else several,
        shown=f"All {total:,}" if shown == total else f"{shown:,} of {total:,}",
        results=report_sections.results(source),
        reasons=audit_section(source, audit),
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


# Right for the right reason: what the answers alone show, and the audit if there is one.

_REMEDY = "Expected a file written by `miv audit … --out FILE.json`."


def audit_section(source: ReportSource, audit: Path | None) -> str:
    """The 2 × 2 table of verdict and witness for every model with attention, and the tables of an audit."""
    shown = "".join(_square(number, model, source) for number, model in enumerate(source.models))
    above = shown and (
        '<p class="note">For positives with a witness and something else: is the verdict right, and is the instance '
        "with the highest attention a witness? A yes for the wrong reason may be luck.</p>"
        f'<div class="squares">{shown}</div>'
    )
    if audit is not None:
        return above + _from_file(audit, source)
    note = (
        "<code>miv audit RUN… DATA --out audit.json</code> tests more: does the verdict change when witnesses are "
        "deleted or the query is swapped? <code>miv report --audit</code> shows the results."
        if shown
        else "This needs attention and known witnesses, which these runs or data lack. <code>miv audit</code> finds "
        "witnesses for every pooling."
    )
    return f'{above}<p class="note">{note}</p>'


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


def read_audit(path: Path) -> dict[str, Any]:
    """Read a file written by ``miv audit``; raise an error for any other file."""
    document = read_json_object(path, _REMEDY)
    about, models = document.get("about"), document.get("models")
    fits = isinstance(about, dict) and isinstance(models, dict) and models
    if not fits or not all(isinstance(model, dict) for model in models.values()):  # type: ignore[union-attr]
        raise MIVError(f"{path} is not an audit: it has no models, or no description. {_REMEDY}")
    return document


def _from_file(path: Path, source: ReportSource) -> str:
    document = read_audit(path)
    about = document["about"]
    if about.get("fingerprint") != source.exemplars.fingerprint:
        raise MIVError(
            f"{path} is not an audit of the exemplars of {source.data}, split {source.split}, or is from an older "
            "miv. Audit these runs on the same data and split."
        )
    numbers = _matched(path, document["models"], source)
    models = {source.models[number].name: model for number, model in numbers.items()}
    try:
        top, made, sentences = heading(about, models), tables(models), findings(models)
        cells = [[[_cell(value) for value in list(row.values())[1:]] for row in rows] for _, _, rows in made]
    except (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise MIVError(f"{path} is not an audit: {type(error).__name__} {error}. {_REMEDY}") from error
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    parts = [f"<h3>What the audit says</h3><p>{escape(top)}</p><ul>{items}</ul>"]
    badges = [badge(number, source.models[number].name) for number in numbers]
    for (title, note, rows), lines in zip(made, cells, strict=True):
        heads = [escape(head.capitalize() if head == "model" else head) for head in rows[0]]
        shown = [[name, *line] for name, line in zip(badges, lines, strict=True)]
        parts.append(f"{table(heads, shown, title)}<p class='note'>{escape(note.replace('*', ''))}</p>")
    return "".join(parts)


def _matched(path: Path, audited: dict[str, Any], source: ReportSource) -> dict[int, Any]:
    """Each audited model by the number of the report's model with the same weights and operating point."""
    hashes = [m.verifier and hash_of_weights(load_weights(m.verifier / WEIGHTS_NAME)) for m in source.models]
    matched: dict[int, Any] = {}
    for name, model in audited.items():
        weights = model.get("weights")
        same = [n for n, known in enumerate(hashes) if known is not None and known == weights and n not in matched]
        if not same:
            raise MIVError(
                f"{path} audits {name}, which is not in this report or was retrained since. "
                f"Expected an audit of {', '.join(model.name for model in source.models)}."
            )
        point = source.models[same[0]].point
        if (model.get("goal"), model.get("threshold")) != (point.goal, point.threshold):
            raise MIVError(f"{path} audits {name} from before it was recalibrated. Audit it again.")
        matched[same[0]] = model
    return dict(sorted(matched.items()))


def _cell(value: Any) -> str:
    if value is None:
        return NONE
    return f"{value:.3f}" if isinstance(value, float) else escape(str(value))

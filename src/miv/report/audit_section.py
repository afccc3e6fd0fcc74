"""Right for the right reason: what the answers alone tell, and the audit where one was made."""

from html import escape
from pathlib import Path
from typing import Any

from miv.audit.audit import reasons
from miv.audit.findings import findings
from miv.audit.rows import tables
from miv.errors import MivError
from miv.json_files import read_json_object
from miv.report.sections import badge, table
from miv.report.sources import ReportModel, ReportSource

_REMEDY = "Expected what `miv audit … --out FILE.json` writes."


def audit_section(source: ReportSource, audit: Path | None) -> str:
    """The 2 × 2 of verdict and witness for every model with attention, and the tables of an audit."""
    squares = [_square(number, model, source) for number, model in enumerate(source.models)]
    shown = "".join(square for square in squares if square)
    parts = []
    if shown:
        parts.append(
            '<p class="note">Of the positives that hold a witness and something else: is the verdict right, and is the '
            "instance of the highest attention a witness? A yes for the wrong reason is luck that may not last.</p>"
            f'<div class="squares">{shown}</div>'
        )
    if audit is not None:
        parts.append(_from_file(audit))
    elif not shown:
        parts.append(
            '<p class="note">It takes attention and known witnesses to tell, which these runs or data lack. <code>miv '
            "audit</code> finds witnesses for every pooling.</p>"
        )
    else:
        parts.append(
            '<p class="note"><code>miv audit RUN… DATA --out audit.json</code> asks more: does the verdict follow '
            "when witnesses are deleted or the query is swapped? <code>miv report --audit</code> shows its answers.</p>"
        )
    return "".join(parts)


def _square(number: int, model: ReportModel, source: ReportSource) -> str:
    attention, witness = model.answers.attention, source.exemplars.witness
    if attention is None or witness is None:
        return ""
    found = reasons(model.answers, model.verdict, witness, attention)
    total = found["positives"]
    if total == 0:
        return ""

    def cell(name: str, words: str, mark: str) -> str:
        count = found[name]
        return f'<td class="{mark}"><b>{count / total:.0%}</b><small>{words} ({count:,})</small></td>'

    return (
        f'<table class="square m{number % 6}"><caption>{badge(number, model.name)}</caption><thead><tr><td></td>'
        '<th scope="col">looked at a witness</th><th scope="col">looked elsewhere</th></tr></thead><tbody>'
        f'<tr><th scope="row">said yes</th>{cell("verdict_right_witness_right", "right, for the right reason", "good")}'
        f"{cell('verdict_right_witness_wrong', 'right, for the wrong reason', 'odd')}</tr>"
        '<tr><th scope="row">said no</th>'
        f"{cell('verdict_wrong_witness_right', 'saw it, but did not believe it', 'odd')}"
        f"{cell('verdict_wrong_witness_wrong', 'missed it', 'bad')}</tr></tbody></table>"
    )


def _from_file(path: Path) -> str:
    document = read_json_object(path, _REMEDY)
    models: Any = document.get("models")
    try:
        made = tables(models)
        said = findings(models)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise MivError(f"{path} is not an audit: {type(error).__name__} {error}. {_REMEDY}") from error
    sentences = "".join(f"<li>{escape(sentence)}</li>" for sentence in said)
    parts = [f"<h3>What the audit says</h3><ul>{sentences}</ul>"]
    for title, note, rows in made:
        heads = list(rows[0])
        cells = [[_cell(row.get(head)) for head in heads] for row in rows]
        plain = note.replace("*", "")
        parts.append(f"{table([escape(head) for head in heads], cells, title)}<p class='note'>{escape(plain)}</p>")
    return "".join(parts)


def _cell(value: Any) -> str:
    if value is None:
        return '<span class="none">–</span>'
    return f"{value:.3f}" if isinstance(value, float) else escape(str(value))

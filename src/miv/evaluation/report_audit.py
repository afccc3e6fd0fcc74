"""Right for the right reason: what the answers alone show, and the audit if there is one."""

from html import escape
from pathlib import Path
from typing import Any

from miv.errors import MIVError
from miv.evaluation.audit_report import findings, heading, tables
from miv.evaluation.page import badge, style
from miv.evaluation.report_sections import table
from miv.evaluation.report_source import ReportModel, ReportSource
from miv.evaluation.verifier_audit import reasons
from miv.files.json import read_json_object
from miv.files.weights import WEIGHTS_NAME, hash_of_weights, load_weights

_REMEDY = "Expected a file written by `miv audit … --out FILE.json`."


def audit_section(source: ReportSource, audit: Path | None) -> str:
    """The 2 × 2 table of verdict and witness for every model with attention, and the tables of an audit."""
    squares = [_square(number, model, source) for number, model in enumerate(source.models)]
    shown = "".join(square for square in squares if square)
    parts = []
    if shown:
        parts.append(
            '<p class="note">For positives with a witness and something else: is the verdict right, and is the '
            "instance with the highest attention a witness? A yes for the wrong reason may be luck.</p>"
            f'<div class="squares">{shown}</div>'
        )
    if audit is not None:
        parts.append(_from_file(audit, source))
    elif not shown:
        parts.append(
            '<p class="note">This needs attention and known witnesses, which these runs or data lack. <code>miv '
            "audit</code> finds witnesses for every pooling.</p>"
        )
    else:
        parts.append(
            '<p class="note"><code>miv audit RUN… DATA --out audit.json</code> tests more: does the verdict change '
            "when witnesses are deleted or the query is swapped? <code>miv report --audit</code> shows the results.</p>"
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
        told = heading(about, models)
        made = tables(models)
        said = findings(models)
        cells = [[[_cell(value) for value in list(row.values())[1:]] for row in rows] for _, _, rows in made]
    except (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise MIVError(f"{path} is not an audit: {type(error).__name__} {error}. {_REMEDY}") from error
    sentences = "".join(f"<li>{escape(sentence)}</li>" for sentence in said)
    parts = [f"<h3>What the audit says</h3><p>{escape(told)}</p><ul>{sentences}</ul>"]
    badges = [badge(number, source.models[number].name) for number in numbers]
    for (title, note, rows), lines in zip(made, cells, strict=True):
        heads = [escape(head.capitalize() if head == "model" else head) for head in rows[0]]
        shown = [[name, *line] for name, line in zip(badges, lines, strict=True)]
        parts.append(f"{table(heads, shown, title)}<p class='note'>{escape(note.replace('*', ''))}</p>")
    return "".join(parts)


def _matched(path: Path, audited: dict[str, Any], source: ReportSource) -> dict[int, Any]:
    """Each audited model by the number of the report's model with the same weights and operating point."""
    hashes = [_hash(model) for model in source.models]
    found: dict[int, Any] = {}
    for name, one in audited.items():
        weights = one.get("weights")
        same = [n for n, known in enumerate(hashes) if known is not None and known == weights and n not in found]
        if not same:
            raise MIVError(
                f"{path} audits {name}, which is not in this report or was retrained since. "
                f"Expected an audit of {', '.join(model.name for model in source.models)}."
            )
        point = source.models[same[0]].point
        if (one.get("goal"), one.get("threshold")) != (point.goal, point.threshold):
            raise MIVError(f"{path} audits {name} from before it was recalibrated. Audit it again.")
        found[same[0]] = one
    return dict(sorted(found.items()))


def _hash(model: ReportModel) -> str | None:
    return None if model.verifier is None else hash_of_weights(load_weights(model.verifier / WEIGHTS_NAME))


def _cell(value: Any) -> str:
    if value is None:
        return '<span class="none">–</span>'
    return f"{value:.3f}" if isinstance(value, float) else escape(str(value))

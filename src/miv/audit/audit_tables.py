"""The tables of an audit, with one row per model."""

from collections.abc import Callable
from typing import Any

from miv.audit.reasons import Document
from miv.runtime.aligned_table import cell_text

Row = dict[str, Any]
Table = tuple[str, str, list[Row]]  # title, note, rows


def tables(models: dict[str, Document]) -> list[Table]:
    """The tables of these models, including the unit tests if they were run."""

    def rows(make: Callable[[Document], Row]) -> list[Row]:
        return [{"model": name, **make(model)} for name, model in models.items()]

    known = all(model["classes_known"] for model in models.values())
    made = [
        ("In short", _SHORT, summary_rows(models)),
        ("Right for the right reason", _REASONS, rows(_reason_row)),
        ("Does the verdict follow?", _FOLLOWS.format(asked=_ASKED[known]), rows(_follow_row)),
        ("AUROC as bags grow", _GROW.format(distractors=_DISTRACTORS[known]), rows(_grow_row)),
        ("Yes to positives / to negatives as bags grow", _YES, rows(_yes_row)),
    ]
    if all("unit_tests" in model for model in models.values()):
        made.append(("Unit tests of the pooling", _UNITS, rows(_unit_row)))
    return made


def summary_rows(models: dict[str, Document]) -> list[Row]:
    """One table of the main figures, with one row per model."""
    return [{"model": name, **_summary_row(model)} for name, model in models.items()]


def markdown_table(rows: list[Row]) -> str:
    """Write rows as Markdown, under their names.

    >>> print(markdown_table([{"model": "a", "AUROC": 0.5, "note": None}]))
    | model | AUROC | note |
    | --- | --- | --- |
    | a | 0.5000 | – |
    """
    names = list(rows[0])
    lines = [[cell_text(row.get(name)).replace("|", r"\|") for name in names] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in [names, ["---"] * len(names), *lines])


def _summary_row(model: Document) -> Row:
    grown = next((row for row in model["sensitivity"] if (row["change"], row["times"]) == ("distractors", 4)), None)
    row: Row = {
        "AUROC": model["metrics"]["auroc"],
        "right reason": _percent(model["reasons"]["right_reason"]),
        "by chance": _chance(model),
    }
    for title, name in _CHANGES.items():
        row[f"{title}: no"] = None if model[name] is None else _percent(model[name]["turned_to_no"])
    row["AUROC, bags ×4 by distractors"] = None if grown is None else _grown(model, grown)
    return row


def _chance(model: Document) -> str | None:
    chance = model["reasons"]["right_reason_chance"]
    return None if chance is None else _percent({"share": chance})


def _reason_row(model: Document) -> Row:
    table, metrics = model["reasons"], model["metrics"]
    return {
        "AUROC": metrics["auroc"],
        "i-AUROC": metrics.get("i_auroc"),
        "witnesses by": model["witnesses_by"],
        "yes, witness": table["verdict_right_witness_right"],
        "yes, other": table["verdict_right_witness_wrong"],
        "no, witness": table["verdict_wrong_witness_right"],
        "no, other": table["verdict_wrong_witness_wrong"],
        "right reason": _percent(table["right_reason"]),
        "by chance": _chance(model),
        "no to negatives": _percent(table["negatives_right"]),
    }


def _follow_row(model: Document) -> Row:
    row: Row = {}
    for title, name in _CHANGES.items():
        found = model[name]
        row[f"{title}: no"] = None if found is None else _interval(found["turned_to_no"])
        if found is not None and "logit_change" in found:
            row[f"{title}: logit"] = f"{found['logit_change']:+.2f}"
    return row


def _grow_row(model: Document) -> Row:
    return {_title(model, row): _grown(model, row) for row in model["sensitivity"]}


def _grown(model: Document, row: Document) -> float | str | None:
    """The AUROC; if only some exemplars have distractors, together with their AUROC before the change."""
    if row["auroc"] is None or row["exemplars"] == model["exemplars"]:
        return row["auroc"]
    return f"{row['auroc']:.4f} (from {row['given']['auroc']:.4f})"


def _yes_row(model: Document) -> Row:
    made: Row = {}
    for row in model["sensitivity"]:
        if row["exemplars"] is None:
            made[_title(model, row)] = None
            continue
        partly = row["exemplars"] < model["exemplars"]
        made[_title(model, row)] = _yeses(row) + (f" (from {_yeses(row['given'])})" if partly else "")
    return made


def _yeses(row: Document) -> str:
    return f"{_percent(row['yes_positives'])} / {_percent(row['yes_negatives'])}"


def _unit_row(model: Document) -> Row:
    row: Row = {}
    for name, found in model["unit_tests"].items():
        tests = [run["test_auroc"] for run in found["runs"]]
        row[name.replace("_", " ")] = (
            f"{found['outcome']} ({found['train_auroc']:.2f} → {found['test_auroc']:.2f} "
            f"[{min(tests):.2f}, {max(tests):.2f}])"
        )
    return row


def _title(model: Document, row: Document) -> str:
    title = row["change"] if row["times"] == 1 else f"{row['change']} ×{row['times']}"
    count, of = row["exemplars"], model["exemplars"]
    return title if count in (None, of) else f"{title} ({count:,} of {of:,} exemplars)"


def _percent(found: Document | None) -> str:
    return "–" if found is None else f"{100 * found['share']:.0f}%"


def _interval(found: Document) -> str:
    return f"{_percent(found)} [{100 * found['low']:.0f}, {100 * found['high']:.0f}]"


_CHANGES = {
    "witnesses deleted": "delete_witnesses",
    "others deleted": "delete_others",
    "query swapped": "swap_query",
}
_SHORT = (
    "Where did it look, and does the verdict follow? The tables below give each figure with its counts or interval. "
    "*Right reason* should be far above *by chance*. A yes should turn to no if the witnesses are deleted or the query "
    "is swapped, and stay if as many others are deleted."
)
_REASONS = (
    "Positives by verdict (yes is right) and by whether the instance with the highest score is a witness. *Right "
    "reason* is the share of yeses that look at a witness; *by chance* is the share of witnesses in those bags."
)
_ASKED = {True: "asked for another class", False: "asked with another query (whose class is not known)"}
_FOLLOWS = (
    "Of the positives answered yes, how many turn to no, with a 95% interval, and how far the logit moves. Without "
    "its witnesses, or {asked}, a bag should get a no; without as many others, still a yes."
)
_DISTRACTORS = {
    True: "never of the query's class",
    False: "and may be of the query's class, because classes are not known",
}
_GROW = (
    "*Repeated* bags hold the same instances several times; *distractors* come from negative bags of the same group, "
    "{distractors}. A verifier that decides by presence changes little. If only some exemplars have distractors, "
    "*from* is the figure for the same exemplars before the change."
)
_YES = "The same changes. More yeses to negatives are false alarms caused by size alone."
_UNITS = (
    "AUROC on the training distribution → on the test distribution, means over several trainings from scratch, and the "
    "lowest and highest of the latter. *fail*: a test AUROC below 0.5; the pooling took the shortcut. *pass*: in every "
    "training the test AUROC is at most 0.05 below that of training; otherwise *weak*. *not learnt*: an AUROC below "
    "0.7 in training, so there is nothing to judge."
)

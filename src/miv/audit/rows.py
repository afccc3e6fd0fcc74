"""The tables of an audit, a row a model."""

from collections.abc import Callable
from typing import Any

from miv.audit.audit import Document

Row = dict[str, Any]
Table = tuple[str, str, list[Row]]  # title, note, rows


def tables(models: dict[str, Document]) -> list[Table]:
    """The tables of these models; that of the unit tests where they were run."""

    def rows(make: Callable[[Document], Row]) -> list[Row]:
        return [{"model": name, **make(model)} for name, model in models.items()]

    made = [
        ("Right for the right reason", _REASONS, rows(_reason_row)),
        ("Does the verdict follow?", _FOLLOWS, rows(_follow_row)),
        ("AUROC as bags grow", _GROW, rows(_grow_row)),
        ("Yes to positives / to negatives as bags grow", _YES, rows(_yes_row)),
    ]
    if all("unit_tests" in model for model in models.values()):
        made.append(("Unit tests of the pooling", _UNITS, rows(_unit_row)))
    return made


def markdown_table(rows: list[Row]) -> str:
    """Write rows as Markdown, under their names.

    >>> print(markdown_table([{"model": "a", "AUROC": 0.5, "note": None}]))
    | model | AUROC | note |
    | --- | --- | --- |
    | a | 0.5000 | – |
    """
    names = list(rows[0])
    lines = [[_cell(row.get(name)) for name in names] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in [names, ["---"] * len(names), *lines])


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.4f}" if isinstance(value, float) else str(value)


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
        "by chance": _percent({"share": table["right_reason_chance"]} if table["right_reason_chance"] else None),
        "no to negatives": _percent(table["negatives_right"]),
    }


def _follow_row(model: Document) -> Row:
    changes = {
        "witnesses deleted": "delete_witnesses",
        "others deleted": "delete_others",
        "query swapped": "swap_query",
    }
    row: Row = {}
    for title, name in changes.items():
        found = model[name]
        row[f"{title}: no"] = None if found is None else _interval(found["turned_to_no"])
        if found is not None and "logit_change" in found:
            row[f"{title}: logit"] = f"{found['logit_change']:+.2f}"
    return row


def _grow_row(model: Document) -> Row:
    return {_title(row): row["auroc"] for row in model["sensitivity"]}


def _yes_row(model: Document) -> Row:
    return {
        _title(row): f"{_percent(row['yes_positives'])} / {_percent(row['yes_negatives'])}"
        for row in model["sensitivity"]
    }


def _unit_row(model: Document) -> Row:
    row: Row = {}
    for name, found in model["unit_tests"].items():
        row[name.replace("_", " ")] = f"{found['outcome']} ({found['train_auroc']:.2f} → {found['test_auroc']:.2f})"
    return row


def _title(row: Document) -> str:
    return row["change"] if row["times"] == 1 else f"{row['change']} ×{row['times']}"


def _percent(found: Document | None) -> str:
    return "–" if found is None else f"{100 * found['share']:.0f}%"


def _interval(found: Document) -> str:
    return f"{_percent(found)} [{100 * found['low']:.0f}, {100 * found['high']:.0f}]"


_REASONS = (
    "Positives by verdict (yes is right) and by whether the instance of the highest score is a witness. *Right reason* "
    "is the share of the yeses that are for a witness; *by chance* the share of witnesses in those bags."
)
_FOLLOWS = (
    "Of positives that got a yes, how many turn to no, with an interval of 95%, and how far the logit moves. Without "
    "its witnesses, or asked for another class, a bag deserves a no; without as many others, still a yes."
)
_GROW = (
    "*Repeated* bags hold the same instances several times; *distractors* come from negative bags of the same group, "
    "never of the query's class. A verifier that decides by presence changes little."
)
_YES = "The same changes. More yeses to negatives are false alarms that come with size alone."
_UNITS = (
    "AUROC under the law of training → under that of the test, for a pooling that is trained from nothing. *fail* is a "
    "test AUROC below 0.5: the pooling took the shortcut. *not learnt*: it learnt neither rule nor shortcut."
)

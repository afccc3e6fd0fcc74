"""The audits of several verifiers on the same exemplars, as one document, and as tables for people."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from miv.audit.audit import Document, audit
from miv.audit.findings import findings
from miv.audit.unit_tests import run_unit_tests
from miv.errors import MivError
from miv.exemplars import ExemplarSet
from miv.files import whole_file
from miv.progress import Progress, SilentProgress
from miv.training.compare import table as text_table
from miv.verifier import Verifier

Row = dict[str, Any]
SUFFIXES = (".json", ".md", ".txt")


@dataclass(frozen=True)
class AuditReport:
    """What was asked, and what was found of each model.

    Args:
        about: the data, the split, the seed.
        models: by name, what ``audit`` found, and ``pooling`` and ``unit_tests`` besides.
    """

    about: dict[str, Any]
    models: dict[str, Document]

    def document(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        return {"about": self.about, "models": self.models, "findings": findings(self.models)}

    def text(self) -> str:
        """Tables for a terminal."""
        blocks = [f"{title}\n\n{text_table(rows)}\n\n{note}" for title, note, rows in self._tables()]
        return "\n\n".join([self._heading(), *blocks, "\n".join(findings(self.models))])

    def markdown(self) -> str:
        """Tables for a page."""
        blocks = [f"## {title}\n\n{markdown_table(rows)}\n\n{note}" for title, note, rows in self._tables()]
        said = "\n".join(f"- {sentence}" for sentence in findings(self.models))
        return "\n\n".join([f"# Audit\n\n{self._heading()}", f"## What it says\n\n{said}", *blocks]) + "\n"

    def save(self, path: Path) -> None:
        """Write JSON, Markdown or text, as the name says, whole or not at all."""
        check_suffix(path)
        if path.suffix == ".json":
            text = json.dumps(self.document(), ensure_ascii=False, indent=2, allow_nan=False) + "\n"
        else:
            text = self.markdown() if path.suffix == ".md" else self.text() + "\n"
        with whole_file(path) as temporary:
            temporary.write_text(text, encoding="utf-8")

    def _heading(self) -> str:
        one = next(iter(self.models.values()))
        return (
            f"{self.about['data']}, {self.about['split']}: {one['exemplars']:,} exemplars, {one['positives']:,} positive, "
            f"{one['mean_bag']:.1f} instances in a bag. Seed {self.about['seed']}."
        )

    def _tables(self) -> list[tuple[str, str, list[Row]]]:
        tables = [
            ("Right for the right reason", _REASONS, self._rows(_reason_row)),
            ("Does the verdict follow?", _FOLLOWS, self._rows(_follow_row)),
            ("AUROC as bags grow", _GROW, self._rows(_grow_row)),
            ("Yes to positives / to negatives, %, as bags grow", _YES, self._rows(_yes_row)),
        ]
        if all("unit_tests" in model for model in self.models.values()):
            tables.append(("Unit tests of the pooling", _UNITS, self._rows(_unit_row)))
        return tables

    def _rows(self, make: Callable[[Document], Row]) -> list[Row]:
        return [{"model": name, **make(model)} for name, model in self.models.items()]


def audit_models(
    models: dict[str, Verifier],
    exemplars: ExemplarSet,
    about: dict[str, Any],
    *,
    witnesses: str | None = None,
    most: int | None = None,
    unit_tests: bool = True,
    seed: int = 0,
    progress: Progress | None = None,
) -> AuditReport:
    """Audit several verifiers, by name, on the same exemplars; poolings with the same options are tested once."""
    progress = progress or SilentProgress()
    found: dict[str, Document] = {}
    tested: dict[str, Document] = {}
    for name, verifier in models.items():
        made_of = verifier.configuration
        model: Document = {"pooling": made_of["pooling"], "goal": verifier.operating_point.goal}
        model |= audit(verifier, exemplars, witnesses=witnesses, most=most, seed=seed, progress=progress)
        if unit_tests:
            pooling, options = made_of["pooling"], made_of["pooling_options"]
            key = json.dumps([pooling, options], sort_keys=True)
            if key not in tested:
                tested[key] = run_unit_tests(pooling, options, seed=seed, progress=progress)
            model["unit_tests"] = tested[key]
        found[name] = model
    return AuditReport({**about, "seed": seed}, found)


def check_suffix(path: Path) -> None:
    """Refuse a name that does not say what to write."""
    if path.suffix not in SUFFIXES:
        raise MivError(f"{path} ends with {path.suffix!r}. Expected {', '.join(SUFFIXES)}.")


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
    "Of positives that got a yes, how many turn to no, with an interval of 95%, and how far the logit moves. Without its "
    "witnesses, or asked for another class, a bag deserves a no; without as many others, still a yes."
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

"""The audits of several verifiers on the same exemplars, as one document and as tables."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from miv.data import ExemplarSet
from miv.errors import MIVError
from miv.evaluation.audit_tests import run_unit_tests
from miv.evaluation.verifier_audit import Document, audit
from miv.files.atomic import whole_file
from miv.files.weights import hash_of_weights
from miv.runtime import Progress, SilentProgress, cell_text, table_of
from miv.verifier.network import Verifier

# The tables of an audit, with one row per model.

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


# The findings of an audit in plain sentences, derived from the figures.

Models = dict[str, dict[str, Any]]


def findings(models: Models) -> list[str]:
    """One sentence per question, naming the best and the worst model."""
    said = []
    right = _shares(models, lambda model: model["reasons"]["right_reason"])
    if right:
        best, worst = _ends(right)
        said.append(
            f"When {best} says yes to a positive, it looks first at a witness in {right[best]:.0%} of cases"
            + (f"; {worst} does so in {right[worst]:.0%}." if worst != best else ".")
        )
    deleted = _shares(models, lambda model: (model["delete_witnesses"] or {}).get("turned_to_no"))
    control = _shares(models, lambda model: (model["delete_others"] or {}).get("turned_to_no"))
    if deleted:
        best, worst = _ends({name: deleted[name] - control[name] for name in deleted})
        for name in dict.fromkeys((best, worst)):
            said.append(
                f"When the witnesses are deleted, {deleted[name]:.0%} of the yeses of {name} turn to no; when as many "
                f"others are deleted, {control[name]:.0%}."
            )
    swapped = _shares(models, lambda model: (model["swap_query"] or {}).get("turned_to_no"))
    if swapped:
        best, worst = _ends(swapped)
        known = all(model["classes_known"] for model in models.values())
        asked = "Asked for another class" if known else "Asked with another query, whose class is not known"
        said.append(
            f"{asked}, {best} turns {swapped[best]:.0%} of its yeses to no"
            + (f", and {worst} {swapped[worst]:.0%}." if worst != best else ".")
        )
    said += _growing(models)
    said += _unit_tests(models)
    return said


def _growing(models: Models) -> list[str]:
    lost = {}
    for name, model in models.items():
        grown = next((row for row in model["sensitivity"] if (row["change"], row["times"]) == ("distractors", 4)), None)
        if grown is not None and grown["auroc"] is not None:
            lost[name] = (grown["given"]["auroc"], grown["auroc"])
    if not lost:
        return []
    worst, best = _ends({name: given - grown for name, (given, grown) in lost.items()})
    return [
        f"If distractors make bags four times as large, the AUROC of {name} goes from {lost[name][0]:.3f} to "
        f"{lost[name][1]:.3f}."
        for name in dict.fromkeys((best, worst))
    ]


def _unit_tests(models: Models) -> list[str]:
    outcomes: dict[str, dict[str, list[str]]] = {}
    for model in models.values():
        for test, found in model.get("unit_tests", {}).items():
            poolings = outcomes.setdefault(test, {}).setdefault(found["outcome"], [])
            if model["pooling"] not in poolings:
                poolings.append(model["pooling"])
    return [
        f"Unit test {test.replace('_', ' ')}: "
        + "; ".join(f"{outcome}: {', '.join(poolings)}" for outcome, poolings in sorted(by_outcome.items()))
        + "."
        for test, by_outcome in outcomes.items()
    ]


def _shares(models: Models, get: Callable[[dict[str, Any]], dict[str, Any] | None]) -> dict[str, float]:
    found = {name: get(model) for name, model in models.items()}
    return {name: one["share"] for name, one in found.items() if one is not None}


def _ends(values: dict[str, float]) -> tuple[str, str]:
    """The names with the largest and the smallest value; the first on ties."""
    return max(values, key=values.__getitem__), min(values, key=values.__getitem__)


SUFFIXES = (".json", ".md", ".txt")


@dataclass(frozen=True)
class AuditReport:
    """The setup of an audit, and the results of each model.

    Args:
        about: the data and their fingerprint, the split, the seed.
        models: by name, the result of ``audit``, with ``pooling``, ``goal`` and ``threshold`` of the operating point,
            the hash of the ``weights``, and ``unit_tests``.
    """

    about: dict[str, Any]
    models: dict[str, Document]

    def document(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        return {"about": self.about, "models": self.models, "findings": findings(self.models)}

    def text(self) -> str:
        """Tables for a terminal."""
        blocks = [f"{title}\n\n{table_of(rows)}\n\n{note}" for title, note, rows in tables(self.models)]
        return "\n\n".join([heading(self.about, self.models), *blocks, "\n".join(findings(self.models))])

    def markdown(self) -> str:
        """Tables for a page."""
        blocks = [f"## {title}\n\n{markdown_table(rows)}\n\n{note}" for title, note, rows in tables(self.models)]
        said = "\n".join(f"- {sentence}" for sentence in findings(self.models))
        top = f"# Audit: {self.about['data']}, {self.about['split']}"
        return "\n\n".join([top, heading(self.about, self.models), f"## Findings\n\n{said}", *blocks]) + "\n"

    def save(self, path: Path) -> None:
        """Write JSON, Markdown or text, depending on the suffix, atomically."""
        check_suffix(path)
        if path.suffix == ".json":
            text = json.dumps(self.document(), ensure_ascii=False, indent=2, allow_nan=False) + "\n"
        else:
            text = self.markdown() if path.suffix == ".md" else self.text() + "\n"
        with whole_file(path) as temporary:
            temporary.write_text(text, encoding="utf-8")


def heading(about: dict[str, Any], models: dict[str, Document]) -> str:
    """The audited exemplars, in words."""
    one = next(iter(models.values()))
    counts = f"{one['exemplars']:,} exemplars, {one['positives']:,} positive, {one['mean_bag']:.1f} instances per bag"
    return f"{about['data']}, {about['split']}: {counts}. Seed {about['seed']}."


def audit_models(
    models: dict[str, Verifier],
    exemplars: ExemplarSet,
    about: dict[str, Any],
    *,
    witnesses: str | None = None,
    most: int | None = None,
    unit_tests: bool = True,
    seed: int = 0,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> AuditReport:
    """Audit several verifiers, by name, on the same exemplars; poolings with the same options are tested once."""
    progress = progress or SilentProgress()
    found: dict[str, Document] = {}
    tested: dict[str, Document] = {}
    for name, verifier in models.items():
        made_of = verifier.configuration
        point = verifier.operating_point
        model: Document = {"pooling": made_of["pooling"], "goal": point.goal, "threshold": point.threshold}
        model["weights"] = hash_of_weights(verifier.state_dict())
        model |= audit(verifier, exemplars, witnesses=witnesses, most=most, seed=seed, cache=cache, progress=progress)
        if unit_tests:
            pooling, options = made_of["pooling"], made_of["pooling_options"]
            key = json.dumps([pooling, options], sort_keys=True)
            if key not in tested:
                tested[key] = run_unit_tests(pooling, options, seed=seed, progress=progress)
            model["unit_tests"] = tested[key]
        found[name] = model
    return AuditReport({**about, "fingerprint": exemplars.fingerprint, "seed": seed}, found)


def check_suffix(path: Path) -> None:
    """Raise an error for an unknown suffix."""
    if path.suffix not in SUFFIXES:
        raise MIVError(f"{path} ends with {path.suffix!r}. Expected {', '.join(SUFFIXES)}.")

"""The audits of several verifiers on the same exemplars, as one document, as tables and in sentences."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from miv.data import ExemplarSet
from miv.errors import MIVError
from miv.evaluation.verifier_audit import Document, audit
from miv.files.atomic import whole_file
from miv.files.weights import hash_of_weights
from miv.runtime import Progress, cell_text, table_of
from miv.verifier.network import Verifier

Row = dict[str, Any]
Models = dict[str, Document]
Table = tuple[str, str, list[Row]]  # title, note, rows

_CHANGES = {"witnesses deleted": "delete_witnesses", "others deleted": "delete_others", "query swapped": "swap_query"}


def tables(models: Models) -> list[Table]:
    """Tables with one row per model."""

    def rows(make: Callable[[Document], Row]) -> list[Row]:
        return [{"model": name, **make(model)} for name, model in models.items()]

    known = all(model["classes_known"] for model in models.values())
    query = "with a query of another class" if known else "with another query (whose class is not known)"
    source = "never of the query's class" if known else "and may be of the query's class, as classes are not known"
    return [
        (
            "Summary",
            "*Right reason* should be far above *by chance*. A yes should become a no if the witnesses are deleted or "
            "the query is swapped, and stay if as many others are deleted.",
            rows(_summary_row),
        ),
        (
            "Right for the right reason",
            "Positives by verdict (yes is right) and by whether the instance with the highest score is a witness. "
            "*Right reason* is the share of yeses that look at a witness; *by chance* is the share of witnesses in "
            "those bags.",
            rows(_reason_row),
        ),
        (
            "Does the verdict follow?",
            "Share of the true positives that become a no, with a 95% interval, and the mean change of the logit. "
            f"Without its witnesses, or {query}, a bag should get a no; without as many others, still a yes.",
            rows(_follow_row),
        ),
        (
            "AUROC as bags grow",
            "*Repeated* bags hold the same instances several times; *distractors* come from negative bags of the same "
            f"group, {source}. A verifier that decides by presence changes little. If only some exemplars have "
            "distractors, *from* is the figure for the same exemplars before the change.",
            rows(lambda model: {_title(model, row): _grown(model, row) for row in model["sensitivity"]}),
        ),
        (
            "Yes to positives / to negatives as bags grow",
            "The same changes. More yeses to negatives are false alarms caused by size alone.",
            rows(lambda model: {_title(model, row): _yeses(model, row) for row in model["sensitivity"]}),
        ),
    ]


def _summary_row(model: Document) -> Row:
    grown, changes = _four_times(model), {title: model[name] for title, name in _CHANGES.items()}
    return {
        "AUROC": model["metrics"]["auroc"],
        **_right_reason(model),
        **{f"{title}: no": change and _percent(change["turned_to_no"]) for title, change in changes.items()},
        "AUROC, bags ×4 by distractors": grown and _grown(model, grown),
    }


def _four_times(model: Document) -> Document | None:
    """The row for bags four times as large by distractors of the same group."""
    return next((row for row in model["sensitivity"] if (row["change"], row["times"]) == ("distractors", 4)), None)


def _right_reason(model: Document) -> Row:
    chance = model["reasons"]["right_reason_chance"]
    return {
        "right reason": _percent(model["reasons"]["right_reason"]),
        "by chance": None if chance is None else f"{chance:.0%}",
    }


def _reason_row(model: Document) -> Row:
    counts, metrics = model["reasons"], model["metrics"]
    return {
        "AUROC": metrics["auroc"],
        "i-AUROC": metrics.get("i_auroc"),
        "witnesses by": model["witnesses_by"],
        "yes, witness": counts["verdict_right_witness_right"],
        "yes, other": counts["verdict_right_witness_wrong"],
        "no, witness": counts["verdict_wrong_witness_right"],
        "no, other": counts["verdict_wrong_witness_wrong"],
        **_right_reason(model),
        "no to negatives": _percent(counts["negatives_right"]),
    }


def _follow_row(model: Document) -> Row:
    row: Row = {}
    for title, name in _CHANGES.items():
        change = model[name] or {}
        share = change.get("turned_to_no")
        span = share and f"{_percent(share)} [{100 * share['low']:.0f}, {100 * share['high']:.0f}]"
        row[f"{title}: no"] = span
        if "logit_change" in change:
            row[f"{title}: logit"] = f"{change['logit_change']:+.2f}"
    return row


def _title(model: Document, row: Document) -> str:
    title = row["change"] if row["times"] == 1 else f"{row['change']} ×{row['times']}"
    count, total = row["exemplars"], model["exemplars"]
    return title if count in (None, total) else f"{title} ({count:,} of {total:,} exemplars)"


def _grown(model: Document, row: Document) -> float | str | None:
    """The AUROC; if only some exemplars have distractors, together with their AUROC before the change."""
    if row["auroc"] is None or row["exemplars"] == model["exemplars"]:
        return row["auroc"]
    return f"{row['auroc']:.4f} (from {row['given']['auroc']:.4f})"


def _yeses(model: Document, row: Document) -> str | None:
    if row["exemplars"] is None:
        return None
    shares = [f"{_percent(part['yes_positives'])} / {_percent(part['yes_negatives'])}" for part in (row, row["given"])]
    return f"{shares[0]} (from {shares[1]})" if row["exemplars"] < model["exemplars"] else shares[0]


def _percent(share: Document | None) -> str:
    return "–" if share is None else f"{share['share']:.0%}"


def findings(models: Models) -> list[str]:
    """One sentence per question, naming the best and the worst model."""
    sentences = []
    right = _shares(models, lambda model: model["reasons"]["right_reason"])
    if right:
        best, worst = _ends(right)
        other = f"; {worst} does so in {right[worst]:.0%}" if worst != best else ""
        sentences.append(
            f"When {best} says yes to a positive, it looks first at a witness in {right[best]:.0%} of cases{other}."
        )
    deleted, control, swapped = (
        _shares(models, lambda model, name=name: (model[name] or {}).get("turned_to_no"))  # type: ignore[misc]
        for name in _CHANGES.values()
    )
    if deleted:
        sentences += [
            f"{deleted[name]:.0%} of {name}'s positive verdicts flip when the witnesses are deleted "
            f"({control[name]:.0%} when as many other instances are)."
            for name in dict.fromkeys(_ends({name: deleted[name] - control[name] for name in deleted}))
        ]
    if swapped:
        best, worst = _ends(swapped)
        known = all(model["classes_known"] for model in models.values())
        query = "a query of another class" if known else "another query, whose class is not known"
        other = f", and {swapped[worst]:.0%} of {worst}'s" if worst != best else ""
        sentences.append(f"With {query}, {swapped[best]:.0%} of {best}'s positive verdicts flip{other}.")
    grown = {name: row for name, model in models.items() if (row := _four_times(model)) and row["auroc"] is not None}
    if grown:
        worst, best = _ends({name: row["given"]["auroc"] - row["auroc"] for name, row in grown.items()})
        sentences += [
            f"If distractors make bags four times as large, the AUROC of {name} goes from "
            f"{grown[name]['given']['auroc']:.3f} to {grown[name]['auroc']:.3f}."
            for name in dict.fromkeys((best, worst))
        ]
    return sentences


def _shares(models: Models, get: Callable[[Document], Document | None]) -> dict[str, float]:
    return {name: share["share"] for name, model in models.items() if (share := get(model)) is not None}


def _ends(values: dict[str, float]) -> tuple[str, str]:
    """The names with the largest and the smallest value; the first on ties."""
    return max(values, key=values.__getitem__), min(values, key=values.__getitem__)


@dataclass(frozen=True)
class AuditReport:
    """The setup of an audit, and the results of each model.

    Args:
        about: the data and their fingerprint, the split, the seed.
        models: by name, the result of ``miv.evaluation.audit``, with ``pooling``, ``goal`` and ``threshold`` of the
            operating point, and the hash of the ``weights``.
    """

    about: dict[str, Any]
    models: Models

    def document(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        return {"about": self.about, "models": self.models, "findings": findings(self.models)}

    def text(self) -> str:
        """Tables for a terminal; ``print(report)`` shows the same."""
        blocks = [f"{title}\n\n{table_of(rows)}\n\n{note}" for title, note, rows in tables(self.models)]
        return "\n\n".join([heading(self.about, self.models), *blocks, "\n".join(findings(self.models))])

    __str__ = text

    def markdown(self) -> str:
        """Tables for a page."""
        blocks = [f"## {title}\n\n{markdown_table(rows)}\n\n{note}" for title, note, rows in tables(self.models)]
        sentences = "\n".join(f"- {sentence}" for sentence in findings(self.models))
        top = f"# Audit: {self.about['data']}, {self.about['split']}"
        return "\n\n".join([top, heading(self.about, self.models), f"## Findings\n\n{sentences}", *blocks]) + "\n"

    def save(self, path: Path) -> None:
        """Write JSON, Markdown or text, depending on the suffix, atomically."""
        check_suffix(path)
        if path.suffix == ".json":
            text = json.dumps(self.document(), ensure_ascii=False, indent=2, allow_nan=False)
        else:
            text = self.markdown() if path.suffix == ".md" else self.text()
        with whole_file(path) as temporary:
            temporary.write_text(text.rstrip("\n") + "\n", encoding="utf-8")


def heading(about: dict[str, Any], models: Models) -> str:
    """The audited exemplars, in words."""
    first = next(iter(models.values()))
    counts = f"{first['exemplars']:,} exemplars, {first['positives']:,} positive"
    return (
        f"{about['data']}, {about['split']}: {counts}, {first['mean_bag']:.1f} instances per bag. Seed {about['seed']}."
    )


def markdown_table(rows: list[Row]) -> str:
    """Rows as a Markdown table, with the names of the first row's cells as its head."""
    names = list(rows[0])
    lines = [[cell_text(row.get(name)).replace("|", r"\|") for name in names] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in [names, ["---"] * len(names), *lines])


def check_suffix(path: Path) -> None:
    """Raise an error for an unknown suffix."""
    if path.suffix not in (".json", ".md", ".txt"):
        raise MIVError(f"{path} ends with {path.suffix!r}. Expected .json, .md or .txt.")


def audit_models(
    models: dict[str, Verifier],
    exemplars: ExemplarSet,
    about: dict[str, Any],
    *,
    witnesses: str | None = None,
    most: int | None = None,
    seed: int = 0,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> AuditReport:
    """Audit several verifiers, by name, on the same exemplars."""
    documents: Models = {}
    for name, verifier in models.items():
        point = verifier.operating_point
        model: Document = {
            "pooling": verifier.configuration["pooling"],
            "goal": point.goal,
            "threshold": point.threshold,
            "weights": hash_of_weights(verifier.state_dict()),
        }
        model |= audit(verifier, exemplars, witnesses=witnesses, most=most, seed=seed, cache=cache, progress=progress)
        documents[name] = model
    return AuditReport({**about, "fingerprint": exemplars.fingerprint, "seed": seed}, documents)

"""The findings of an audit in plain sentences, derived from the figures."""

from collections.abc import Callable
from typing import Any

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

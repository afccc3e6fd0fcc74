"""An operating point as text tables."""

from typing import Any

from miv.decisions.operating_point import OperatingPoint
from miv.decisions.witness_rules import ConformalRule, StatedRule
from miv.evaluation.clusters import cluster_words
from miv.runtime.aligned_table import aligned_table

_FEW = 100  # exemplars; with fewer, an interval of a rate spans twenty points or so


def calibration_text(point: OperatingPoint) -> str:
    """Return the choice, its errors, how well it is calibrated, and its witness sets."""
    m = point.measured
    sure = f"{m['confidence']:.0%}"
    blocks = [
        [
            f"goal       {point.goal}",
            *_thresholds(point, sure),
            f"scaling    {_parameters(point.scaling.document())}",
            f"data       {m['exemplars']:,} exemplars: {m['positives']:,} positive, {m['negatives']:,} negative",
            _clusters(m),
        ],
        [*_rates(m, sure), *m.get("notes", []), *_few(m)],
        [_losses(m)],
        [_by_bag_size(m)],
        _witnesses(point),
    ]
    return "\n\n".join("\n".join(block) for block in blocks)


def _thresholds(point: OperatingPoint, sure: str) -> list[str]:
    m = point.measured
    said = f"{point.threshold:.4f}  ({sure} interval {_span(m['threshold'])})"
    if point.lower_threshold is None:
        one = "; it keeps both rates, so no answer is unsure" if point.goal.count("<=") == 2 else ""
        return [f"threshold  {said}{one}"]
    lower = f"{point.lower_threshold:.4f}  ({sure} interval {_span(m['lower_threshold'])})"
    unsure = m["unsure"]
    return [
        f"yes from   {said}",
        f"no below   {lower}",
        f"unsure     {unsure['value']:.1%} of the exemplars  ({sure} interval {unsure['low']:.1%} – "
        f"{unsure['high']:.1%}): {unsure['of_positives']:.1%} of positives, {unsure['of_negatives']:.1%} of negatives",
    ]


def _rates(m: dict[str, Any], sure: str) -> list[str]:
    rows = []
    for title, name in (("false accept", "false_accept_rate"), ("false reject", "false_reject_rate")):
        rows.append([title, _figure(m[name]["value"]), _span(m[name]), _figure(m[name]["at_most"])])
    rows.append(["equal error", _figure(m["eer"]["value"]), _span(m["eer"]), ""])
    for when in ("before", "after"):
        rows.append([f"ECE {when}", _figure(m["ece"][when]["value"]), _span(m["ece"][when]), ""])
    notes = [f"at most: the true rate is below this with {sure} confidence (Clopper–Pearson, or as promised)."]
    if m["clusters"]["count"] != m["exemplars"]:
        counts = [round(m[name]["effective_exemplars"]) for name in ("false_accept_rate", "false_reject_rate")]
        if counts != [m["negatives"], m["positives"]]:
            notes.append(
                f"Errors on one {m['clusters']['by']} are correlated: {m['negatives']:,} negatives count as "
                f"{counts[0]:,}, {m['positives']:,} positives as {counts[1]:,}."
            )
    return [aligned_table(["", "rate", f"{sure} interval", "at most"], rows), *notes]


def _few(m: dict[str, Any]) -> list[str]:
    if m["exemplars"] >= _FEW:
        return []
    return ["Few exemplars: all figures above are rough. Calibrate on some hundreds before you rely on them."]


def _clusters(m: dict[str, Any]) -> str:
    """On how many independent clusters everything rests."""
    by, count = m["clusters"]["by"], m["clusters"]["count"]
    if by is None:
        return "queries    unknown: all exemplars count as independent"
    if by == "query":
        return (
            f"queries    {count:,}; every figure treats the exemplars of a query as one cluster. Classes are unknown: "
            "if queries share them, nothing is promised for new classes"
        )
    return (
        f"clusters   {count:,} {cluster_words(by)}, {m['clusters']['negatives']:,} with negatives and "
        f"{m['clusters']['positives']:,} with positives; rates are promised for new {cluster_words(by)}"
    )


def _losses(m: dict[str, Any]) -> str:
    losses = m["log_loss"]
    return aligned_table(["log loss of", *losses], [["held-out folds", *(_figure(loss) for loss in losses.values())]])


def _by_bag_size(m: dict[str, Any]) -> str:
    names = ("false_accept_rate", "false_reject_rate", "ece_before", "ece_after")
    headings = ["bag size", "exemplars", "false accept", "false reject", "ECE before", "ECE after"]
    rows = [
        [row["bag_size"], f"{row['exemplars']:,}", *(_figure(row[name]) for name in names)] for row in m["by_bag_size"]
    ]
    return aligned_table(headings, rows)


def _witnesses(point: OperatingPoint) -> list[str]:
    rule, found = point.witness_rule, point.measured["witnesses"]
    if not isinstance(rule, ConformalRule) or found is None:
        factor = rule.factor if isinstance(rule, StatedRule) else 0.0
        why = "the data have no known witnesses." if found is None else found["too_few"]
        return [
            f"Witnesses: instances of accepted bags with at least {factor:g} times an even share of the attention,",
            f"or of the drop of the logit without them. A fixed rule without a guarantee: {why}",
        ]
    lines = [
        f"Witnesses: instances with probability × share by {rule.by} × size of the bag >= {rule.threshold:.4g};",
        f"at least {100 * (1 - rule.epsilon):.4g}% of true witnesses are inside (conformal). Measured on held-out "
        "halves:",
    ]
    measured = found["held_out"]
    warning = little_said(point)
    notes = [warning] if warning else []
    if measured is None:
        return [*lines, "too few witnesses to fit to one half and measure on the other.", *notes]
    headings = ["bag size", "witnesses", "coverage", "precision", "mean size +", "mean size −", "empty +", "empty −"]
    rows = []
    everything = {"bag_size": "all", **measured}
    for title, row in [(row["bag_size"], row) for row in (everything, *measured["by_bag_size"])] + [
        ("default rule", found["stated_rule"])
    ]:
        names = (
            "coverage",
            "precision",
            "mean_size_positive",
            "mean_size_negative",
            "empty_positive",
            "empty_negative",
        )
        rows.append([title, f"{row['witnesses']:,}", *(_figure(row[name], 3) for name in names)])
    return [*lines, aligned_table(headings, rows), "+ and −: positive and negative exemplars.", *notes]


def little_said(point: OperatingPoint) -> str:
    """A warning if the witness sets hold nearly whole bags; else ""."""
    marked = point.nearly_whole_sets
    if marked is None:
        return ""
    true = point.measured["witnesses"]["shares_of_bags"]["true"]
    return (
        f"Warning: witness sets hold {marked:.0%} of a positive bag on average, and {true:.0%} of a bag are witnesses, "
        "so the sets say little. The shares do not rank witnesses well enough for this guarantee: allow more misses "
        "(--epsilon), try other shares (--witnesses alone or shapley), or train a better verifier."
    )


def _parameters(document: dict[str, Any]) -> str:
    name = document.pop("name")
    if name == "isotonic":
        return f"isotonic, {len(document['logits'])} points"
    return ", ".join([name, *(f"{key} {value:.4g}" for key, value in document.items())])


def _span(interval: dict[str, Any]) -> str:
    return f"{interval['low']:.4f} – {interval['high']:.4f}"


def _figure(value: float | None, digits: int = 4) -> str:
    return "-" if value is None else f"{value:.{digits}f}"

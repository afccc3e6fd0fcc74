"""The order of the models, ours and the paper's, on the rounds that all our models have."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from scipy.stats import kendalltau, spearmanr

from miv.evaluation.evaluation import TITLES
from miv.experiments.comparison import CellEvidence
from miv.experiments.grids import FOUR, Experiment
from miv.experiments.published import published

Order = tuple[tuple[str, ...], ...]  # best first, equals together


@dataclass(frozen=True)
class Ranking:
    """The order of the models by a metric, best first, ours and the paper's, among the models that both have.

    Args:
        metric: the metric.
        rounds: rounds that all our models have; our figures are means over these.
        ours: our order.
        paper: the paper's order; models printed with the same figure are equal.
        kendall: rank correlation: 1 for the same order, -1 for the opposite; NaN with fewer than three models.
        spearman: likewise, by Spearman.
    """

    metric: str
    rounds: tuple[int, ...]
    ours: Order
    paper: Order
    kendall: float
    spearman: float

    def __str__(self) -> str:
        correlation = ""
        if math.isfinite(self.kendall):
            models = sum(map(len, self.ours))
            correlation = f" Kendall's tau {self.kendall:.2f}, Spearman's rho {self.spearman:.2f} ({models} models)."
        rounds = f"round{'s' if len(self.rounds) > 1 else ''} {', '.join(map(str, self.rounds))}"
        return (
            f"Order by {TITLES[self.metric]}: ours ({rounds}) {order_text(self.ours)}; the paper's "
            f"{order_text(self.paper)}.{correlation} {self._winners}"
        )

    @property
    def _winners(self) -> str:
        ours, paper = set(self.ours[0]), set(self.paper[0])
        if not ours & paper:
            return "The winner differs from the paper's."
        if ours == paper:
            return "The same model wins."
        return "Our winner is among the paper's." if ours < paper else "The paper's winner is among ours."


def rankings(experiment: Experiment, evidence: CellEvidence) -> list[Ranking]:
    """The orders by AUROC and accuracy, or by i-AUROC and i-AP, if the rows are models."""
    if experiment.name not in ("classification", "key_instance") or not evidence.may_judge:
        return []
    ranked = [ranking(experiment, evidence, metric) for metric in experiment.metrics if metric in FOUR]
    return [one for one in ranked if one is not None]


def ranking(experiment: Experiment, evidence: CellEvidence, metric: str) -> Ranking | None:
    """Rank the models that both have; ``None`` if fewer than two share a round."""
    paper = {
        row.model: figure.mean
        for row in experiment.rows
        if evidence.of(row.setup) and (figure := published(experiment, row, metric))
    }
    rows = [row for row in experiment.rows if row.model in paper]
    rounds = evidence.common_rounds(rows)
    if len(rows) < 2 or not rounds:
        return None
    ours = {}
    for row in rows:
        found = [result.metrics[metric] for result in evidence.of(row.setup, rounds)]
        ours[row.model] = sum(found) / len(found)
    enough = len(rows) > 2 and len(set(ours.values())) > 1 and len(set(paper.values())) > 1
    pair = list(ours.values()), list(paper.values())
    return Ranking(
        metric,
        rounds,
        order(ours),
        order(paper),
        float(kendalltau(*pair).statistic) if enough else math.nan,
        float(spearmanr(*pair).statistic) if enough else math.nan,
    )


def order(figures: Mapping[str, float]) -> Order:
    """Names by their figures, best first, with ties together.

    >>> order({"a": 0.7, "b": 0.8, "c": 0.7})
    (('b',), ('a', 'c'))
    """
    values = sorted(set(figures.values()), reverse=True)
    return tuple(tuple(name for name, figure in figures.items() if figure == value) for value in values)


def order_text(order: Order) -> str:
    """Format an order.

    >>> order_text((("b",), ("a", "c")))
    'b > a = c'
    """
    return " > ".join(" = ".join(equals) for equals in order)

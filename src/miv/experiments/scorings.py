"""How witnesses are scored: as in the paper, and in two ways that are the same for every model.

By attention, as in the paper, the baseline's instances tie except for its first choice, while CAP ranks all of them.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Scoring:
    """A way to score witnesses.

    Args:
        name: what a claim judged by it is called; empty for the paper's.
        metrics: of which the first is the i-AUROC.
        words: by what instances are ranked.
    """

    name: str
    metrics: tuple[str, ...]
    words: str

    def of(self, claim: str) -> str:
        """The name of a claim that is judged by it.

        >>> OWN_SCORE.of("CAP > baseline in finding witnesses")
        'CAP > baseline in finding witnesses, by own score'
        """
        return f"{claim}, {self.name}" if self.name else claim


PAPERS = Scoring("", ("i_auroc", "i_ap"), "i-AUROC and i-AP by attention, as in the paper")
OWN_SCORE = Scoring(
    "by own score",
    ("i_auroc_by_score", "i_ap_by_score"),
    "i-AUROC and i-AP by each model's own score of every instance (the baseline's similarity, the others' attention)",
)
FIRST_CHOICE = Scoring(
    "by first choice",
    ("i_auroc_one_hot", "i_ap_one_hot", "i_top1"),
    "i-AUROC, i-AP and i-top1 of the first choice alone (one-hot for all models, like the baseline's attention)",
)
SCORINGS = (PAPERS, OWN_SCORE, FIRST_CHOICE)
# The columns of the tables that score all models alike.
ALIKE = (
    *OWN_SCORE.metrics,
    "i_auroc_by_contribution",
    "i_ap_by_contribution",
    *FIRST_CHOICE.metrics,
)


def yardstick(metric: str) -> str:
    """The area under the curve that says whether anything is found at all, by the scoring that a metric is of.

    >>> yardstick("accuracy"), yardstick("i_ap"), yardstick("i_top1"), yardstick("i_ap_by_contribution")
    ('auroc', 'i_auroc', 'i_auroc_one_hot', 'i_auroc_by_contribution')
    """
    if metric in ("i_auroc_by_contribution", "i_ap_by_contribution"):
        return "i_auroc_by_contribution"
    return next((one.metrics[0] for one in SCORINGS if metric in one.metrics), "auroc")

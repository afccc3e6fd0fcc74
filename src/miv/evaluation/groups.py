"""Right and wrong answers by group, such as the digit."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from miv.data.array_checks import as_strings
from miv.evaluation.metric_checks import as_labels, as_scores


class GroupRow(NamedTuple):
    """The answers for one group.

    Args:
        group: its name.
        tp: true positives, yes for label 1.
        tn: true negatives, no for label 0.
        fp: false positives, yes for label 0.
        fn: false negatives, no for label 1.
    """

    group: str
    tp: int
    tn: int
    fp: int
    fn: int

    @property
    def exemplars(self) -> int:
        """Number of exemplars."""
        return self.tp + self.tn + self.fp + self.fn

    @property
    def accuracy(self) -> float:
        """The share of right answers; NaN without exemplars."""
        return (self.tp + self.tn) / self.exemplars if self.exemplars else float("nan")

    def document(self) -> dict[str, str | int | float]:
        """Everything as plain values, for JSON."""
        counts = {"tp": self.tp, "tn": self.tn, "fp": self.fp, "fn": self.fn}
        return {"group": self.group, "exemplars": self.exemplars, **counts, "accuracy": self.accuracy}


def group_table(
    label: ArrayLike, probability: ArrayLike, group: ArrayLike, *, threshold: float = 0.5
) -> list[GroupRow]:
    """Count the answers by group: ``label``, ``probability`` and ``group`` (strings) are ``(E,)``.

    Groups are sorted, numbers by value. The answer is yes at ``threshold`` or above; for logits use 0.

    >>> for row in group_table([1, 0, 0], [0.9, 0.2, 0.7], ["3", "3", "7"]):
    ...     print(row)
    GroupRow(group='3', tp=1, tn=1, fp=0, fn=0)
    GroupRow(group='7', tp=0, tn=0, fp=1, fn=0)
    """
    score = as_scores("probability", probability)
    label = as_labels(label, len(score))
    names, code = np.unique(as_strings("group", np.asarray(group), len(score)), return_inverse=True)
    kind = 2 * label + (score >= threshold)  # 0 TN, 1 FP, 2 FN, 3 TP
    counts = np.bincount(4 * code + kind, minlength=4 * len(names)).reshape(-1, 4).tolist()
    rows = [GroupRow(str(name), tp, tn, fp, fn) for name, (tn, fp, fn, tp) in zip(names, counts, strict=True)]
    return sorted(rows, key=lambda row: _natural(row.group))


def _natural(name: str) -> tuple[bool, int, str]:
    is_number = name.isascii() and name.isdigit() and len(name) < 20
    return not is_number, int(name) if is_number else 0, name

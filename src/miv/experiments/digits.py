"""The paper's Table 3: right and wrong answers of CAP-VEMA by digit, as shares of each digit's exemplars."""

from collections.abc import Sequence

import numpy as np
from scipy.stats import spearmanr

from miv.experiments.published import published_digit
from miv.experiments.ranking import order, order_text
from miv.experiments.results import Result
from miv.experiments.text_tables import Table

KINDS = ("tp", "tn", "fp", "fn")
Shares = dict[str, dict[str, float]]  # digit → kind → share


def our_shares(results: Sequence[Result]) -> Shares:
    """The means over rounds."""
    by_digit: dict[str, list[list[float]]] = {}
    for result in results:
        for row in result.evaluation["groups"] or []:
            by_digit.setdefault(row["group"], []).append([row[kind] / row["exemplars"] for kind in KINDS])
    return {
        digit: dict(zip(KINDS, np.mean(shares, axis=0).tolist(), strict=True)) for digit, shares in by_digit.items()
    }


def paper_shares() -> Shares:
    """The paper's shares, from one round that it calls representative."""
    found: Shares = {}
    for digit in map(str, range(10)):
        for kind in KINDS:
            share = published_digit(digit, kind)
            if share is not None:
                found.setdefault(digit, {})[kind] = share
    return found


def accuracy(shares: Shares) -> dict[str, float]:
    """The share of right answers by digit."""
    return {digit: round(kinds["tp"] + kinds["tn"], 9) for digit, kinds in shares.items()}  # equal sums are equal


def digit_table(results: Sequence[Result], *, with_paper: bool) -> list[Table]:
    """The tables; none if nothing is computed yet."""
    ours, paper = our_shares(results), paper_shares() if with_paper else {}
    if not ours:
        return []
    rows = []
    our_accuracy, paper_accuracy = accuracy(ours), accuracy(paper)
    for digit, kinds in ours.items():
        values = [*(kinds[kind] for kind in KINDS), our_accuracy[digit]]
        beside = [""] * len(values)
        if digit in paper:
            beside = [f" ({share:.3f})" for share in (*(paper[digit][k] for k in KINDS), paper_accuracy[digit])]
        rows.append([digit, *(f"{value:.3f}{theirs}" for value, theirs in zip(values, beside, strict=True))])
    title = f"Shares by digit, mean of {len(results)} rounds" + (", with the paper's in brackets" if paper else "")
    return [Table(title, ["digit", *(kind.upper() for kind in KINDS), "accuracy"], rows)]


def digit_sentences(results: Sequence[Result]) -> list[str]:
    """Which digits are hard for our model and for the paper's."""
    ours, paper = accuracy(our_shares(results)), accuracy(paper_shares())
    common = [digit for digit in ours if digit in paper]
    if len(common) < 3:
        return []
    correlation = spearmanr([ours[digit] for digit in common], [paper[digit] for digit in common]).statistic
    easiest_first = [order_text(order({digit: shares[digit] for digit in common})) for shares in (ours, paper)]
    return [
        f"From the easiest digit to the hardest: ours {easiest_first[0]}; the paper's {easiest_first[1]}. "
        f"Spearman's rho of the accuracies {correlation:.2f}."
    ]

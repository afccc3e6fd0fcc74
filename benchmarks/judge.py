"""How well a judge tells supported claims from others, and the controls that a shortcut would not pass.

    PYTHONPATH=. python benchmarks/judge.py --data DATA --symmetric FILE --wice FILE [--out docs/results/judge.jsonl]
    PYTHONPATH=. python benchmarks/judge.py --data DATA --sets test [--out docs/results/judge.jsonl]

DATA has nli/, fever-dev/ and fm2/; FILE as for tools/judge.py. A judge is a function of queries and targets with three
probabilities per pair: supports, contradicts, neither. A bag has the greatest one over the targets that BM25 ranks
first. Everything is measured on validation sets; the test split of fever-dev is measured once, at the end.
"""

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import judge_sets as sets  # type: ignore[import-not-found]
import numpy as np
from judge_plain import (  # type: ignore[import-not-found]
    OUTCOMES,
    Cached,
    Judgement,
    balanced_accuracy,
    blend,
    candidates,
    held_out_outcomes,
    judged,
    limits,
    outcomes,
    overlap,
    plain_scores,
)
from judge_sets import Cases
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from miv.backbones.pairs import LABELS, Judge

TRUE_RATE = 0.64  # of supported claims; how many others does the same threshold accept?
SETS = ("symmetric", "nli", "fever", "fm2", "wice", "test")
Row = dict[str, str | int | float]
Scores = NDArray[np.float64]


class Report:
    """Rows of results, printed as they come.

    Args:
        judge: the judge.
        most: candidates of a bag.
    """

    def __init__(self, judge: Judgement, most: int) -> None:
        self.judge, self.most, self.rows = judge, most, list[Row]()

    def add(self, name: str, cases: int, method: str, figure: str, value: float) -> None:
        row: Row = {"set": name, "n": cases, "method": method, "figure": figure, "value": round(float(value), 4)}
        self.rows.append(row)
        print(json.dumps(row), flush=True)

    def scores(self, cases: Cases) -> Scores:
        """The probability of supports of each case."""
        return judged(self.judge, cases, self.most)[:, 0]

    def readings(self, cases: Cases) -> dict[str, Scores]:
        """The probability of supports, and its odds to contradicts: if the targets are evidence, which is it?"""
        own = np.log(judged(self.judge, cases, self.most) + 1e-9)
        return {"judge": own[:, 0], "judge, odds": own[:, 0] - own[:, 1]}

    def compare(self, name: str, cases: Cases) -> None:
        """AUROC of supported against others, of the judge and of the plain scores."""
        truth = np.array([case.supported for case in cases])
        for method, scores in {**self.readings(cases), **plain_scores(cases)}.items():
            self.add(name, len(cases), method, "auroc", roc_auc_score(truth, scores))

    def wice(self, cases: Cases) -> None:
        """AUROC and balanced accuracy of sentences, of the best three as one text, and of blends of all scores."""
        cases = with_candidates(cases, self.most)
        joined = [replace(case, targets=(" ".join(case.targets),)) for case in with_candidates(cases, 3)]
        truth = np.array([case.supported for case in cases])
        own, together = (judged(self.judge, some, self.most) for some in (cases, joined))
        columns = {"judge": own[:, 0], "judge, three together": together[:, 0], **plain_scores(cases)}
        columns["overlap, three together"] = np.concatenate(overlap(joined))
        plain = [scores for name, scores in columns.items() if not name.startswith(("judge", "sum"))]
        columns["blend without judge"] = blend(plain, truth)
        columns["blend"] = blend([*plain, *np.log(np.column_stack([own, together])[:, [0, 1, 3, 4]] + 1e-9).T], truth)
        for method, scores in columns.items():
            self.add("wice dev", len(cases), method, "auroc", roc_auc_score(truth, scores))
            self.add("wice dev", len(cases), method, "balanced_accuracy", balanced_accuracy(scores, truth))

    def controls(self, name: str, bags: list[sets.ClaimBag]) -> None:
        """What the judge says if claim or evidence is taken away, exchanged or changed."""
        cases = sets.gold(bags)
        threshold = {
            method: float(np.quantile(scores[[case.supported for case in cases]], 1 - TRUE_RATE))
            for method, scores in {"judge": self.scores(cases), **plain_scores(cases)}.items()
        }
        for control, some in (
            ("claim only", [replace(case, targets=("",)) for case in cases]),
            ("random evidence", sets.random_evidence(cases)),
            *by_length(cases),
        ):
            truth = [case.supported for case in some]
            for method, scores in self.readings(some).items():
                self.add(f"{name}: {control}", len(some), method, "auroc", roc_auc_score(truth, scores))
        changed = sets.changed_claims(cases)
        refuted = [case for case in cases if not case.supported]
        for control, some in {"refuted claim": refuted, **changed}.items():
            for method, scores in {"judge": self.scores(some), **plain_scores(some)}.items():
                share = np.mean(scores >= threshold[method])
                self.add(f"{name}: {control}", len(some), method, "accepted_at_64", share)
        for form, some in (("gold", cases), ("whole bag", sets.whole(bags))):
            self.outcomes(f"{name}, {form}", some, changed if form == "gold" else {})
        self.stability(name, bags)

    def outcomes(self, name: str, cases: Cases, changed: dict[str, Cases]) -> None:
        """How often each outcome is the answer, by thresholds from other claims that keep ``PROMISES``."""
        absent = [replace(case, label=LABELS.index("neither")) for case in sets.random_evidence(cases)]
        every = {"": [*cases, *absent], **changed}
        both = [(kind, case) for kind, some in every.items() for case in some]
        scores = judged(self.judge, [case for _, case in both], self.most)
        labels = np.array([case.label if not kind else -1 for kind, case in both])  # changed ones set no threshold
        found = held_out_outcomes(scores, labels, [case.name for _, case in both])
        kinds = np.array([kind or f"true label {LABELS[case.label]}" for kind, case in both])
        for kind in dict.fromkeys(kinds.tolist()):
            for number, outcome in enumerate(OUTCOMES):
                share = np.mean(found[kinds == kind] == number)
                self.add(f"{name}: {kind}", int((kinds == kind).sum()), "judge", f"called {outcome}", share)

    def stability(self, name: str, bags: list[sets.ClaimBag]) -> None:
        """How often the outcome stays with irrelevant sentences or in another order."""
        cases = sets.whole(bags)
        thresholds = limits(judged(self.judge, cases, self.most), np.array([case.label for case in cases]))
        for control, one, two in (
            ("irrelevant sentences added", cases, sets.irrelevant_added(bags)),
            ("sentences in reverse", sets.in_order(bags, reverse=False), sets.in_order(bags, reverse=True)),
        ):
            first, second = (outcomes(judged(self.judge, some, self.most), thresholds) for some in (one, two))
            self.add(f"{name}: {control}", len(one), "judge", "same_outcome", np.mean(first == second))


def by_length(cases: Cases) -> Iterator[tuple[str, Cases]]:
    """Claims with few, some and many words, a third each."""
    order = sorted(cases, key=lambda case: len(case.query.split()))
    third = len(order) // 3
    yield from (
        ("short claims", order[:third]),
        ("middle claims", order[third : 2 * third]),
        ("long claims", order[2 * third :]),
    )


def with_candidates(cases: Cases, most: int) -> Cases:
    """Cases with only the targets that BM25 ranks first."""
    chosen = candidates(cases, most)
    return [
        replace(case, targets=tuple(case.targets[place] for place in some))
        for case, some in zip(cases, chosen, strict=True)
    ]


def speed(judge: Judgement, cases: Cases) -> float:
    """Pairs per second."""
    some = cases[:256]
    began = time.perf_counter()
    judge([case.query for case in some], [case.targets[0] for case in some])
    return len(some) / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--symmetric", type=Path)
    parser.add_argument("--wice", type=Path)
    parser.add_argument("--sets", nargs="+", default=SETS[:-1], choices=SETS, help="what to measure")
    parser.add_argument("--judge", type=Path, default=Path("src/miv/verifier/shipped_verifiers/judge"))
    parser.add_argument("--most", type=int, default=300, help="claims of each set, and half the pairs of each NLI set")
    parser.add_argument("--candidates", type=int, default=5)
    parser.add_argument("--out", type=Path, help="file of rows, which new ones are added to")
    options = parser.parse_args()
    judge, most = Judge(folder=str(options.judge)).eval().probabilities, options.most
    report = Report(Cached(judge), options.candidates)
    if "symmetric" in options.sets:
        symmetric = sets.symmetric(options.symmetric, options.data)
        report.add("speed", 256, "judge", "pairs_per_s", speed(judge, symmetric))
        report.compare("symmetric dev", symmetric)
    if "nli" in options.sets:
        every = sets.nli(options.data / "nli/validation.jsonl.gz", 2 * most)
        for name in sorted({case.group for case in every}):
            cases = [case for case in every if case.group == name]
            report.compare(f"{name} validation", cases)
            right = judged(report.judge, cases, options.candidates).argmax(axis=1) == [case.label for case in cases]
            report.add(f"{name} validation", len(cases), "judge", "accuracy", right.mean())
    for chosen, name, split, title in (
        ("fever", "fever", "validation", "fever-dev validation"),
        ("fm2", "fm2", "validation", "fm2 validation"),
        ("test", "fever", "test", "fever-dev test"),
    ):
        if chosen in options.sets:
            bags = sets.claims(options.data, name, split, most)
            report.compare(f"{title}, gold", sets.gold(bags))
            report.compare(f"{title}, whole bag", sets.whole(bags))
            if name == "fever":
                report.controls(title, bags)
    if "wice" in options.sets:
        report.wice(sets.wice(options.wice))
    if options.out:
        with options.out.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in report.rows)


if __name__ == "__main__":
    main()

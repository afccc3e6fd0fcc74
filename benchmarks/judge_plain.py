"""Plain scores beside a judge, each one number per case: cosine, BM25, overlap, names and numbers, `miv/evidence`."""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from judge_sets import Cases  # type: ignore[import-not-found]
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tools.judge_rules import CONTRADICTS, SUPPORTS, names, numbers

from miv import Verifier
from miv.backbones import create_backbone
from miv.backbones.cache import embed_instances
from miv.data import ExemplarSet, InstancePool
from miv.evaluation.predicting import predict

Scores = NDArray[np.float64]
Judgement = Callable[[Sequence[str], Sequence[str]], Scores]  # queries and targets to (P, 3)

K1, B = 1.2, 0.75  # of BM25
_FOLDS = 5


def words(text: str) -> list[str]:
    """The words of a text without case."""
    return re.findall(r"\w+", text.lower())


def overlap(cases: Cases) -> list[Scores]:
    """The share of the query's words that each target has."""
    found = []
    for case in cases:
        query = set(words(case.query))
        found.append(np.array([len(query & set(words(target))) / max(1, len(query)) for target in case.targets]))
    return found


def bm25(cases: Cases) -> list[Scores]:
    """BM25 of each target, with the frequencies of all targets."""
    texts = {target: Counter(words(target)) for case in cases for target in case.targets}
    frequency = Counter(word for counts in texts.values() for word in counts)
    mean = float(np.mean([counts.total() for counts in texts.values()]))
    found = []
    for case in cases:
        scores = []
        for counts in (texts[target] for target in case.targets):
            length = K1 * (1 - B + B * counts.total() / mean)
            score = 0.0
            for word in set(words(case.query)) & counts.keys():
                inverse = math.log1p((len(texts) - frequency[word] + 0.5) / (frequency[word] + 0.5))
                score += inverse * counts[word] * (K1 + 1) / (counts[word] + length)
            scores.append(score)
        found.append(np.array(scores))
    return found


def candidates(cases: Cases, most: int) -> list[list[int]]:
    """The ``most`` targets of each case that BM25 ranks first, in their order."""
    return [sorted(np.argsort(-scores, kind="stable")[:most].tolist()) for scores in bm25(cases)]


_vectors: dict[str, NDArray[np.float32]] = {}  # of texts, of length 1


def cosine(cases: Cases) -> list[Scores]:
    """Cosine of MiniLM's sentence vectors."""
    texts = sorted({text for case in cases for text in (case.query, *case.targets)} - _vectors.keys())
    if texts:
        pool = InstancePool("text", np.array(texts, dtype=object))
        vectors = embed_instances(create_backbone("hf:minilm"), pool, np.arange(len(texts)))
        _vectors.update(zip(texts, vectors / np.linalg.norm(vectors, axis=1, keepdims=True), strict=True))
    found = []
    for case in cases:
        targets = np.array([_vectors[target] for target in case.targets])
        found.append((targets @ _vectors[case.query]).astype(np.float64))
    return found


def evidence(cases: Cases) -> Scores:
    """The logit of ``miv/evidence``."""
    texts = sorted({text for case in cases for text in (case.query, *case.targets)})
    place = {text: number for number, text in enumerate(texts)}
    exemplars = ExemplarSet.from_lists(
        InstancePool("text", np.array(texts, dtype=object)),
        [place[case.query] for case in cases],
        [[place[target] for target in dict.fromkeys(case.targets)] for case in cases],
        [int(case.supported) for case in cases],
    )
    return predict(Verifier.from_pretrained("miv/evidence"), exemplars).logit.astype(np.float64)


def details(cases: Cases) -> Scores:
    """The share of the query's numbers and names that some target has; 1 if it has none."""
    found = []
    for case in cases:
        parts = [*numbers(case.query), *names(case.query)]
        text = " ".join(case.targets)
        found.append(float(np.mean([part in text for part in parts])) if parts else 1.0)
    return np.array(found)


def plain_scores(cases: Cases) -> dict[str, Scores]:
    """All plain scores, one number per case; a bag has that of its best target."""
    best = {
        name: np.array([scores.max(initial=0.0) for scores in score(cases)])
        for name, score in (("cosine", cosine), ("bm25", bm25), ("overlap", overlap))
    }
    total = sum((value - value.mean()) / (value.std() + 1e-9) for value in best.values())
    return {**best, "sum": np.asarray(total), "names and numbers": details(cases), "miv/evidence": evidence(cases)}


class Cached:
    """A judge that remembers what it was asked."""

    def __init__(self, judgement: Judgement) -> None:
        self._judgement = judgement
        self._known: dict[tuple[str, str], Scores] = {}

    def __call__(self, queries: Sequence[str], targets: Sequence[str]) -> Scores:
        pairs = list(zip(queries, targets, strict=True))
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._known]
        if new:
            found = self._judgement([query for query, _ in new], [target for _, target in new])
            self._known.update(zip(new, found, strict=True))
        return np.array([self._known[pair] for pair in pairs]).reshape(len(pairs), 3)


def judged(judge: Judgement, cases: Cases, most: int) -> Scores:
    """Greatest probabilities over the candidates of each case, ``(E, 3)``; ``neither`` is the least one."""
    chosen = candidates(cases, most) if any(len(case.targets) > most for case in cases) else None
    rows = chosen or [list(range(len(case.targets))) for case in cases]
    queries = [case.query for case, some in zip(cases, rows, strict=True) for _ in some]
    targets = [case.targets[place] for case, some in zip(cases, rows, strict=True) for place in some]
    found = judge(queries, targets)
    scores, first = np.zeros((len(cases), 3)), 0
    for number, some in enumerate(rows):
        own = found[first : first + len(some)]
        scores[number] = *own[:, :2].max(axis=0), own[:, 2].min()
        first += len(some)
    return scores


OUTCOMES = ("supported", "contradicted", "not in the sources", "unsure")
PROMISES = (0.10, 0.03, 0.10)  # refuted claims supported; true ones contradicted; either not in the sources


def limits(scores: Scores, labels: NDArray[np.int64]) -> Scores:
    """The least threshold ``(3,)`` of each outcome that keeps its promise on cases ``(E, 3)`` with known labels."""
    true, false = scores[labels == SUPPORTS], scores[labels == CONTRADICTS]
    supported, contradicted, neither = PROMISES
    absent = max(np.quantile(true[:, 2], 1 - neither), np.quantile(false[:, 2], 1 - neither))
    return np.array([np.quantile(false[:, 0], 1 - supported), np.quantile(true[:, 1], 1 - contradicted), absent])


def outcomes(scores: Scores, thresholds: Scores) -> NDArray[np.int64]:
    """Places in ``OUTCOMES``: of those above their threshold the most probable, or unsure."""
    passed = np.where(scores > thresholds, scores, -1.0)
    return np.where(passed.max(axis=1) < 0, len(OUTCOMES) - 1, passed.argmax(axis=1))


def held_out_outcomes(
    scores: Scores, labels: NDArray[np.int64], groups: Sequence[str], seed: int = 0
) -> NDArray[np.int64]:
    """Outcomes of every fold of groups by the thresholds of the others."""
    names = {name: place for place, name in enumerate(dict.fromkeys(groups))}
    fold_of = np.random.default_rng(0).integers(0, _FOLDS, len(names))
    fold = fold_of[[names[name] for name in groups]]
    found = np.zeros(len(scores), np.int64)
    for number in range(_FOLDS):
        found[fold == number] = outcomes(scores[fold == number], limits(scores[fold != number], labels[fold != number]))
    return found


def balanced_accuracy(scores: Scores, truth: NDArray[np.bool_], seed: int = 0) -> float:
    """Balanced accuracy with the threshold that is best on the other folds."""
    fold = np.random.default_rng(seed).permutation(len(scores)) % _FOLDS
    said = np.zeros(len(scores), bool)
    for number in range(_FOLDS):
        held = fold == number
        levels = np.unique(scores[~held])
        rates = [_balanced(scores[~held] >= level, truth[~held]) for level in levels]
        said[held] = scores[held] >= levels[int(np.argmax(rates))]
    return _balanced(said, truth)


def _balanced(said: NDArray[np.bool_], truth: NDArray[np.bool_]) -> float:
    return float((said[truth].mean() + (~said[~truth]).mean()) / 2)


def blend(columns: Sequence[Scores], truth: NDArray[np.bool_], seed: int = 0) -> Scores:
    """Logistic regression of several scores, each case scored by a fit without its fold."""
    inputs = np.column_stack(list(columns))
    fold = np.random.default_rng(seed + 1).permutation(len(inputs)) % _FOLDS
    scores = np.zeros(len(inputs))
    for number in range(_FOLDS):
        held = fold == number
        model = make_pipeline(StandardScaler(), LogisticRegression(C=0.3))
        model.fit(inputs[~held], truth[~held])
        scores[held] = model.decision_function(inputs[held])
    return scores

"""The source sentences that each sentence of an answer is cited with, or that are nearest to it."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from miv.backbones import Backbone
from miv.checking.checked_answer import CheckedSentence, Citation, Outcome, Source
from miv.checking.sentences import Sentence
from miv.inference.verdict import Verdict

Place = tuple[Source, Sentence]


@dataclass(frozen=True, eq=False)
class SourceBag:
    """The ``P`` source sentences as a bag of ``N`` instances: a long sentence is several windows.

    Args:
        places: the sentences with their sources.
        windows: the instances.
        starts: ``(P,)``, the first window of each sentence.
    """

    places: Sequence[Place]
    windows: list[str]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, places: Sequence[Place], backbone: Backbone) -> "SourceBag":
        """Cut the sentences that are longer than the backbone reads."""
        parts = backbone.windows(np.array([sentence.text for _, sentence in places], dtype=object))
        starts = [0, *accumulate(map(len, parts[:-1]))]
        return cls(places, [window for part in parts for window in part], np.array(starts, dtype=np.int64))

    def best(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """For each sentence the score ``(P,)`` of its best window, given those of the windows ``(N,)``."""
        found: NDArray[np.float64] = np.maximum.reduceat(scores, self.starts)
        return found

    def place_of(self, window: int) -> int:
        return int(np.searchsorted(self.starts, window, side="right")) - 1


@dataclass(frozen=True)
class Judged:
    """A checked sentence of an answer: its verdict and outcome, and how many words were read if not all."""

    verdict: Verdict
    outcome: Outcome
    words_read: int | None


def cite(
    sentences: Sequence[Sentence], judged: dict[int, Judged], bag: SourceBag, threshold: float, most: int
) -> tuple[tuple[CheckedSentence, ...], tuple[Citation, ...]]:
    """Number the source sentences in the order of first use: those of supported sentences, then of unsure ones.

    Args:
        sentences: the sentences of the answer.
        judged: those that were checked, by number.
        bag: the source sentences.
        threshold: a source sentence suffices alone if its probability is at least this.
        most: maximum number of source sentences per sentence of the answer.
    """
    ranked = {number: _ranked(one, bag, threshold, most) for number, one in judged.items()}
    order: list[Outcome] = ["supported", "unsure", "unsupported"]
    numbers: dict[int, int] = {}
    for number in sorted(judged, key=lambda number: (order.index(judged[number].outcome), number)):
        for place, _ in ranked[number]:
            numbers.setdefault(place, len(numbers) + 1)
    cited = tuple(_citation(number, bag.places[place]) for place, number in numbers.items())
    checked = []
    for one in sentences:
        found = judged.get(one.number)
        if found is None:
            checked.append(CheckedSentence(one.text, one.paragraph, "not checked", None, item=one.mark))
            continue
        pairs = ranked[one.number]
        checked.append(
            CheckedSentence(
                one.text,
                one.paragraph,
                found.outcome,
                found.verdict.probability,
                tuple(numbers[place] for place, _ in pairs),
                tuple(score for _, score in pairs),
                found.words_read,
                one.mark,
            )
        )
    return tuple(checked), cited


def _citation(number: int, place: Place) -> Citation:
    source, sentence = place
    return Citation(number, source.name, sentence.number, sentence.text, sentence.line)


def _ranked(judged: Judged, bag: SourceBag, threshold: float, most: int) -> list[tuple[int, float]]:
    """Places and probabilities of the witnesses that suffice alone; or of the nearest source sentences."""
    verdict = judged.verdict
    scores = verdict.scores
    assert scores is not None  # noqa: S101 - witnesses were requested
    best = bag.best(scores)
    if judged.outcome == "supported":
        alone = (witness.index for witness in verdict.witnesses if scores[witness.index] >= threshold)
        chosen = list(dict.fromkeys(map(bag.place_of, alone)))[:most] or [int(best.argmax())]
    else:
        chosen = np.argsort(-best, kind="stable")[:most].tolist()
    return [(place, float(best[place])) for place in chosen]

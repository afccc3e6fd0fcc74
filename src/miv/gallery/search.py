"""Search a gallery: one pass over everything that is stored, then verdicts on the best bags, and their chance."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from miv.data import csr
from miv.errors import MIVError
from miv.files.arrays import Mask
from miv.files.images import IMAGE_SUFFIXES, picture_of, read_image
from miv.files.instances import is_file
from miv.files.json import NUMBER, check_shape
from miv.gallery.snapshot import Snapshot
from miv.poolings import StoredForm, StoredQueries
from miv.runtime import evaluating, pause
from miv.verifier.decisions import Decision, OperatingPoint
from miv.verifier.display import headline, in_a_line, note_html, places_to_show, witness_word
from miv.verifier.engine import EmbeddedExemplars, decide
from miv.verifier.explain import instances_pooled
from miv.verifier.network import Verifier
from miv.verifier.verdict import Verdict, WitnessMethod
from miv.verifier.verifying import Rows

_SHOWN = 8  # instances of a hit on a page
_VAGUE = 0.5  # a bound above it says nothing


class Chance:
    r"""The probability that the best of ``N`` bags without the query's class reaches some probability.

    .. math:: P = 1 - (1 - r)^N

    The false-accept rate :math:`r` of one bag is that of the negatives on which the verifier was calibrated, counted so
    that it is never 0: a probability above all ``n`` negatives has :math:`r = 1 / (n + 1)`.
    """

    def __init__(self, point: OperatingPoint) -> None:
        self._steps = _steps_of(point)

    def of(self, probability: float, bags: int) -> float | None:
        """The probability that a chance hit is this good, among so many bags; ``None`` if it is unknown."""
        rate, _ = self._rate(probability)
        if rate is None:
            return None
        return 1.0 if rate >= 1 else -math.expm1(bags * math.log1p(-rate))

    def words(self, probability: float, bags: int) -> str:
        """What to tell about the best hit of a calibrated verifier."""
        chance, (_, is_bound) = self.of(probability, bags), self._rate(probability)
        if chance is None:
            return "The calibration does not say how likely a chance hit is. Calibrate again with `miv calibrate`."
        if is_bound and chance > _VAGUE:
            return f"The calibration data have too few negatives to rule out a chance hit among {bags:,} bags."
        share = "more than 99%" if chance > 0.99 else f"{100 * chance:.2g}%" if chance >= 1e-4 else "less than 0.01%"
        words = f"{'at most ' * (is_bound and chance >= 1e-4)}{share}"
        return f"By chance alone, the best of {bags:,} bags looks this good in {words} of searches."

    def _rate(self, probability: float) -> tuple[float | None, bool]:
        """The false-accept rate of one bag, and whether it is only an upper bound."""
        return next(((rate, is_bound) for above, rate, is_bound in self._steps if probability > above), (None, False))


_TAIL = {"effective_negatives": NUMBER, "probability": [NUMBER], "count": [int]}


def _steps_of(point: OperatingPoint) -> list[tuple[float, float, bool]]:
    """From high to low: the false-accept rate above a probability, and whether it is only an upper bound."""
    tail: Any = point.measured.get("false_accepts")
    with suppress(MIVError):
        check_shape(tail, _TAIL, "false_accepts", "")
        negatives, reached, counts = tail["effective_negatives"], tail["probability"], tail["count"]
        if 0 < len(reached) == len(counts) and min(negatives, *counts) > 0:
            bounds = (min(1.0, max(count / (counts[-1] + 1), 1 / (negatives + 1))) for count in counts)
            steps = [(above, rate, count == 1) for above, rate, count in zip(reached, bounds, counts, strict=True)]
            return [*steps, (-math.inf, 1.0, False)]
    rates = point.measured.get("false_accept_rate")  # all that is known of miv/digits
    rate = rates.get("at_most", rates.get("value")) if isinstance(rates, dict) else None
    if not isinstance(rate, int | float) or not 0 <= rate <= 1:
        return []
    return [(math.nextafter(point.threshold, -math.inf), float(rate), True)]


@dataclass(frozen=True, slots=True)
class HitWitness:
    """An instance that shows the query's class: its place in the bag, from 0, its share as ``score``, its name."""

    index: int
    score: float
    name: str


@dataclass(frozen=True, eq=False)
class Hit:
    """A bag of the gallery, with its witnesses, largest share first, and its verdict as ``answer``.

    ``chance`` is the probability that the best of as many bags without the query's class would reach this probability,
    or ``None`` if the calibration does not say.
    """

    name: str
    witnesses: tuple[HitWitness, ...]
    chance: float | None
    answer: Verdict = field(repr=False)
    instance_names: Sequence[str] = field(default=(), repr=False)

    @property
    def verdict(self) -> bool:
        """Whether the bag holds something of the query's class."""
        return self.answer.verdict

    @property
    def probability(self) -> float:
        """Probability that it does, calibrated if the verifier is."""
        return self.answer.probability

    @property
    def size(self) -> int:
        """Number of instances in the bag."""
        return self.answer.size

    @property
    def decision(self) -> Decision:
        """``yes`` if the verdict is yes; else ``no``, or ``unsure``; ``answer.reason`` says why."""
        return self.answer.decision

    def __bool__(self) -> bool:
        return self.verdict

    @property
    def query_is_empty(self) -> bool:
        """Whether the query has no content, so that no instance is nearest to it."""
        return self.answer.unlike is not None and self.answer.unlike.query_is_empty

    @property
    def best(self) -> int | None:
        """Place of the instance with the largest share, if the shares say something."""
        return None if self.answer.shares is None or self.query_is_empty else int(self.answer.shares.argmax())

    def shown(self) -> list[tuple[int, str, bool]]:
        """Place and name of the instances to show on a page, and whether each is a witness."""
        witnesses = {witness.index for witness in self.witnesses}
        places = places_to_show(self.answer, _SHOWN).tolist()
        return [(place, self.instance_names[place], place in witnesses) for place in places]

    def document(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "name": self.name,
            "verdict": self.verdict,
            "decision": self.decision,
            "reason": self.answer.reason,
            "warnings": list(self.answer.warnings),
            "probability": self.probability,
            "chance": self.chance,
            "size": self.size,
            "witnesses": [asdict(witness) for witness in self.witnesses],
            "unlike": None if self.answer.unlike is None else self.answer.unlike.document(),
        }


@dataclass(frozen=True, eq=False)
class Hits(Sequence[Hit]):
    """The best bags, best first, with the thresholds of the verifier."""

    hits: tuple[Hit, ...]
    bags: int  # in the gallery
    point: OperatingPoint  # of the verifier, with its thresholds
    references: int  # of the query
    by: WitnessMethod = "attention"  # how witnesses were to be chosen
    pooled: int = 0  # instances that this would have pooled, if it was too many

    def __len__(self) -> int:
        return len(self.hits)

    def __getitem__(self, place: Any) -> Any:
        return self.hits[place]

    def __repr__(self) -> str:
        return f"Hits({len(self)} of {self.bags:,} bags, {sum(hit.verdict for hit in self)} yes)"

    def __str__(self) -> str:
        width, lines = max((len(in_a_line(hit.name)) for hit in self), default=0), []
        for place, hit in enumerate(self, start=1):
            words = f"{headline(hit.answer)}{_witness_words(hit)} {self.warnings_of(hit)}"
            lines.append(f"{place:>3}  {in_a_line(hit.name):<{width}}  {words}".rstrip())
        return "\n".join([*lines, *self.notes()])

    def pieces(self, query: Sequence[str]) -> list[str]:
        """Pieces of HTML: the query and the hits, with the pictures of instances whose files are still there."""
        asked = " ".join(_shown(name, "query", "#2f6fd0") for name in query)
        pieces = [f"<div>{asked}</div>", *(f"<p>{note_html(note)}</p>" for note in self.notes())]
        for place, hit in enumerate(self, start=1):
            words = f"<b>{place}. {escape(hit.name)}</b> {escape(f'{headline(hit.answer)} {self.warnings_of(hit)}')}"
            frames = {True: (witness_word(hit.answer), "#d97706"), False: ("", "transparent")}
            members = [
                _shown(name or f"instance {n}", *frames[is_witness], n == hit.best)
                for n, name, is_witness in hit.shown()
            ]
            more = f"<small>and {hit.size - len(members)} more</small>" if hit.size > len(members) else ""
            pieces.append(f"<section><p>{words}</p>{' '.join(members)} {more}</section>")
        return pieces

    def warnings_of(self, hit: Hit) -> str:
        """The warnings of a hit that not all hits have."""
        return " ".join(warning for warning in hit.answer.warnings if warning not in self._of_all)

    @property
    def _of_all(self) -> list[str]:
        first, *others = self.hits
        return [one for one in first.answer.warnings if all(one in hit.answer.warnings for hit in others)]

    def notes(self) -> list[str]:
        """What a reader must know about the hits: among them the warnings that all of them have."""
        if not self.hits:
            return ["The gallery is empty."]
        notes = self._of_all
        if not self.point.is_default and not self.hits[0].query_is_empty:
            notes.append(Chance(self.point).words(self.hits[0].probability, self.bags))
        if self.pooled:
            used = f"{self.hits[0].answer.witnesses_by} instead. Ask for fewer bags or with fewer references"
            notes.append(f"Witnesses by {self.by} would pool {self.pooled:,} instances: they are by {used}.")
        return notes

    def document(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "bags": self.bags,
            "references": self.references,
            "threshold": self.point.threshold,
            "lower_threshold": self.point.lower_threshold,
            "notes": self.notes(),
            "hits": [hit.document() for hit in self],
        }


def _shown(name: str, word: str, frame: str, is_best: bool = False) -> str:
    """A picture in its frame with its file, or the name if there is no such image file."""
    word = ", ".join(filter(None, ["best" * is_best, word]))
    style, title = f"border:3px solid {frame};border-radius:4px", escape(name, quote=True)
    title += f" ({word})" if word else ""
    if Path(name).suffix.lower() in IMAGE_SUFFIXES and is_file(name):
        with suppress(MIVError):  # damaged since
            source = picture_of(read_image(name, colour=None))
            caption = escape("/".join(Path(name).parts[-2:])) + (f" <b>{word}</b>" if word else "")
            return (
                '<figure style="display:inline-block;margin:2px;max-width:12em;overflow-wrap:anywhere">'
                f'<img alt="{title}" title="{title}" src="{source}" style="{style};height:96px">'
                f"<figcaption><small>{caption}</small></figcaption></figure>"
            )
    return f'<span style="{style};display:inline-block;padding:0 4px">{title}</span>'


def _witness_words(hit: Hit) -> str:
    if not hit.witnesses:
        return ""
    shown = [in_a_line(w.name) if w.name else f"instance {w.index}" for w in hit.witnesses[:3]]
    more = f" and {len(hit.witnesses) - 3} more" if len(hit.witnesses) > 3 else ""
    word = witness_word(hit.answer).capitalize()
    plural = "es" if word == "Witness" else "s"
    return f" {word}{plural if len(hit.witnesses) > 1 else ''}: {', '.join(shown)}{more}."


class TooManyPooled(MIVError):  # noqa: N818 - named after what is wrong
    """A search whose verdicts alone cost more than allowed."""


def search(
    verifier: Verifier,
    form: StoredForm,
    snapshot: Snapshot,
    query: tuple[Rows, Mask],
    top: int,
    asked: WitnessMethod,
    most_pooled: int | None = None,
) -> Hits:
    """Find the ``top`` best bags for a query: features ``(R, C)`` of its references, and which of them are foreign."""
    rule, (references, is_foreign) = verifier.reference_rule, query
    queries = rule.queries(references)  # with the mean of several
    with torch.inference_mode(), evaluating(verifier):
        bags = np.flatnonzero(snapshot.is_live)
        logits = rule.combined(exact_logits(form.prepare(queries), snapshot)[:, bags])
        if not np.isfinite(logits).all():
            name = snapshot.name(int(bags[np.argmin(np.isfinite(logits))]))
            causes = "The query or the bag is far outside the range of the training data, or the gallery is damaged."
            raise MIVError(f"The verifier's logit for the bag {name!r} is NaN or infinite. {causes}")
        best = bags[np.argsort(-logits, kind="stable")[:top]]  # of equal ones, the first added bag first
        ptr, rows = csr.take_bags(snapshot.ptr, best)
        count = len(references)
        by, pooled = _affordable(verifier, asked, np.diff(ptr).tolist(), count, most_pooled)
        features = snapshot.features.take(snapshot.members[rows])
        members, places = np.arange(len(features)) + count, np.tile(np.arange(count), len(best))
        borders = None if count == 1 else csr.borders([count] * len(best))
        every = np.concatenate([references, features])
        foreign = np.append(is_foreign, snapshot.foreign.take(snapshot.members[rows])[:, 0] > 0)
        exemplars = EmbeddedExemplars(every, places, members, ptr, borders, foreign)
        verdicts = decide(verifier, exemplars, by) if len(best) else None
    chance, hits = Chance(verifier.operating_point), []
    for place in [] if verdicts is None else np.argsort(-verdicts.logit, kind="stable"):
        verdict, bag = verdicts[place], int(best[place])  # type: ignore[index]
        names = snapshot.instance_names(bag)
        if is_empty := verdict.unlike is not None and verdict.unlike.query_is_empty:  # nothing is near to it
            verdict = replace(verdict, witnesses=())
        witnesses = tuple(HitWitness(w.index, w.score, names[w.index]) for w in verdict.witnesses)
        hit_chance = None if is_empty else chance.of(verdict.probability, len(bags))
        hits.append(Hit(snapshot.name(bag), witnesses, hit_chance, verdict, names))
    return Hits(tuple(hits), len(bags), verifier.operating_point, count, asked, pooled)


def _affordable(
    verifier: Verifier, asked: WitnessMethod, sizes: list[int], references: int, most: int | None
) -> tuple[WitnessMethod, int]:
    """The method for witnesses, and what the one that was asked for would pool if that is too much."""

    def pooled(method: WitnessMethod) -> int:
        return sum(instances_pooled(method, size, references) for size in sizes)

    if most is None or pooled(asked) <= most:
        return asked, 0
    cheaper: tuple[WitnessMethod, ...] = ("attention",) if verifier.pooling.has_attention else ("alone", "none")
    for method in cheaper:
        if method != asked and pooled(method) <= most:
            return method, pooled(asked)
    raise TooManyPooled(
        f"The verdicts of {len(sizes):,} bags for {references} references would pool {pooled('none'):,} instances. "
        f"Expected at most {most:,}: ask for fewer bags (top), or with fewer references."
    )


_FEW = 8  # queries for which a step over all rows of a batch is short


def exact_logits(prepared: StoredQueries, snapshot: Snapshot) -> NDArray[np.float32]:
    """Logits ``(R, B)`` of all bags, removed ones included, in one pass over the stored rows."""
    parts = []
    ptr = snapshot.ptr if snapshot.per != "bag" else np.arange(snapshot.bags + 1)
    together = max(1, _FEW * prepared.rows_together // max(_FEW, prepared.count))
    for first, last in csr.batches(ptr, together):
        pause()
        rows = snapshot.stored_between(first, last)
        parts.append(prepared.logits(rows, snapshot.ptr[first : last + 1] - snapshot.ptr[first]))
    return np.concatenate(parts, axis=1) if parts else np.zeros((1, 0), np.float32)

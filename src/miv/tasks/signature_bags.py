"""Exemplars of signatures: is the query by the hand of somebody whose anchors are in the bag?"""

from dataclasses import dataclass, field

import numpy as np

from miv.errors import MivError
from miv.exemplars import ExemplarSet, InstancePool

_SECOND_ANCHOR = 0.15  # now and then the writer is in the bag twice
_SAME_SCRIPT = 0.75  # more of the same script than of the other
_FORGED = 0.9  # share of the negatives whose query is a forgery


@dataclass(frozen=True)
class Writer:
    """The images of a writer, as places in the pool.

    Args:
        script: what the writer's other signatures are grouped by, such as ``dutch``.
        genuine: by the writer; each serves as query and as anchor, never as both in the same exemplar.
        forged: by others, in imitation.
    """

    script: str
    genuine: list[int] = field(default_factory=list)
    forged: list[int] = field(default_factory=list)


def draw_exemplars(
    pool: InstancePool, writers: list[Writer], anchors_per_query: int, rng: np.random.Generator
) -> ExemplarSet:
    """Make the exemplars of the signature task.

    For each writer, each query (a genuine signature) and each anchor (another one): a positive exemplar with
    that anchor, now and then a second one, and 2-5 anchors of other writers; and a negative one with a bag of
    the same kind whose query is a forgery (90 %), or with the genuine query and other writers only (10 %, and
    wherever nobody forged the writer). Bags of both labels have 3-7 members, so that size tells nothing.

    Args:
        pool: the images.
        writers: whose images they are.
        anchors_per_query: how many anchors, drawn at random, meet each query; 0 for all.
        rng: source of all choices.

    Returns:
        The exemplars, the witnesses marked, the script of the writer as the group.
    """
    if len(writers) < 3 or not any(len(writer.genuine) > 1 for writer in writers):
        raise MivError(
            f"There are signatures of {len(writers)} writers. Expected at least 3, one of them with two genuine ones: "
            "a bag holds anchors of the query's writer and of at least two others."
        )
    queries, bags, labels, witnesses, groups = [], [], [], [], []
    for writer in writers:
        others = [other for other in writers if other is not writer and other.genuine]
        same = [other for other in others if other.script == writer.script]
        different = [other for other in others if other.script != writer.script]
        for query in writer.genuine:
            anchors = [anchor for anchor in writer.genuine if anchor != query]
            if anchors_per_query:
                anchors = rng.permutation(anchors)[:anchors_per_query].tolist()
            for anchor in anchors:
                for label in (1, 0):
                    own = _own_anchors(writer, query, anchor, rng)
                    count = int(rng.integers(2, 6))
                    asked = query
                    if label == 0:
                        if writer.forged and rng.random() < _FORGED:
                            asked = _pick(writer.forged, rng)
                        else:
                            own, count = [], count + len(own)
                    bag = np.array(own + _other_anchors(same, different, count, rng), np.int64)
                    order = rng.permutation(len(bag))
                    queries.append(asked)
                    bags.append(bag[order])
                    labels.append(label)
                    witnesses.append(order < (len(own) if label else 0))
                    groups.append(writer.script)
    return ExemplarSet(
        pool,
        np.array(queries, np.int64),
        np.cumsum([0, *map(len, bags)], dtype=np.int64),
        np.concatenate(bags),
        np.array(labels, np.int8),
        np.concatenate(witnesses),
        np.array(groups, dtype=object),
    )


def _own_anchors(writer: Writer, query: int, anchor: int, rng: np.random.Generator) -> list[int]:
    if rng.random() >= _SECOND_ANCHOR:
        return [anchor]
    spare = [image for image in writer.genuine if image not in (query, anchor)]
    return [anchor, _pick(spare, rng)] if spare else [anchor]


def _other_anchors(
    same: list[Writer], different: list[Writer], count: int, rng: np.random.Generator
) -> list[int]:
    """Draw genuine signatures of distinct writers, mostly of the same script; where there are few, all."""
    wanted = int(rng.binomial(count, _SAME_SCRIPT))
    from_same = min(len(same), max(wanted, count - len(different)))
    from_different = min(len(different), count - from_same)
    chosen = [same[i] for i in rng.permutation(len(same))[:from_same]]
    chosen += [different[i] for i in rng.permutation(len(different))[:from_different]]
    return [_pick(writer.genuine, rng) for writer in chosen]


def _pick(images: list[int], rng: np.random.Generator) -> int:
    return images[int(rng.integers(len(images)))]

"""Exemplars of signatures: was the query written by a writer with anchors in the bag?"""

from dataclasses import dataclass, field

import numpy as np

from miv.data import ExemplarSet, InstancePool, csr
from miv.errors import MIVError

_TWICE = 0.2  # how often a writer lends a second anchor
_FORGED = 0.9  # share of negatives with a forged query
_FEWEST, _MOST = 2, 5  # other writers in a bag
_LARGEST_BAG = 8


@dataclass(frozen=True)
class Writer:
    """The images of a writer, as positions in the pool.

    Args:
        script: the kind of writing, such as ``dutch``; bags hold more of the query's than of others.
        genuine: by the writer; each serves as query and as anchor, never as both in the same exemplar.
        forged: by others, in imitation; these are only queries.
    """

    script: str
    genuine: list[int] = field(default_factory=list)
    forged: list[int] = field(default_factory=list)


def draw_exemplars(
    pool: InstancePool,
    writers: list[Writer],
    anchors_per_query: int,
    rng: np.random.Generator,
    references_per_query: int = 1,
) -> ExemplarSet:
    """Make the exemplars of the signature task.

    For each writer, each query and each of the writer's anchors there are two exemplars. The positive one
    asks with a genuine signature; its bag holds that anchor and anchors of 2-5 other writers, more of the
    same script than of the other. The negative one asks with a forgery, of such a bag (90 %), or with the
    genuine signature, of a bag without its writer (10 %, and wherever nobody forged the writer). A writer
    lends a second anchor now and then; bags hold 2-8. Where a writer has more forgeries than genuine
    signatures, the latter ask again, and the other way round, so that every signature asks.

    Args:
        pool: the images.
        writers: whose images they are.
        anchors_per_query: number of random anchors per query; 0 for all.
        rng: random generator.
        references_per_query: number of signatures to ask with, all genuine or all forged like the query, none of them
            in the bag; fewer if the writer has too few.

    Returns:
        The exemplars with known witnesses, grouped by the writer's script.
    """
    if len(writers) <= _FEWEST or not any(len(writer.genuine) > 1 for writer in writers):
        raise MIVError(
            f"Got signatures of {len(writers)} writers. Expected at least {_FEWEST + 1}, one of them "
            "with two genuine ones: a bag contains anchors of the query's writer and of others."
        )
    asking, bags, labels, witnesses, groups = [], [], [], [], []
    for writer in writers:
        others = [other for other in writers if other is not writer and other.genuine]
        same = [other for other in others if other.script == writer.script]
        different = [other for other in others if other.script != writer.script]
        genuine, forged = rng.permutation(writer.genuine), rng.permutation(writer.forged)
        for turn in range(max(len(genuine), len(forged)) if len(genuine) else 0):
            query = int(genuine[turn % len(genuine)])
            anchors = [anchor for anchor in writer.genuine if anchor != query]
            if anchors_per_query:
                anchors = rng.permutation(anchors)[:anchors_per_query].tolist()
            for anchor in anchors:
                for label in (1, 0):
                    asked, own = query, _own_anchors(writer, query, anchor, rng)
                    if label == 0:
                        if len(forged) and rng.random() < _FORGED:
                            asked = int(forged[turn % len(forged)])
                        else:
                            own = []
                    rest = _other_anchors(same, different, _LARGEST_BAG - len(own), rng)
                    bag = np.array(own + rest, np.int64)
                    order = rng.permutation(len(bag))
                    alike = writer.genuine if asked in writer.genuine else writer.forged
                    asking.append([asked, *_more_references(alike, {asked, *own}, references_per_query - 1, rng)])
                    bags.append(bag[order])
                    labels.append(label)
                    witnesses.append(order < label * len(own))
                    groups.append(writer.script)
    return ExemplarSet(
        pool,
        np.array([references[0] for references in asking], np.int64),
        csr.borders([len(bag) for bag in bags]),
        np.concatenate(bags),
        np.array(labels, np.int8),
        np.concatenate(witnesses),
        np.array(groups, dtype=object),
        reference_ptr=csr.borders([len(references) for references in asking]),
        reference_index=np.array([one for references in asking for one in references], np.int64),
    )


def _more_references(alike: list[int], taken: set[int], count: int, rng: np.random.Generator) -> list[int]:
    """At most ``count`` further signatures to ask with."""
    if count < 1:
        return []
    return [int(one) for one in rng.permutation([one for one in alike if one not in taken])[:count]]


def _own_anchors(writer: Writer, query: int, anchor: int, rng: np.random.Generator) -> list[int]:
    if rng.random() >= _TWICE:
        return [anchor]
    spare = [image for image in writer.genuine if image not in (query, anchor)]
    return [anchor, spare[int(rng.integers(len(spare)))]] if spare else [anchor]


def _other_anchors(same: list[Writer], different: list[Writer], most: int, rng: np.random.Generator) -> list[int]:
    """Draw anchors of distinct writers, most of them of the same script; where writers are few, of all."""
    count = int(rng.integers(_FEWEST, _MOST + 1))
    of_same = min(len(same), max(count // 2 + 1, count - len(different)))
    lenders = [same[i] for i in rng.permutation(len(same))[:of_same]]
    lenders += [different[i] for i in rng.permutation(len(different))[: count - of_same]]
    first = [lender.genuine[int(rng.integers(len(lender.genuine)))] for lender in lenders]
    second = []
    for lender, lent in zip(lenders, first, strict=True):
        if rng.random() < _TWICE and len(lender.genuine) > 1:
            second.append(int(rng.choice([image for image in lender.genuine if image != lent])))
    return (first + second)[:most]

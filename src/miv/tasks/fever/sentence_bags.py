"""Exemplars of a claim and a bag of sentences, shared by ``fever`` and ``claims``."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from miv.data import ExemplarSet, InstancePool


class ClaimSentence(NamedTuple):
    """A sentence of a bag; a tuple, because a build creates millions.

    Args:
        key: identifies the same sentence in several bags, which is stored once.
        text: what it says.
        page: its page.
        is_evidence: whether annotators marked it as evidence for the claim.
    """

    key: Hashable
    text: str
    page: str
    is_evidence: bool


@dataclass(frozen=True)
class ClaimBag:
    """A claim, its sentences, and whether they support it.

    Args:
        claim: what it says.
        page: its page; empty if unknown.
        supported: whether the sentences support it.
        sentences: its bag.
        group: group of the exemplar, if any.
        topic: the same for claims that share evidence, if known; it becomes the ``query_id``.
    """

    claim: str
    page: str
    supported: bool
    sentences: list[ClaimSentence]
    group: str = ""
    topic: str = ""


def claim_exemplars(bags: Iterable[ClaimBag]) -> ExemplarSet:
    """Turn claims into exemplars: the claim is the query, a witness is an evidence sentence that supports it.

    Evidence that refutes a claim is not a witness: nothing in that bag is of the query's class. The class of a
    sentence and of a claim is its page, if known.
    """
    place: dict[Hashable, int] = {}
    texts: list[str] = []
    pages: list[str] = []

    def stored(key: Hashable, text: str, page: str) -> int:
        if key not in place:
            place[key] = len(texts)
            texts.append(text)
            pages.append(page)
        return place[key]

    queries, labels, groups, topics = [], [], [], []
    members: list[list[int]] = []
    witnesses: list[list[bool]] = []
    for bag in bags:
        queries.append(stored(("claim", bag.claim, bag.page), bag.claim, bag.page))
        members.append([stored(("sentence", one.key), one.text, one.page) for one in bag.sentences])
        witnesses.append([bag.supported and one.is_evidence for one in bag.sentences])
        labels.append(int(bag.supported))
        groups.append(bag.group)
        topics.append(bag.topic)
    classes = np.array(pages, dtype=object) if any(pages) else None
    pool = InstancePool("text", np.array(texts, dtype=object), classes)
    return ExemplarSet.from_lists(
        pool,
        queries,
        members,
        labels,
        witnesses,
        groups if any(groups) else None,
        query_ids=topics if any(topics) else None,
    )

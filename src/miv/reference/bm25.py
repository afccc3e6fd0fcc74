"""BM25, the word-based ranking of search engines: how well each text of a bag matches its query."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.data import ExemplarSet, csr
from miv.io.checked_values import Floats

SATURATION = 1.5  # k1: how soon repeated words stop counting
LENGTH = 0.75  # b: how much long texts are penalised
_WORD = re.compile(r"\w+")
_TOGETHER = 1 << 16  # pairs of texts


def bm25(exemplars: ExemplarSet) -> Floats:
    r"""``(T,)`` the score of each target for its query.

    .. math::
        s(q, t) = \sum_{w \in q} \ln\Big(1 + \frac{N - n_w + .5}{n_w + .5}\Big)
        \frac{f_{wt} (k_1 + 1)}{f_{wt} + k_1 (1 - b + b \, |t| / \overline{|t|})}

    :math:`f_{wt}` counts a word in a target. :math:`N` targets, their mean length and the number :math:`n_w` with a
    word are those of the set's own bags, each text once. Words are runs of letters and digits, in lower case.
    """
    counts = _count_words(exemplars)  # (P, V)
    targets = np.unique(exemplars.bag_index)
    length = np.asarray(counts.sum(axis=1)).reshape(-1)  # (P,)
    mean_length = max(float(length[targets].mean()), 1e-12)
    having = np.asarray((counts[targets] > 0).sum(axis=0)).reshape(-1)  # (V,)
    rarity = np.log1p((len(targets) - having + 0.5) / (having + 0.5))
    row = csr.owners(counts.indptr)
    held_back = SATURATION * (1 - LENGTH + LENGTH * length / mean_length)  # (P,)
    weights = counts.copy()
    weights.data = rarity[counts.indices] * counts.data * (SATURATION + 1) / (counts.data + held_back[row])
    scores = np.zeros(len(exemplars.bag_index))
    queries = _query_words(exemplars, counts)  # (E, V)
    for start in range(0, len(scores), _TOGETHER):
        part = slice(start, start + _TOGETHER)
        products = queries[exemplars.owner[part]].multiply(weights[exemplars.bag_index[part]])
        scores[part] = np.asarray(products.sum(axis=1)).reshape(-1)
    return scores


def _query_words(exemplars: ExemplarSet, counts: Any) -> Any:
    """``(E, V)`` sparse: the words of each query; of several references, the mean of their counts."""
    from scipy.sparse import csr_array

    if not exemplars.has_references:
        return counts[exemplars.query]
    ptr, references = exemplars.all_references
    share = csr.to_rows(1 / np.diff(ptr), ptr)
    return csr_array((share, references, ptr), shape=(len(exemplars), counts.shape[0])) @ counts


def _count_words(exemplars: ExemplarSet) -> Any:
    """``(P, V)`` sparse: how often each word is in each text that occurs."""
    from scipy.sparse import csr_array

    places: dict[str, int] = {}
    words: list[int] = []
    lengths: NDArray[np.int64] = np.zeros(len(exemplars.pool), np.int64)
    for text in exemplars.used.tolist():
        found = _WORD.findall(exemplars.pool.values[text].lower())
        words += [places.setdefault(word, len(places)) for word in found]
        lengths[text] = len(found)
    entries = np.ones(len(words)), np.array(words, np.int64), csr.borders(lengths)
    counts = csr_array(entries, shape=(len(lengths), max(1, len(places))))
    counts.sum_duplicates()
    return counts

"""Ragged bags for tests, drawn by Hypothesis: scores on a coarse grid tie often, others hardly ever."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from miv.evaluation import Predictions


@st.composite
def scores(draw: Any, size: int) -> Any:
    """``(size,)`` numbers from 0 to 1, tied heavily or not at all."""
    levels = draw(st.sampled_from([1, 2, 5, 2**24]))
    seed = draw(st.integers(0, 2**32 - 1))
    numbers = np.random.default_rng(seed).integers(0, levels, size, endpoint=True) / levels
    return numbers.astype(draw(st.sampled_from([np.float32, np.float64])))


@st.composite
def ragged(draw: Any, largest: int = 9) -> Any:
    """``ptr``, ``witness``, ``attention`` and ``label`` of up to 12 bags of up to ``largest``."""
    sizes = draw(st.lists(st.integers(1, largest), min_size=1, max_size=12))
    ptr = np.cumsum([0, *sizes])
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    witness = random.random(ptr[-1]) < draw(st.sampled_from([0.0, 0.2, 0.5, 1.0]))
    return ptr, witness, draw(scores(int(ptr[-1]))), random.integers(0, 2, len(sizes))


def example_predictions(exemplars: int = 60, seed: int = 0) -> Predictions:
    """Answers that are right more often than not, with attention, witnesses and groups."""
    random = np.random.default_rng(seed)
    label = random.integers(0, 2, exemplars)
    label[:2] = 0, 1
    sizes = random.integers(1, 8, exemplars)
    ptr = np.cumsum([0, *sizes])
    owner = np.repeat(np.arange(exemplars), sizes)
    witness = (random.random(ptr[-1]) < 0.3) & (label[owner] == 1)
    weight = np.exp(random.normal(size=ptr[-1]) + witness)
    attention = weight / np.add.reduceat(weight, ptr[:-1])[owner]
    logit = random.normal(size=exemplars) + 2 * label - 1
    return Predictions(logit, label, ptr, attention, witness, np.array([str(n % 3) for n in range(exemplars)]))

"""Tiny sources for reports: two models on four exemplars of each kind of instance."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.data import ExemplarSet, InstancePool
from miv.evaluation import Predictions, ReportModel, ReportSource
from miv.verifier.decisions import OperatingPoint

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&amp;"


def source(kind: str = "image", hostile: str = "", witnesses: bool = True, models: int = 2) -> ReportSource:
    """Exemplar 0: model 1 finds the witness and says yes; model 2 looks elsewhere, and says no."""
    values: NDArray[Any]
    if kind == "image":
        values = np.arange(6 * 4 * 5, dtype=np.uint8).reshape(6, 4, 5)
    elif kind == "text":
        values = np.array([f"text {number} {hostile}" for number in range(6)], dtype=object)
    else:
        values = np.eye(6, dtype=np.float32)
    classes = np.array([f"class {number} {hostile}" for number in range(6)], dtype=object)
    pool = InstancePool(kind, values, classes)
    known = [[True, False], [False, False, False], [False, True], [False]] if witnesses else None
    groups = [f"group {hostile}", "other", "other", "other"]
    bags = [[1, 2], [2, 3, 4], [5, 1], [4]]
    exemplars = ExemplarSet.from_lists(pool, [0, 0, 3, 1], bags, [1, 0, 1, 0], known, groups)
    first = Predictions.of(exemplars, [2.0, -1.0, -3.0, 1.0], [0.9, 0.1, 0.2, 0.3, 0.5, 0.4, 0.6, 1.0])
    second = Predictions.of(exemplars, [-1.0, 4.0, 1.0, -2.0])
    made = [
        ReportModel(f"cap {hostile}", first, OperatingPoint()),
        ReportModel(f"bi_lstm {hostile}", second, OperatingPoint()),
    ]
    return ReportSource(f"data {hostile}", "test", exemplars, made[:models])

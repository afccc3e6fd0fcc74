"""Runs beside each other: metrics with intervals, paired differences from the first run, and settings that differ."""

from pathlib import Path

import numpy as np
from scipy.special import ndtr

from miv.evaluation.evaluation import TITLES
from miv.evaluation.metrics import holm
from miv.evaluation.predicting import Predictions
from miv.evaluation.runs import METRICS, RunFolder, Summary, summarise_runs
from miv.evaluation.witnesses import RANKED_METRICS, influence
from miv.files.arrays import Floats
from miv.runtime import aligned_table, cell_text

_Z = 1.959964  # of a 95 % interval
_CELL, _NAME, _TOGETHER = 26, 20, 2  # most characters of a setting's value and name, and runs in 100 columns


def compare_runs(paths: list[Path], split: str) -> list[Summary]:
    """One row per run: metrics, their 95 % intervals, paired tests against the first run, and settings that differ.

    The tests are DeLong's for AUROC and of the mean difference otherwise, over exemplars, with Holm's correction for
    all runs; there are none between runs that were evaluated on different exemplars.
    """
    for path in paths:
        RunFolder(path).require()
    configs = [RunFolder(path).read_config() for path in paths]
    differing = [name for name in configs[0] if any(config.get(name) != configs[0][name] for config in configs)]
    found = zip(summarise_runs(paths, split), configs, strict=True)
    rows = [row | {name: config.get(name) for name in differing if name not in row} for row, config in found]
    parts = [_influences(path, row, split) for path, row in zip(paths, rows, strict=True)]
    tests = [RunFolder(path).read()["data"]["fingerprints"].get(split) for path in paths]
    for row, part in zip(rows, parts, strict=True):
        reach = {name: _Z * float(np.linalg.norm(influences)) for name, influences in part.items()}
        row["intervals"] = {name: [row[name] - half, row[name] + half] for name, half in reach.items()}
        row["against_first"] = {}
    for name in parts[0]:
        others = [n for n in range(1, len(rows)) if name in parts[n] and tests[n] is not None and tests[n] == tests[0]]
        gaps = [rows[n][name] - rows[0][name] for n in others]
        errors = [float(np.linalg.norm(parts[n][name] - parts[0][name])) for n in others]
        pairs = zip(gaps, errors, strict=True)
        tails = [float(2 * ndtr(-abs(gap) / error)) if error > 0 else float(gap == 0) for gap, error in pairs]
        for n, gap, error, p in zip(others, gaps, errors, holm(tails), strict=True):
            low, high = gap - _Z * error, gap + _Z * error
            rows[n]["against_first"][name] = {"difference": gap, "low": low, "high": high, "p_holm": p}
    return rows


def _influences(path: Path, row: Summary, split: str) -> dict[str, Floats]:
    """By metric, the influence of each exemplar; of a run without these predictions nothing."""
    file = RunFolder(path).predictions(split)
    if not file.is_file():
        return {}
    answers = Predictions.load(file)
    known = [name for name in METRICS if name in RANKED_METRICS or not name.startswith("i_")]
    return {name: influence(answers, name) for name in known if row[name] is not None}


def comparison_text(rows: list[Summary]) -> str:
    """Three tables within 100 columns; of many runs, the columns of settings continue in further tables."""
    letters = [chr(65 + n) if n < 26 else f"R{n}" for n in range(len(rows))]
    names = [name for name in METRICS if any(row[name] is not None for row in rows)]
    heads = ["", *(TITLES[name] for name in names)]
    cells = [
        [letter, *(_with_reach(row[name], row["intervals"].get(name)) for name in names)]
        for letter, row in zip(letters, rows, strict=True)
    ]
    parts = ["\n".join(f"{letter}  {row['run']}" for letter, row in zip(letters, rows, strict=True))]
    parts.append(aligned_table(heads, cells) + "\n± half of the 95 % interval, over exemplars")
    tested = [name for name in names if any(name in row["against_first"] for row in rows)]
    if tested:
        pairs = [
            [f"{letter} − A", *(_gap(row["against_first"].get(name)) for name in tested)]
            for letter, row in zip(letters[1:], rows[1:], strict=True)
        ]
        parts.append(aligned_table(["", *(TITLES[name] for name in tested)], pairs))
        parts[-1] += "\n* p < 0.05, paired over exemplars, with Holm's correction for all runs"
    elif len(rows) > 1:
        parts.append("No paired tests: the runs were not evaluated on the same exemplars.")
    left_out = {"run", "intervals", "against_first", *METRICS}
    settings = [name for name in rows[0] if name not in left_out and len({str(row.get(name)) for row in rows}) > 1]
    for first in range(0, len(rows) if settings else 0, _TOGETHER):
        some = slice(first, first + _TOGETHER)
        lines = [[_cut(n, _NAME), *(_cut(cell_text(row.get(n)), _CELL) for row in rows[some])] for n in settings]
        parts.append(aligned_table(["setting", *letters[some]], lines, left=range(_TOGETHER + 1)))
    return "\n\n".join(parts)


def _with_reach(value: float | None, interval: list[float] | None) -> str:
    if value is None:
        return "–"
    return f"{value:.3f}" + ("" if interval is None else f" ±{interval[1] - value:.3f}")


def _gap(test: dict[str, float] | None) -> str:
    if test is None:
        return "–"
    reach = test["high"] - test["difference"]
    return f"{test['difference']:+.3f} ±{reach:.3f}{'*' if test['p_holm'] < 0.05 else ''}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"

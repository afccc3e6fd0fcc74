"""The tables of the pages on large bags, from the figures of ``scale.py``; ``docs/figures.py`` writes them."""

import operator
from collections.abc import Callable
from typing import Any

GOALS = (  # figure, what it is, goal
    ("stream_memory_mb", "MB above the verifier, for 10,000,000 × 384 float16 features on disk", "<= 500"),
    ("finetune_step_overhead", "step of fine-tuning / the encoder's forward and backward", "<= 1.2"),
)
FINETUNING = (
    ("finetune_step_overhead", "a step / the encoder's own forward and backward on the same tokens, if the graph fits"),
    ("finetune_step_overhead_gradcache", "the same, if no graph fits and everything is embedded twice"),
    ("finetune_last_2_gain", "a step that trains all six layers / one that trains the last two"),
    ("finetune_bfloat16", "the encoder in bfloat16 / in float32"),
    ("finetune_epoch_minutes", "minutes of an epoch of 10,000 exemplars, all layers"),
    ("finetune_epoch_minutes_last_2", "the same, last two layers"),
)
HEADS = {
    "verify": "`verify`",
    "stream": "`verify_stream`",
    "verify_many": "`verify_many`",
    "score": "`miv score`",
}
_COMPARE = {">=": operator.ge, "<=": operator.le}
Figures = dict[str, Any]


def goals(figures: Figures) -> str:
    """Each figure with its goal, and what is known of other work on the machine."""
    rows = []
    for name, meaning, goal in GOALS:
        run = figures.get("runs", {}).get(name, {})
        sign, limit = goal.split()
        reached = "–" if name not in figures else "yes" if _COMPARE[sign](figures[name], float(limit)) else "**no**"
        shown = goal.replace(">=", "≥").replace("<=", "≤")
        rows.append([f"`{name}`", meaning, shown, _short(figures.get(name)), reached, _other_work(run)])
    return _table(["figure", "what it is", "goal", "measured", "reached", "other work before"], rows)


def _other_work(run: Figures) -> str:
    """Threads that ran beside; of earlier measurements, only the load average."""
    if "running_before" in run or "load_before" not in run:
        return _short(run.get("running_before"))
    return f"unknown (load average {_short(run['load_before'])})"


def finetuning(figures: Figures) -> str:
    """What steps of fine-tuning cost."""
    return _table(["hf:minilm on one core", ""], [[text, _short(figures.get(name))] for name, text in FINETUNING])


def growth_bags(figures: Figures) -> str:
    """Time and memory by size of the bag."""
    return _growth(figures["growth_bags"], "targets")


def growth_exemplars(figures: Figures) -> str:
    """Time and memory by number of exemplars."""
    return _growth(figures["growth_exemplars"], "exemplars")


TABLES: dict[str, Callable[[Figures], str]] = {
    "goals": goals,
    "finetuning": finetuning,
    "growth_bags": growth_bags,
    "growth_exemplars": growth_exemplars,
}


def _growth(lines: dict[str, dict[str, dict[str, float]]], what: str) -> str:
    sizes = sorted({int(size) for cells in lines.values() for size in cells})
    heads = [what, *(head for way in lines for head in (f"{HEADS[way]}: seconds", "MB"))]
    rows = []
    for size in sizes:
        row = [f"{size:,}"]
        for cells in lines.values():
            cell = cells.get(str(size), {})
            row += [_short(cell.get("processor_seconds")), _short(cell.get("megabytes"))]
        rows.append(row)
    return _table(heads, rows)


def _short(value: float | None) -> str:
    """Two or three digits that count."""
    if value is None:
        return "–"
    if 0 < abs(value) < 0.001:
        return f"{value:.5f}"
    return f"{value:.2g}" if abs(value) < 0.1 else f"{value:.2f}" if abs(value) < 10 else f"{value:,.0f}"


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)

"""What the examples share: training with default settings beside plain methods, and a picture of one verdict."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import miv

HERE = Path(__file__).parent
PICTURES = HERE.parent / "docs" / "images" / "examples"
IN_SITE = "sphinx" in sys.modules  # which shows figures itself, and commits nothing


def compare(name: str, sets: Any, **settings: Any) -> miv.TrainingRun:
    """Train, print test AUROC and i-AP beside the plain method that validation chooses, and keep the figures."""
    began = time.monotonic()
    run = miv.train(sets, **settings)
    seconds = round(time.monotonic() - began)
    plain = run.reference
    assert plain is not None
    assert plain.best is not None
    ours, best = run.evaluations["test"].metrics, plain.splits["test"][plain.best]
    row = {"plain": plain.best, "plain_auroc": best.auroc, "plain_i_ap": best.i_ap}
    row |= {"auroc": ours["auroc"], "i_ap": ours["i_ap"], "seconds": seconds}
    print(f"{plain.best}: AUROC {best.auroc:.3f}, i-AP {best.i_ap:.3f}")
    print(f"miv train: AUROC {ours['auroc']:.3f}, i-AP {ours['i_ap']:.3f}, {seconds} seconds")
    keep(name, row)
    return run


def keep(name: str, row: dict[str, Any]) -> None:
    """Write a row of ``results.json``."""
    if IN_SITE:
        return
    path = HERE / "results.json"
    rows = json.loads(path.read_text()) if path.exists() else {}
    rows[name] = {key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()}
    path.write_text(json.dumps(dict(sorted(rows.items())), indent=1) + "\n")


def picture(name: str, run: miv.TrainingRun, exemplars: miv.ExemplarSet) -> None:
    """Draw the positive bag with the highest logit: its attention, and what is a witness (orange)."""
    predicted = run.predictions("test")
    chosen = int(np.argmax(np.where(exemplars.label == 1, predicted.logit, -np.inf)))
    part = slice(exemplars.bag_ptr[chosen], exemplars.bag_ptr[chosen + 1])
    values, share = exemplars.pool.values, predicted.attention[part]
    query, targets, witness = (
        values[exemplars.query[chosen]],
        values[exemplars.bag_index[part]],
        exemplars.witness[part],
    )
    if exemplars.pool.kind == "image":
        figure, axes = plt.subplots(1, len(targets) + 1, figsize=(1.1 * len(targets) + 1.1, 1.7))
        for axis, image in zip(axes, [query, *targets], strict=True):
            axis.imshow(image, cmap="gray")
            axis.set(xticks=[], yticks=[])
        axes[0].set_title("query", fontsize=8)
        for axis, each, is_witness in zip(axes[1:], share, witness, strict=True):
            axis.set_title(f"{each:.0%}", fontsize=8)
            for side in axis.spines.values():
                side.set(color="tab:orange" if is_witness else "lightgrey", linewidth=3 if is_witness else 1)
    else:
        figure, axis = plt.subplots(figsize=(7, 0.3 * len(targets) + 0.8))
        axis.barh(np.arange(len(targets))[::-1], share, color=np.where(witness, "tab:orange", "lightgrey"))
        names = [f"{text[:60]}…" if isinstance(text, str) else f"target {n + 1}" for n, text in enumerate(targets)]
        axis.set_yticks(np.arange(len(targets))[::-1], names, fontsize=7)
        axis.set_xlabel("attention; witnesses are orange", fontsize=8)
    if not IN_SITE:
        figure.savefig(PICTURES / f"{name}.png", dpi=90, bbox_inches="tight")

"""The board: `miv train` with its defaults beside plain code, on several sets, sizes and seeds.

    python benchmarks/plain.py --data DATA             # computes the cells that are missing, one after the other
    python benchmarks/plain.py --data DATA --set omniglot --size 1000 --seed 0
    python benchmarks/plain.py --report                # prints the board from the committed cells
    python benchmarks/plain.py --report --page         # and writes its table into docs/results/plain.md

DATA is a folder with qmnist/, omniglot/, fever-dev/ and fm2/. A new cell is a JSON file in CACHE/done until a report
adds it to docs/results/plain.jsonl, one line per cell. What is in either is not computed again, so several processes
may share the work. The last line of the report is JSON.
"""

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

BOARD = Path(__file__).parents[1] / "docs" / "results" / "plain.jsonl"
SIZES = (200, 1000, None)
SEEDS = (0, 1, 2)
METRICS = ("auroc", "i_auroc", "i_ap")
PAGE = BOARD.with_suffix(".md")
COUNT = 90  # ten sets, three sizes, three seeds
GOALS = "The goals are -0.01 for the worst margins and, for the medians, 0.03 (AUROC) and 0.01 (i-AP)."
MARKS = ("<!-- board -->", "<!-- end of board -->")


def cell_name(name: str, size: int | None, seed: int) -> str:
    return f"{name}-{size or 'all'}-{seed}"


def packed() -> dict[str, dict[str, Any]]:
    """The cells of the board by name."""
    cells = [json.loads(line) for line in BOARD.read_text(encoding="utf-8").splitlines()] if BOARD.is_file() else []
    return {cell_name(cell["set"], cell["size"], cell["seed"]): cell for cell in cells}


def pack(done: Path) -> None:
    """Move finished cells into the board, whose lines are sorted by name."""
    with FileLock(f"{BOARD}.lock"):  # other processes may be packing too
        _pack(done)


def _pack(done: Path) -> None:
    files = sorted(done.glob("*.json"))
    cells = packed() | {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in files}
    temporary = BOARD.with_suffix(".part")
    lines = (json.dumps(cells[name], separators=(",", ":")) + "\n" for name in sorted(cells))
    temporary.write_text("".join(lines), encoding="utf-8")
    temporary.replace(BOARD)
    for path in files:
        path.unlink(missing_ok=True)


def compute(name: str, size: int | None, seed: int, data: Path, cache: Path) -> None:
    """Train with the defaults of the command line, and keep what it says beside the reference."""
    from benchmarks import plain_sets

    from miv.data import save_splits

    sets = plain_sets.build(name, data, seed, size, cache)
    path = cache / "done" / f"{cell_name(name, size, seed)}.json"
    folder = cache / "cells" / path.stem  # what was stopped goes on here
    exemplars, run = folder / "exemplars", folder / "run"
    save_splits(sets, exemplars, builder="plain", options={"set": name}, seed=seed, overwrite=True)
    command = [sys.executable, "-m", "miv", "train", str(exemplars), "--out", str(run), "--seed", str(seed)]
    began = time.monotonic()
    told = subprocess.run([*command, "--cache", str(cache), "--resume", "--json"], capture_output=True, text=True)
    seconds = time.monotonic() - began
    if told.returncode:
        raise SystemExit(f"{name} {size} {seed}: {told.stderr}")
    said = json.loads(told.stdout)
    settings = json.loads((run / "config.json").read_text())
    about = json.loads((run / "run.json").read_text())
    test = said["test"]
    ours = {"auroc": test["classification"]["auroc"], **{key: test["witnesses"][key] for key in METRICS[1:]}}
    document = {
        "set": name,
        "size": size,
        "seed": seed,
        "exemplars": {split: len(one) for split, one in sets.items()},
        "miv": ours,
        "validation_auroc": said["validation"]["classification"]["auroc"],
        "reference": said["reference"]["splits"],
        "chosen": next((line for line in told.stderr.splitlines() if line.startswith("Chosen for")), ""),
        "best": about["best"],
        "backbone": settings["backbone"],
        "fingerprints": about["data"]["fingerprints"],
        "versions": about["versions"],
        "commit": _commit(),
        "seconds": round(seconds, 1),
    }
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps(document, indent=1) + "\n")
    temporary.replace(path)
    shutil.rmtree(folder)


def best_plain(reference: dict[str, Any], metric: str) -> float:
    """The best of the plain methods on test itself: harder to beat than one that was chosen on validation."""
    found = [row[metric] for row in reference["test"].values() if row.get(metric) is not None]
    return max(found)


def chosen_plain(reference: dict[str, Any], metric: str) -> float:
    """The plain method that validation chooses, as a person would have to."""
    by_validation = {name: row[metric] for name, row in reference["validation"].items() if row.get(metric) is not None}
    return float(reference["test"][max(by_validation, key=lambda name: by_validation[name])][metric])


def read_cells() -> list[dict[str, Any]]:
    """The cells that are computed. A set with fewer exemplars than asked for is the same cell as "all" of it."""
    cells = list(packed().values())
    if not cells:
        raise SystemExit(f"There is no cell in {BOARD}. Compute some with --data.")
    whole = {(cell["set"], json.dumps(cell["fingerprints"])) for cell in cells if cell["size"] is None}
    return [c for c in cells if c["size"] is None or (c["set"], json.dumps(c["fingerprints"])) not in whole]


def report() -> str:
    """Print all cells, the losses as visible as the wins, and return the table."""
    cells = read_cells()
    lines = [
        "| set | train | seeds | miv AUROC | best plain | margin | miv i-AP | best plain | margin | verdict |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for cell in cells:
        groups.setdefault((cell["set"], cell["size"] or 10**9), []).append(cell)
    for (name, size), some in sorted(groups.items()):
        figures = []
        for metric in ("auroc", "i_ap"):
            ours = np.array([cell["miv"][metric] for cell in some])
            plain = np.array([best_plain(cell["reference"], metric) for cell in some])
            figures += [ours.mean(), plain.mean(), (ours - plain).mean()]
        verdict = f"{_word(figures[2])}, {_word(figures[5])}"
        size_words = "all" if size == 10**9 else f"{size:,}"
        words = " | ".join(f"{value:+.3f}" if at in (2, 5) else f"{value:.3f}" for at, value in enumerate(figures))
        lines.append(f"| {name} | {size_words} | {len(some)} | {words} | {verdict} |")
    margins = {m: np.array([c["miv"][m] - best_plain(c["reference"], m) for c in cells]) for m in METRICS}
    chosen = {m: np.array([c["miv"][m] - chosen_plain(c["reference"], m) for c in cells]) for m in METRICS}
    line = {f"worst_margin_{m}": round(float(margins[m].min()), 4) for m in METRICS}
    line |= {f"median_margin_{m}": round(float(np.median(margins[m])), 4) for m in METRICS}
    line |= {f"worst_margin_{m}_to_chosen": round(float(chosen[m].min()), 4) for m in METRICS}
    line |= {f"median_margin_{m}_to_chosen": round(float(np.median(chosen[m])), 4) for m in METRICS}
    table = "\n".join(lines)
    print(table)
    summary = json.dumps({**line, "cells": len(cells)})
    print(summary)
    return f"{table}\n\n{len(cells)} of {COUNT} cells are computed. `{summary}`\n\n{GOALS}"


def _word(margin: float) -> str:
    return "above" if margin >= 0.01 else "below" if margin < -0.01 else "equal"


def write_page(table: str) -> None:
    """Put the table between the two marks of the page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    PAGE.write_text(f"{before}{MARKS[0]}\n{table}\n{MARKS[1]}{after}", encoding="utf-8")


def _commit() -> str:
    git = shutil.which("git")
    told = subprocess.run(
        [git or "git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=Path(__file__).parent
    )
    return told.stdout.strip()


def main() -> None:
    from benchmarks.plain_sets import NAMES
    from benchmarks.shared import data_folder

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "miv-plain")
    parser.add_argument("--set", choices=NAMES, action="append")
    parser.add_argument("--size", action="append", help="200, 1000 or all")
    parser.add_argument("--seed", type=int, action="append")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--page", action="store_true", help="write the table into docs/results/plain.md")
    asked = parser.parse_args()
    done = asked.cache / "done"
    if not asked.report:
        data_folder(asked.data, "qmnist")
        done.mkdir(parents=True, exist_ok=True)
        sizes = SIZES if asked.size is None else tuple(None if one == "all" else int(one) for one in asked.size)
        for seed in asked.seed or SEEDS:
            for size in sizes:
                for name in asked.set or NAMES:
                    cell = cell_name(name, size, seed)
                    if cell in packed() or (done / f"{cell}.json").exists():
                        continue
                    claim = done / f"{cell}.claimed"
                    with contextlib.suppress(FileExistsError):
                        claim.touch(exist_ok=False)  # another process may be at work on it
                        try:
                            compute(name, size, seed, asked.data, asked.cache)
                            print(f"{name} {size or 'all'} {seed}: done", file=sys.stderr, flush=True)
                        finally:
                            claim.unlink(missing_ok=True)
        pack(done)
    table = report()
    if asked.page:
        write_page(table)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    main()

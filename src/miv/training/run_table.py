"""Tables that compare runs."""

import warnings
from pathlib import Path
from typing import Any

from miv.errors import MIVError, MIVWarning, unknown_name
from miv.training.run_folder import RunFolder

METRICS = ("auroc", "accuracy", "f1", "i_auroc", "i_ap", "i_mrr", "i_top1")  # older runs lack the last two
Summary = dict[str, Any]


def find_runs(folder: Path) -> list[Path]:
    """The runs in a folder and its subfolders, sorted by name."""
    found = sorted(path.parent for path in folder.rglob("run.json") if RunFolder(path.parent).exists())
    if not found:
        raise MIVError(f"{folder} contains no runs. Create one with `miv train DATA --out {folder}/NAME`.")
    return found


def summarise(path: Path, split: str) -> Summary:
    """One run as a row: its settings, whether it is done, and its metrics on a split if available."""
    run = RunFolder(path)
    about, config = run.read(), run.read_config()
    row = {"run": str(path), "pooling": config.get("pooling"), "backbone": config.get("backbone")}
    row |= {"data": about["data"]["name"], "seed": about["seed"], "state": "done" if about["done"] else "not done"}
    row |= dict.fromkeys(METRICS)
    if about["done"]:
        found = run.read_evaluation().get(split) or {}  # runs on data without that split have no metrics
        measured = {**(found.get("classification") or {}), **(found.get("witnesses") or {})}
        row |= {name: measured.get(name) for name in METRICS} | {"seconds": about.get("seconds")}
    return row


def list_runs(paths: list[Path], split: str) -> list[Summary]:
    """One row per run, as ``summarise_runs``; a damaged run is a row too, with a warning that says what is wrong."""
    damaged = set()
    for path in paths:
        try:
            summarise(path, split)
        except MIVError as error:
            warnings.warn(MIVWarning(str(error)), stacklevel=2)
            damaged.add(path)
    rows = iter(summarise_runs([path for path in paths if path not in damaged], split))
    empty = dict.fromkeys(["pooling", "backbone", "data", "seed", "state", *METRICS])
    return [{"run": str(path), **empty, "state": "damaged"} if path in damaged else next(rows) for path in paths]


def summarise_runs(paths: list[Path], split: str) -> list[Summary]:
    """One row per run; it is an error if none was evaluated on the split."""
    rows = [summarise(path, split) for path in paths]
    done = [path for path, row in zip(paths, rows, strict=True) if row["state"] == "done"]
    splits = {name for path in done for name in RunFolder(path).read_evaluation()}
    if splits and split not in splits:
        raise unknown_name("split", split, splits)
    return rows


def compare_runs(paths: list[Path], split: str) -> list[Summary]:
    """Rows with the metrics and with the settings that differ."""
    for path in paths:
        if not RunFolder(path).exists():
            problem = "it has no run.json" if path.is_dir() else "there is no such folder"
            raise MIVError(f"{path} is not a run: {problem}. `miv runs list` shows the existing runs.")
    configs = [RunFolder(path).read_config() for path in paths]
    differing = [name for name in configs[0] if any(config.get(name) != configs[0][name] for config in configs)]
    rows = []
    for row, config in zip(summarise_runs(paths, split), configs, strict=True):
        settings = {name: config.get(name) for name in differing if name not in row}
        rows.append({**row, **settings})
    return rows

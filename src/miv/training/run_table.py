"""Runs side by side."""

from pathlib import Path
from typing import Any

from miv.errors import MIVError, unknown_name
from miv.training.run_folder import RunFolder

METRICS = ("auroc", "accuracy", "f1", "i_auroc", "i_ap", "i_mrr", "i_top1")  # runs before the last two lack them
Summary = dict[str, Any]


def find_runs(folder: Path) -> list[Path]:
    """The runs in a folder and in the folders in it, in the order of their names."""
    found = sorted(path.parent for path in folder.rglob("run.json") if RunFolder(path.parent).exists())
    if not found:
        raise MIVError(f"{folder} holds no run. `miv train DATA --out {folder}/NAME` makes one.")
    return found


def summarise(path: Path, split: str) -> Summary:
    """One run in a row: what it was, whether it is done, and its metrics on a split where it is."""
    run = RunFolder(path)
    about, config = run.read(), run.read_config()
    row = {"run": str(path), "pooling": config.get("pooling"), "backbone": config.get("backbone")}
    row |= {"data": about["data"]["name"], "seed": about["seed"], "state": "done" if about["done"] else "not done"}
    row |= dict.fromkeys(METRICS)
    if about["done"]:
        found = run.read_evaluation().get(split) or {}  # a run on data without that split has no figures
        measured = {**(found.get("classification") or {}), **(found.get("witnesses") or {})}
        row |= {name: measured.get(name) for name in METRICS} | {"seconds": about["seconds"]}
    return row


def summarise_runs(paths: list[Path], split: str) -> list[Summary]:
    """A row for each run; a split on which none of them was evaluated is a mistake."""
    rows = [summarise(path, split) for path in paths]
    done = [path for path, row in zip(paths, rows, strict=True) if row["state"] == "done"]
    splits = {name for path in done for name in RunFolder(path).read_evaluation()}
    if splits and split not in splits:
        raise unknown_name("split", split, splits)
    return rows


def compare_runs(paths: list[Path], split: str) -> list[Summary]:
    """Rows of the metrics and of the settings in which the runs differ."""
    for path in paths:
        if not RunFolder(path).exists():
            problem = "it has no run.json" if path.is_dir() else "there is no such folder"
            raise MIVError(f"{path} is not a run: {problem}. `miv runs list` shows the runs that there are.")
    configs = [RunFolder(path).read_config() for path in paths]
    differing = [name for name in configs[0] if any(config.get(name) != configs[0][name] for config in configs)]
    rows = []
    for row, config in zip(summarise_runs(paths, split), configs, strict=True):
        settings = {name: config.get(name) for name in differing if name not in row}
        rows.append({**row, **settings})
    return rows

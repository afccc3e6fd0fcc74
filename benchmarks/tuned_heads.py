"""The baseline beside CAP under the preset `best`: the same frozen features, and the same number of settings tried.

    python benchmarks/tuned_heads.py --data data/qmnist     # computes the runs that are missing, one after the other
    python benchmarks/tuned_heads.py --page                 # writes the table into docs/results/best.md

Features are those of the backbone of `miv/digits`, which no run trains. For each pooling, the setting with the best
AUROC on validation of round 0 is trained in rounds 1 and 2, too. Test is measured in all runs, and read for the chosen
setting alone. Runs are kept in docs/results/tuned_heads.json as they end.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

RECORD = Path(__file__).parents[1] / "docs" / "results" / "tuned_heads.json"
PAGE = RECORD.with_name("best.md")
MARKS = ("<!-- tuned heads -->", "<!-- end of tuned heads -->")
ROUNDS = (0, 1, 2)
METRICS = ("auroc", "accuracy", "i_auroc", "i_ap", "i_auroc_by_score", "i_ap_by_score", "i_top1")
# As many for the baseline as were tried for CAP when the preset was chosen; the baseline has no heads.
GRID: dict[str, list[dict[str, Any]]] = {
    "baseline": [
        {"rate": 1e-2, "weight_decay": 0.02},
        {"rate": 3e-3, "weight_decay": 0.02},
        {"rate": 2e-3, "weight_decay": 0.02},
        {"rate": 2e-3, "weight_decay": 0.3},
        {"rate": 1e-3, "weight_decay": 0.02},
    ],
    "cap_dba_l2": [
        {"heads": 2, "rate": 3e-3, "weight_decay": 0.02},
        {"heads": 4, "rate": 2e-3, "weight_decay": 0.3},
        {"heads": 8, "rate": 2e-3, "weight_decay": 0.02},
        {"heads": 8, "rate": 1e-3, "weight_decay": 0.02},
        {"heads": 16, "rate": 1e-3, "weight_decay": 0.02},
    ],
}


def name_of(pooling: str, setting: dict[str, Any], number: int) -> str:
    return " ".join([pooling, *(f"{key}={value:g}" for key, value in setting.items()), f"round={number}"])


def read() -> dict[str, Any]:
    return dict(json.loads(RECORD.read_text(encoding="utf-8"))) if RECORD.is_file() else {}


def chosen(runs: dict[str, Any], pooling: str) -> dict[str, Any] | None:
    """The setting with the best validation AUROC of round 0; ``None`` before all are computed."""
    names = [name_of(pooling, setting, 0) for setting in GRID[pooling]]
    if not all(name in runs for name in names):
        return None
    best = max(range(len(names)), key=lambda at: runs[names[at]]["validation"]["auroc"])
    return GRID[pooling][best]


def run(pooling: str, setting: dict[str, Any], number: int, data: Path, cache: Path) -> dict[str, Any]:
    """Train one head; return its figures on validation and test."""
    from miv.evaluation import Predictions, evaluate, witness_rankings
    from miv.evaluation.runs import RunFolder
    from miv.evaluation.witnesses import RANKED_METRICS
    from miv.experiments.cells import new_pooling_on
    from miv.runtime import SilentProgress, source_commit
    from miv.tasks import create_task
    from miv.training.auto import preset
    from miv.training.run import Machine, train

    sets = create_task("qmnist", raw=data, round=number).build(SilentProgress())
    changes = {"contrast_epochs": 0, "full_stage": False, "patience": 6, "augmentation": "none", "seed": number}
    changes |= {"heads": setting.get("heads", 2), "weight_decay": setting["weight_decay"]}
    settings = preset("best", pooling).changed({**changes, "frozen_learning_rates": ((0, setting["rate"]),)})
    start, began = new_pooling_on("miv/digits", settings, sets["train"].pool), time.monotonic()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        train(sets, settings, Path(folder) / "run", Machine(cache, accelerator="cpu"), start_from=start)
        for split in ("validation", "test"):
            answers = Predictions.load(RunFolder(Path(folder) / "run").predictions(split))
            figures = dict(evaluate(answers).metrics)
            ranked = witness_rankings(answers) or {}
            figures |= {key: ranked[by][metric] for key, (by, metric) in RANKED_METRICS.items() if by in ranked}
            found[split] = {key: round(float(figures[key]), 6) for key in METRICS}
    return {**found, "seconds": round(time.monotonic() - began, 1), "code": source_commit()}


def compute(data: Path, cache: Path, minutes: float) -> None:
    """Compute what is missing; after ``minutes``, no further run begins."""
    until = time.monotonic() + 60 * minutes
    wanted = [(pooling, setting, 0) for pooling, some in GRID.items() for setting in some]
    for later in (False, True):
        if later:
            best = {pooling: chosen(read(), pooling) for pooling in GRID}
            wanted = [(p, setting, number) for p, setting in best.items() if setting for number in ROUNDS[1:]]
        for pooling, setting, number in wanted:
            name = name_of(pooling, setting, number)
            if name in read():
                continue
            if time.monotonic() > until:
                raise SystemExit(f"{minutes:g} minutes are over. Run the same command for the rest.")
            runs = {**read(), name: run(pooling, setting, number, data, cache)}
            text = json.dumps({key: runs[key] for key in sorted(runs)}, indent=1) + "\n"
            RECORD.with_suffix(".part").write_text(text, encoding="utf-8")
            RECORD.with_suffix(".part").replace(RECORD)
            print(f"{name}: {runs[name]}", file=sys.stderr, flush=True)


def table() -> str:
    """The chosen setting of each pooling: mean over rounds on test, and what was tried."""
    runs = read()
    lines = [
        "| pooling, setting chosen of five | validation AUROC of the five, round 0 | AUROC by round | mean | accuracy "
        "| i-AUROC, i-AP by attention | by own score | i-top1 |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for pooling, some in GRID.items():
        setting = chosen(runs, pooling)
        names = [] if setting is None else [name_of(pooling, setting, number) for number in ROUNDS]
        if setting is None or not all(name in runs for name in names):
            raise SystemExit(f"Runs of {pooling} are missing. Compute them with --data.")
        tests = [runs[name]["test"] for name in names]
        mean = {key: sum(one[key] for one in tests) / len(tests) for key in METRICS}
        tried = ", ".join(f"{runs[name_of(pooling, one, 0)]['validation']['auroc']:.3f}" for one in some)
        words = ", ".join(f"{key.replace('_', ' ')} {value:g}" for key, value in setting.items())
        by_round = ", ".join(f"{one['auroc']:.3f}" for one in tests)
        lines.append(
            f"| `{pooling}`, {words} | {tried} | {by_round} | **{mean['auroc']:.3f}** | {mean['accuracy']:.3f} "
            f"| {mean['i_auroc']:.3f}, {mean['i_ap']:.3f} "
            f"| {mean['i_auroc_by_score']:.3f}, {mean['i_ap_by_score']:.3f} | {mean['i_top1']:.3f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the raw files of QMNIST")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "miv" / "features")
    parser.add_argument("--minutes", type=float, default=600, help="begin no run after these")
    parser.add_argument("--page", action="store_true", help="write the table into docs/results/best.md")
    asked = parser.parse_args()
    if asked.data is not None:
        compute(asked.data, asked.cache, asked.minutes)
    text = table()
    print(text)
    if asked.page:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(MARKS[0])
        _, _, after = rest.partition(MARKS[1])
        PAGE.write_text(f"{before}{MARKS[0]}\n{text}\n{MARKS[1]}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()

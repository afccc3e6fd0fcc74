"""Write the figures in the pages from the result files: ``python docs/figures.py``.

A figure stands in a page between two comments that readers do not see,

    <!-- figure FILE KEY FORMAT -->0.793<!-- end -->

with a JSON file of docs/results, the keys to a value in it, joined by ``/``, and how Python formats it.
A table of the reproduction or of benchmarks/scale_page.py stands between ``<!-- table NAME -->`` and
``<!-- end table -->``.
``summary.json`` has what follows from many results; this script writes that file first. A test checks that nothing
would change.
"""

import csv
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

DOCS = Path(__file__).parent
RESULTS = DOCS / "results"
PUBLISHED = DOCS.parent / "src" / "miv" / "reproduction" / "published_results.csv"
PAGES = (DOCS.parent / "README.md", *sorted(DOCS.glob("*.md")), *sorted(RESULTS.glob("*.md")))
TABLE = re.compile(r"(<!-- table (\S+) -->\n).*?(<!-- end table -->)", re.DOTALL)
Cells = list[dict[str, Any]]
FIGURE = re.compile(r"(<!-- figure (\S+) (\S+) (\S+) -->)[^<]*(<!-- end -->)")


def filled(page: str) -> str:
    """A page with every figure and table as the result files have it."""
    page = TABLE.sub(lambda found: f"{found[1]}{table(found[2])}\n{found[3]}", page)
    return FIGURE.sub(lambda found: found[1] + format(value(found[2], found[3]), found[4]) + found[5], page)


def table(name: str) -> str:
    """A table of the reproduction, or of what large bags cost."""
    if name in REPRODUCED:
        return REPRODUCED[name]()
    from benchmarks.scale_page import TABLES

    return TABLES[name](json.loads((RESULTS / "large-bags.json").read_text("utf-8")))


def value(file: str, key: str) -> Any:
    """What a result file has under ``key``."""
    found = json.loads((RESULTS / file).read_text("utf-8"))
    for part in key.split("/"):
        found = found[part]
    return found


def summary() -> dict[str, Any]:
    """The figures that follow from many results, rounded so that they are the same on every machine."""
    return {"digits": of_digits()}


def of_digits() -> dict[str, Any]:
    """What the verifier that comes with the package reaches, beside the best model of the paper."""
    accuracy = value("verifying-qmnist.json", "verify_many/accuracy_at_operating_point")
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if (row["table"], row["task"]) == ("classification", "qmnist")]
    best = max(float(row["mean"]) for row in rows if row["metric"] == "auroc" and not row["variant"])
    return {"wrong_of_100": round(100 * (1 - accuracy)), "paper_auroc": best}


def models_table(task: str, tier: str) -> str:
    """The paper's main tables of a task beside ours."""
    from miv.reproduction.comparison import CellEvidence, compare_figures, estimate
    from miv.reproduction.grids import EXPERIMENTS, ROUNDS
    from miv.reproduction.tables import NOTHING, Table, estimate_text

    evidence = CellEvidence(task, tier, tuple(range(ROUNDS)), RESULTS)
    tables = [EXPERIMENTS[task][name] for name in ("classification", "key_instance")]
    figures = {(one.row.model, one.metric): one for name in tables for one in compare_figures(name, evidence)}
    rows = []
    for row in tables[0].rows:
        if not evidence.of(row.setup):
            continue
        cells = []
        for metric in ("auroc", "i_auroc"):
            figure = figures.get((row.model, metric))
            ours, paper = (None, None) if figure is None else (figure.ours, figure.paper)
            cells.append(NOTHING if paper is None else f"{paper.mean:.3f}")
            cells.append(NOTHING if ours is None else estimate_text(ours))
        first = estimate(evidence.of(row.setup), "i_top1")
        rows.append([f"`{row.model}`", *cells, NOTHING if first is None else f"{first.value:.3f}"])
    for name in ("query_only", "query_words", "bag_only"):
        areas = [line[name] for line in controls() if (line["task"], line.get("tier")) == (task, tier) if name in line]
        if areas:
            rows.append([f"`{name}`", NOTHING, mean_of(areas), *[NOTHING] * 3])
    heads = ["model", "AUROC, paper", "AUROC, ours", "i-AUROC, paper", "i-AUROC, ours", "i-top1, ours"]
    return Table("", heads, rows).markdown()


def controls() -> Cells:
    """What the query or the bag tells alone, as benchmarks/controls.py writes it."""
    return [json.loads(line) for line in (RESULTS / "controls.jsonl").read_text("utf-8").splitlines()]


def mean_of(areas: list[float]) -> str:
    """The mean of some rounds with its standard error, if there are several."""
    error = f" ± {np.std(areas, ddof=1) / len(areas) ** 0.5:.3f}" if len(areas) > 1 else ""
    return f"{np.mean(areas):.3f}{error}"


def symmetric_table() -> str:
    """FEVER's development claims beside FEVER-Symmetric, where the claim alone tells nothing."""
    from miv.reproduction.tables import Table

    lines = controls()
    plain = {line["task"]: line for line in lines if "tier" in line and line["task"] in ("fever-dev", "symmetric")}
    rows = []
    for name in ("query_only", "query_words", "bag_only", "nearest"):
        rows.append([f"`{name}`", *(f"{plain[task][name]:.3f}" for task in ("fever-dev", "symmetric"))])
    runs = [line for line in lines if "run" in line]
    for model in sorted({line["model"] for line in runs}):
        of_model = [line for line in runs if line["model"] == model]
        rows.append([f"`{model}`", *(mean_of([line[name] for line in of_model]) for name in ("test", "symmetric"))])
    return Table("", ["model", "AUROC, development set", "AUROC, FEVER-Symmetric"], rows).markdown()


def pairs_table() -> str:
    """Query and target read together, beside frozen and fine-tuned features: benchmarks/fever_pairs.py."""
    from miv.reproduction.tables import NOTHING, Table

    lines = [json.loads(line) for line in (RESULTS / "fever_pairs.jsonl").read_text("utf-8").splitlines()]
    names = {"frozen": "frozen, selected recipe", "tier": "fine-tuned, tier `finetuned`"}
    names |= {"finetuned": "fine-tuned like the pairs", "pairs": "`pairs:minilm`"}
    names |= {name: f"`{name}`" for name in ("query_only", "query_words", "bag_only", "nearest")}
    found: dict[str, Cells] = {}
    for line in lines:
        is_pairs = line["row"] == "pairs"
        more = f", sentences read: {line['candidates']}, epochs: {line['epochs']}" if is_pairs else ""
        found.setdefault(names[line["row"]] + more, []).append(line)
    rows = []
    for name, of_row in found.items():
        columns = ([one.get(key) for one in of_row] for key in ("test", "test_i_ap", "symmetric"))
        rows.append([name, str(len(of_row)), *(NOTHING if None in areas else mean_of(areas) for areas in columns)])
    heads = ["model", "rounds", "AUROC, development set", "i-AP, development set", "AUROC, FEVER-Symmetric"]
    return Table("", heads, rows).markdown()


def gate_table() -> str:
    """By set: how far `miv train` is above the plain method chosen on validation."""
    from benchmarks.gate import METRICS, read_cells

    from miv.reproduction.tables import Table

    cells = read_cells("after")
    sets = sorted(dict.fromkeys(key[:2] for key in cells))
    margins: dict[str, list[float]] = {}  # means of sets, by metric
    rows = []
    for name, size in sets:
        of_set = [key for key in cells if key[:2] == (name, size)]
        row = [name, f"{size:,}"]
        for metric in METRICS:
            margin = np.array([cells[key]["miv"][metric] - cells[key]["plain"][metric] for key in of_set])
            row.append(mean_text(margin))
            margins.setdefault(metric, []).append(float(margin.mean()))
        rows.append(row)
    rows.append(["mean of sets", "", *(mean_text(np.array(means)) for means in margins.values())])
    heads = ["set", "train", "AUROC above plain", "i-AP above plain"]
    return Table("", heads, rows).markdown()


def mean_text(values: Any) -> str:
    """The mean and its standard error, if there are several values."""
    from benchmarks.gate import mean_and_error

    mean, error = mean_and_error(values)
    return f"{mean:+.3f} ± {error:.3f}" if len(values) > 1 else f"{mean:+.3f}"


def ablation_table() -> str:
    """By recipe: what test figures lose without it, over the sets where that changes anything."""
    from benchmarks.ablation import summary

    from miv.reproduction.tables import Table

    rows = []
    for name, found in summary().items():
        rows.append([f"`{name}`", str(found["sets"]), *(f"{found[metric]:+.4f}" for metric in ("auroc", "i_ap"))])
    heads = ["without", "sets", "AUROC", "i-AP"]
    return Table("", heads, rows).markdown()


def many_classes_table() -> str:
    """By set of many classes: what `contrast_map` adds on test."""
    from benchmarks.ablation import MANY, METRICS, read

    from miv.reproduction.tables import Table

    changes: dict[str, list[Any]] = {}
    for cell in read(MANY):
        with_all, without = cell["without"][""], cell["without"]["contrast_map"]
        change = [with_all[metric] - without[metric] for metric in METRICS]
        changes.setdefault(cell["set"], []).append(change)
    rows = []
    for name, values in sorted(changes.items()):
        rows.append([name, str(len(values)), *(f"{mean:+.3f}" for mean in np.mean(values, axis=0))])
    return Table("", ["set", "cells", "AUROC", "i-AP"], rows).markdown()


def claims_table() -> str:
    """The paper's claims on all tasks: one word, the weakest effect, its interval."""
    from miv.reproduction.tables import conclude

    return conclude(RESULTS, "cpu", range(3)).tables[0].markdown()


def progress_table() -> str:
    """How many cells of each experiment are computed, by task."""
    from miv.reproduction.comparison import CellEvidence
    from miv.reproduction.grids import EXPERIMENTS, ROUNDS
    from miv.reproduction.tables import NOTHING, Table

    names = list(dict.fromkeys(name for some in EXPERIMENTS.values() for name in some))
    rows = []
    for task, tier in (*((task, "cpu") for task in EXPERIMENTS), ("qmnist", "frozen"), ("fever-dev", "finetuned")):
        evidence, row = CellEvidence(task, tier, tuple(range(ROUNDS)), RESULTS), [f"`{task}`, {tier}"]
        for name in names:
            setups = (
                {one.setup.name: one.setup for one in EXPERIMENTS[task][name].rows} if name in EXPERIMENTS[task] else {}
            )
            done = sum(len(evidence.of(setup)) for setup in setups.values())
            row.append(f"{done} of {ROUNDS * len(setups)}" if setups else NOTHING)
        rows.append(row)
    return Table("", ["task, tier", *names], rows).markdown()


def best_table() -> str:
    """The preset `best` on QMNIST by round."""
    from miv.reproduction.tables import Table

    lines = (RESULTS / "best.jsonl").read_text("utf-8").splitlines()
    cells = {cell["cell"]: cell for cell in map(json.loads, lines)}
    metrics = ("auroc", "accuracy", "i_auroc", "i_ap")
    rounds = [[cells[f"round-{number}"]["test"]["figures"][name] for name in metrics] for number in range(3)]
    rows = [[str(number), *(f"{value:.3f}" for value in some)] for number, some in enumerate(rounds)]
    rows.append(["mean", *(f"{np.mean(column):.3f}" for column in zip(*rounds, strict=True))])
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        published = [row for row in csv.DictReader(file) if row["task"] == "qmnist" and not row["variant"]]
    tables = ("classification", "key_instance")
    best = [
        max(float(r["mean"]) for r in published if r["metric"] == name and r["table"] in tables) for name in metrics
    ]
    rows.append(["the paper's best", *(f"{value:.3f}" for value in best)])
    return Table("", ["round", "AUROC", "accuracy", "i-AUROC", "i-AP"], rows).markdown()


REPRODUCED = {
    "gate": gate_table,
    "ablation": ablation_table,
    "many_classes": many_classes_table,
    "claims": claims_table,
    "progress": progress_table,
    "best": best_table,
    "models-qmnist": lambda: models_table("qmnist", "cpu"),
    "models-frozen": lambda: models_table("qmnist", "frozen"),
    "models-signature": lambda: models_table("signature", "cpu"),
    "models-fever-dev": lambda: models_table("fever-dev", "cpu"),
    "symmetric": symmetric_table,
    "pairs": pairs_table,
    "models-claims": lambda: models_table("claims", "cpu"),
}


def main() -> None:
    """Write the summary and the figures of all pages."""
    (RESULTS / "summary.json").write_text(json.dumps(summary(), indent=2) + "\n", "utf-8")
    for page in PAGES:
        text = page.read_text("utf-8")
        if filled(text) != text:
            page.write_text(filled(text), "utf-8")
            print(f"Wrote {page.relative_to(DOCS.parent)}.")


if __name__ == "__main__":
    sys.path.insert(0, str(DOCS.parent))
    main()

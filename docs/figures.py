"""Write the figures in the pages from the result files: ``python docs/figures.py``.

A figure stands in a page between two comments that readers do not see,

    <!-- figure FILE KEY FORMAT -->0.793<!-- end -->

with a JSON file of docs/results, the keys to a value in it, joined by ``/``, and how Python formats it.
A table of benchmarks/scale_page.py stands between ``<!-- table NAME -->`` and ``<!-- end table -->``.
``summary.json`` has what follows from many results; this script writes that file first. A test checks that nothing
would change.
"""

import contextlib
import csv
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

DOCS = Path(__file__).parent
RESULTS = DOCS / "results"
PUBLISHED = DOCS.parent / "src" / "miv" / "experiments" / "published_results.csv"
PAGES = (DOCS.parent / "README.md", *sorted(DOCS.glob("*.md")), *sorted(RESULTS.glob("*.md")))
TABLE = re.compile(r"(<!-- table (\S+) -->\n).*?(<!-- end table -->)", re.DOTALL)
FIGURE = re.compile(r"(<!-- figure (\S+) (\S+) (\S+) -->)[^<]*(<!-- end -->)")
CAP = ("cap_vema", "cap_dba_l1", "cap_dba_l2")
Cells = list[dict[str, Any]]


def filled(page: str) -> str:
    """A page with every figure and table as the result files have it."""
    page = TABLE.sub(lambda found: f"{found[1]}{table(found[2])}\n{found[3]}", page)
    return FIGURE.sub(lambda found: found[1] + format(value(found[2], found[3]), found[4]) + found[5], page)


def table(name: str) -> str:
    """A table of what large bags cost."""
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
    return {
        "plain": of_the_board(),
        "digits": of_digits(),
        "qmnist": of_qmnist(),
        "frozen": of_frozen(),
        "sizes": of_sizes(),
    }


def of_the_board() -> dict[str, Any]:
    """How far `miv train` is above the best plain method, by set and size."""
    from benchmarks.plain import best_plain, read_cells

    def margin(cells: Cells, metric: str) -> float:
        """The mean over the seeds of one set and size."""
        return float(np.mean([cell["miv"][metric] - best_plain(cell["reference"], metric) for cell in cells]))

    def median(cells: Cells, metric: str) -> float:
        return round(float(np.median([margin([cell], metric) for cell in cells])), 6)

    cells = read_cells()
    rows: dict[tuple[str, int | None], Cells] = {}
    for cell in cells:
        rows.setdefault((cell["set"], cell["size"]), []).append(cell)
    sets = sorted({name for name, _ in rows})
    # A set with fewer than 1,000 exemplars has a row of all of them instead.
    at_1000 = [margin(rows.get((name, 1000)) or rows[name, None], "auroc") for name in sets]
    gains = [gain for gain in at_1000 if gain >= 0.01]
    rose = {row: margin(some, "i_ap") for row, some in rows.items() if margin(some, "auroc") > 0}
    lost = {name for (name, _), change in rose.items() if change <= -0.005}
    by_seed = {seed: [cell for cell in cells if cell["seed"] == seed] for seed in (0, 1)}
    return {
        "sets": len(sets),
        "above_at_200": sum(margin(rows[name, 200], "auroc") >= 0.01 for name in sets),
        "above_at_1000": len(gains),
        "least_gain_at_1000": round(min(gains), 6),
        "most_gain_at_1000": round(max(gains), 6),
        "worst_at_1000": round(min(at_1000), 6),
        "i_ap_lost_on": len(lost),
        "cells_of_seed_1": len(by_seed[1]),
        "median_auroc_of_seed_0": median(by_seed[0], "auroc"),
        "median_i_ap_of_seed_0": median(by_seed[0], "i_ap"),
    }


def of_digits() -> dict[str, Any]:
    """What the verifier that comes with the package reaches, beside the best model of the paper."""
    accuracy = value("verifying-qmnist.json", "verify_many/accuracy_at_operating_point")
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if (row["table"], row["task"]) == ("classification", "qmnist")]
    best = max(float(row["mean"]) for row in rows if row["metric"] == "auroc" and not row["variant"])
    return {"wrong_of_100": round(100 * (1 - accuracy)), "paper_auroc": best}


def of_qmnist() -> dict[str, Any]:
    """Leads, steps and order on QMNIST."""
    sections = [reproduced("qmnist", name) for name in ("classification", "ablation")]
    tests = {(test["row"], test["metric"]): test for section in sections for test in section["paired_tests"]}
    leads = [tests[model, "auroc"]["difference"] for model in CAP]
    step = tests["cap_vema +multi_head", "auroc"]
    return {
        "least_lead_of_cap": round(min(leads), 6),
        "most_lead_of_cap": round(max(leads), 6),
        "multi_head_of_vema": round(step["difference"], 6),
        "multi_head_of_vema_p": round(step["p_holm"], 6),
        "kendall": round(sections[0]["order"][0]["kendall"], 6),
    }


def of_frozen() -> dict[str, Any]:
    """The figures of the poolings on one frozen backbone, by model and metric."""
    found: dict[str, dict[str, float]] = {}
    for name in ("classification", "key_instance"):
        section = reproduced("qmnist", name, "--tier", "frozen")
        for one in (*section["figures"], *section["scored_alike"]["figures"]):
            if one["rounds"]:
                figures = found.setdefault(one["model"], {"rounds": one["rounds"]})
                figures[one["metric"]] = round(one["ours"], 6)
    return found


def of_sizes() -> dict[str, Any]:
    """The figures of the size study on that backbone, by model, size and metric."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    section = reproduced("qmnist", "size_study", "--tier", "frozen", "--rounds", "1")
    for one in section["figures"]:
        if one["rounds"] and one["metric"] in ("auroc", "i_auroc"):
            of_model = found.setdefault(one["model"], {})
            of_model.setdefault(one["variant"], {})[one["metric"]] = round(one["ours"], 6)
    return found


def reproduced(task: str, experiment: str, *flags: str) -> Any:
    """What `miv reproduce` says from the committed results."""
    from typer.testing import CliRunner

    from miv.cli.app import app

    words = ["reproduce", task, experiment, "--report-only", "--json", "--results", str(RESULTS), *flags]
    done = CliRunner().invoke(app, words)
    if done.exit_code:
        raise SystemExit(done.output)
    return json.loads(done.stdout)[0]


def board() -> str:
    """The table of docs/results/plain.md."""
    from benchmarks.plain import report

    with contextlib.redirect_stdout(io.StringIO()):
        return report()


def main() -> None:
    """Write the summary, the board and the figures of all pages."""
    from benchmarks.plain import write_page

    (RESULTS / "summary.json").write_text(json.dumps(summary(), indent=2) + "\n", "utf-8")
    write_page(board())
    for page in PAGES:
        text = page.read_text("utf-8")
        if filled(text) != text:
            page.write_text(filled(text), "utf-8")
            print(f"Wrote {page.relative_to(DOCS.parent)}.")


if __name__ == "__main__":
    sys.path.insert(0, str(DOCS.parent))
    main()

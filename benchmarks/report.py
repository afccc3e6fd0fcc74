"""How long does a report on 2,000 exemplars take to write, and to open in a browser? The last line is JSON.

    python benchmarks/report.py [--exemplars 2000]

Opening needs playwright and chromium (or MIV_CHROMIUM) and is left out without playwright. A page counts as open when
its first exemplars are drawn.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from miv.data import ExemplarSet, InstancePool
from miv.evaluation import Predictions, ReportModel, ReportSource, write_report
from miv.verifier.decisions import OperatingPoint


def invented(exemplars: int, seed: int = 0) -> ReportSource:
    """Bags of 3 to 20 among so many images of 28 × 28 as exemplars, and two models."""
    random = np.random.default_rng(seed)
    pool = InstancePool("image", random.integers(0, 256, (5 * exemplars, 28, 28), dtype=np.uint8))
    bags = [random.integers(0, len(pool), size) for size in random.integers(3, 21, exemplars)]
    witnesses = [random.random(len(bag)) < 0.2 for bag in bags]
    labels = [int(row.any()) for row in witnesses]
    made = ExemplarSet.from_lists(pool, random.integers(0, len(pool), exemplars), bags, labels, witnesses)
    models = []
    for name in ("one", "two"):
        attention = np.concatenate([random.dirichlet(np.ones(len(bag))) for bag in bags])
        answers = Predictions.of(made, 2 * random.normal(size=exemplars) + made.label - 0.5, attention)
        models.append(ReportModel(name, answers, OperatingPoint()))
    return ReportSource("invented", "test", made, models)


def open_seconds(path: Path, times: int) -> list[float]:
    """From asking for the page to its first exemplars, in a browser that runs already."""
    from playwright.sync_api import sync_playwright

    chromium = os.environ.get("MIV_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    found = []
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"], timeout=180_000)
        for _ in range(times):
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            start = time.perf_counter()
            page.goto(path.as_uri(), timeout=180_000)
            page.wait_for_selector("#cards canvas", timeout=180_000)
            found.append(time.perf_counter() - start)
            page.close()
        browser.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exemplars", type=int, default=2000)
    parser.add_argument("--times", type=int, default=5)
    given = parser.parse_args()
    source = invented(given.exemplars)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        start = time.perf_counter()
        write_report(source, path, exemplars=given.exemplars)
        figures: dict[str, Any] = {"exemplars": given.exemplars, "write_s": time.perf_counter() - start}
        figures["megabytes"] = path.stat().st_size / 1e6
        if find_spec("playwright") is None:
            print("playwright is not installed; opening in a browser is left out.", file=sys.stderr)
        else:
            seconds = open_seconds(path, given.times)
            figures |= {"open_s_median": statistics.median(seconds), "open_s_worst": max(seconds)}
    print(json.dumps({name: round(value, 2) for name, value in figures.items()}))


if __name__ == "__main__":
    main()

"""What large bags and many machines cost. The last line of the output is one JSON object.

    python benchmarks/scale.py --data DATA [--folder FOLDER] [--only stream_memory_mb,machines] [--out FILE]

Each figure is a function of a file ``scale_*.py`` beside this one, which says how it is measured, and each is measured
in a process of its own. DATA has the folder ``qmnist``. FOLDER needs 8 GB for the bag of 10,000,000 x 384 numbers,
which is removed after its figure. FILE is updated after each figure, so ``--only`` with the others goes on with a run
that was stopped. How time and memory grow is
plotted in the folder ``plots`` beside it.
"""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script

from benchmarks.scale_growth import growth_of_bags, growth_of_exemplars
from benchmarks.scale_machines import machines
from benchmarks.scale_memory import in_new_process
from benchmarks.scale_plots import draw_growth

FINETUNING = Path(__file__).with_name("scale_finetune.py")  # a script, because it needs its own allocator settings
LOADAVG = Path("/proc/loadavg")
_READINGS, _PAUSE = 20, 0.1
FIGURES: dict[str, Callable[[Path, Path], Mapping[str, Any]]] = {
    "stream_memory_mb": lambda folder, data: growth_of_bags(folder),
    "growth_exemplars": lambda folder, data: growth_of_exemplars(folder),
    "machines": lambda folder, data: {"machines": machines(folder)},
    "finetune_step_overhead": lambda folder, data: _named("finetune", in_new_process(str(FINETUNING))),
}


def _named(subject: str, figures: dict[str, Any]) -> dict[str, Any]:
    """Name what several figures have by whose it is."""
    shared = ("exemplars", "load")
    return {f"{subject}_{name}" if name in shared else name: value for name, value in figures.items()}


def _measured(name: str, folder: Path, data: Path) -> dict[str, Any]:
    return dict(FIGURES[name](folder, data))


def running_beside() -> float:
    """Mean number of other threads on this machine that ran or waited for a processor, over two seconds.

    The load average would not do: it still counts the figure that was measured just before.
    """
    counts = []
    for _ in range(_READINGS):
        running = LOADAVG.read_text("ascii").split()[3].split("/")[0]  # see proc(5)
        counts.append(int(running) - 1)  # without this one
        time.sleep(_PAUSE)
    return sum(counts) / len(counts)


def _in_process_of_its_own(name: str, folder: Path, data: Path) -> dict[str, Any]:
    """The figures, measured in a folder of their own, with how long that took and what ran before."""
    beside, since = running_beside(), time.monotonic()
    own = folder / name
    own.mkdir()
    try:
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            figures = process.submit(_measured, name, own, data).result()
    finally:
        shutil.rmtree(own)
    minutes = (time.monotonic() - since) / 60
    return figures | {"runs": {name: {"minutes": round(minutes, 1), "running_before": round(beside, 1)}}}


def _updated(out: Path, figures: dict[str, Any]) -> dict[str, Any]:
    """Add figures to those of a JSON file."""
    before = json.loads(out.read_text("utf-8")) if out.exists() else {}
    runs = before.get("runs", {}) | figures["runs"]
    after = before | figures | {"runs": runs}
    out.write_text(json.dumps(after, indent=1) + "\n", "utf-8")
    return after


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder with qmnist/")
    parser.add_argument("--folder", type=Path, help="folder for large files; default: a temporary one")
    parser.add_argument("--only", default=",".join(FIGURES), help="figures, separated by commas")
    parser.add_argument("--out", type=Path, help="JSON file to update with the figures")
    options = parser.parse_args()
    names = options.only.split(",")
    unknown = [name for name in names if name not in FIGURES]
    if unknown:
        parser.error(f"there is no figure {unknown[0]!r}; known: {', '.join(FIGURES)}")
    for needed in (options.folder, None if options.out is None else options.out.parent):
        if needed is not None:
            try:
                needed.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                parser.error(f"cannot create the folder {needed}: {error.strerror}")
    found: dict[str, Any] = {"runs": {}}
    with TemporaryDirectory(dir=options.folder) as folder:
        for number, name in enumerate(names, 1):
            print(f"{number} of {len(names)}: {name}", file=sys.stderr, flush=True)
            figures = _in_process_of_its_own(name, Path(folder), options.data.absolute())
            print(name, json.dumps(figures), flush=True)
            found |= figures | {"runs": found["runs"] | figures["runs"]}
            if options.out is not None:
                draw_growth(_updated(options.out, figures), options.out.parent / "plots")
    print(json.dumps(found))


if __name__ == "__main__":
    main()

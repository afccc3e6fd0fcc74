"""What large bags and many machines cost. The last line of the output is one JSON object.

    python benchmarks/scale.py --data DATA [--folder FOLDER] [--only stream_efficiency,shortlist_gain] [--out FILE]

Each figure is a function of a file ``scale_*.py`` beside this one, which says how it is measured. DATA has the folder
``qmnist``. FOLDER needs 8 GB for the bag of 10,000,000 x 384 numbers, which is removed after its figure.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script

from benchmarks.scale_digits import quantised_auroc_loss
from benchmarks.scale_finetune import finetune_step_overhead
from benchmarks.scale_growth import growth
from benchmarks.scale_memory import stream_memory_mb
from benchmarks.scale_ray import ray_efficiency
from benchmarks.scale_shortlist import shortlist_gain
from benchmarks.scale_streaming import stream_efficiency

FIGURES: dict[str, Callable[[Path, Path], Mapping[str, object]]] = {
    "stream_efficiency": lambda folder, data: stream_efficiency(folder),
    "quantised_auroc_loss": quantised_auroc_loss,
    "shortlist_gain": shortlist_gain,
    "stream_memory_mb": lambda folder, data: stream_memory_mb(folder),
    "growth": lambda folder, data: growth(folder),
    "ray_efficiency": lambda folder, data: _named("ray", ray_efficiency(_emptied(folder / "ray"))),
    "finetune_step_overhead": lambda folder, data: _named("finetune", finetune_step_overhead()),
}


def _named(subject: str, figures: dict[str, object]) -> dict[str, object]:
    """Name what several figures have by whose it is."""
    shared = ("exemplars", "load")
    return {f"{subject}_{name}" if name in shared else name: value for name, value in figures.items()}


def _emptied(folder: Path) -> Path:
    """An empty folder, because scoring would go on with what it finds."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder with qmnist/")
    parser.add_argument("--folder", type=Path, help="folder for large files; default: a temporary one")
    parser.add_argument("--only", default=",".join(FIGURES), help="figures, separated by commas")
    parser.add_argument("--out", type=Path, help="JSON file to update with the figures")
    options = parser.parse_args()
    found: dict[str, object] = {}
    with TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in options.only.split(","):
            figures = FIGURES[name](folder, options.data)
            print(name, json.dumps(figures), flush=True)
            found |= figures
            if options.out is not None:
                before = json.loads(options.out.read_text()) if options.out.exists() else {}
                options.out.write_text(json.dumps({**before, **figures}, indent=1) + "\n")
    print(json.dumps(found))


if __name__ == "__main__":
    main()

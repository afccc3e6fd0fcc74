"""Computes the plain methods of the board's cells again, without training: for a method that is new.

    python benchmarks/plain_reference.py --data DATA

A cell is skipped if it has all methods, or if its features were trained; such a cell has to be computed again by
`plain.py`. Data that differ from those of the cell, or a method whose figures do, are an error.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from miv.reference import reference

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks import plain, plain_sets

SAME = 1e-3  # features may differ in their last digits, which can swap two bags
# `miv train` compares tokens too; the reference has the vectors only.
BACKBONES = {"features": None, "hog": "hog", "sentence_tokens:minilm": "hf:minilm"}


def compute(cell: dict[str, Any], data: Path, cache: Path) -> dict[str, Any]:
    """The cell with the figures of all plain methods."""
    name = plain.cell_name(cell["set"], cell["size"], cell["seed"])
    sets = plain_sets.build(cell["set"], data, cell["seed"], cell["size"], cache)
    prints = {split: exemplars.fingerprint for split, exemplars in sets.items()}
    if prints != cell["fingerprints"]:
        raise SystemExit(f"{name}: the data are others than those of the cell.")
    found = reference(sets, BACKBONES[cell["backbone"]], cache=cache).document()["splits"]
    for split, rows in cell["reference"].items():
        for method, figures in rows.items():
            for metric, before in figures.items():
                if abs(before - found[split][method][metric]) > SAME:
                    raise SystemExit(
                        f"{name}: {metric} of {method} on {split} is {found[split][method]}, not {before}."
                    )
    return cell | {"reference": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--set", choices=plain_sets.NAMES, action="append")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "miv-plain")
    asked = parser.parse_args()
    done = asked.cache / "done"
    done.mkdir(parents=True, exist_ok=True)
    for name, cell in plain.packed().items():
        is_asked = asked.set is None or cell["set"] in asked.set
        if not is_asked or "centred" in cell["reference"]["test"] or cell["backbone"] not in BACKBONES:
            continue
        (done / f"{name}.json").write_text(json.dumps(compute(cell, asked.data, asked.cache), indent=1) + "\n")
        plain.pack(done)
        print(name, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

"""What several references of a query gain: AUROC with 1, 2, 4 and 8. The last line of the output is JSON.

    python benchmarks/references.py [qmnist | digits-twin | signatures-twin] [--raw data/qmnist] [--write]

Every set has the same bags at every step; only the number of references differs. Ways to combine them: ``rule``, the
``ReferenceRule`` that every verifier has without a fit; ``fitted``, the rule fitted to the validation bags; and what
people do by hand: ``mean_feature``, ``mean_logit`` and ``max_logit``.

- ``qmnist``: ``miv/digits``, which was trained with single queries, on writers that it has not seen. A query and its
  references are one digit by one writer.
- ``digits-twin``, ``signatures-twin``: synthetic images with the fixed descriptor ``hog`` and a head that is trained
  with single queries, as `miv train` does by default.

``--write`` stores the result in docs/results/references.json and draws the figure.
"""

import argparse
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import signatures_twin as signatures_twin  # type: ignore[import-not-found]  # registers the task
from shared import data_folder  # type: ignore[import-not-found]

from miv import Verifier
from miv.backbones.cache import embed_pool
from miv.data import ExemplarSet, csr
from miv.evaluation import auroc
from miv.evaluation.calibration_fits import fit_reference_rule
from miv.evaluation.metrics import auroc_error
from miv.evaluation.predicting import embedded_exemplars
from miv.runtime import SilentProgress
from miv.tasks import create_task
from miv.training.auto import choose
from miv.training.run import Machine, run_training
from miv.verifier.engine import reference_logits
from miv.verifier.references import ReferenceRule

STEPS = (1, 2, 4, 8)
BY_HAND = {"mean_feature": (0.0, 1.0), "mean_logit": (0.0, 0.0), "max_logit": (1e4, 0.0)}
RESULTS = Path(__file__).parents[1] / "docs" / "results"
ROUNDS = 4  # independent draws of bags by the same writers
TWINS: dict[str, dict[str, int]] = {
    "digits-twin": {"copies": 12, "writers": 40, "held_out_writers": 30},
    "signatures-twin": {"genuine": 14, "forged": 8, "height": 32, "anchors_per_query": 2, "writers": 40},
}
Sets = dict[str, list[ExemplarSet]]


def references_gain(raw: Path, cache: Path) -> float:
    """QMNIST: the AUROC with four references minus that with one, with ``miv/digits`` as it is."""
    return gain_of_4(qmnist(raw, cache))


def qmnist(raw: Path, cache: Path) -> dict[str, Any]:
    """The curve on QMNIST, with ``miv/digits``."""
    sets: Sets = {"validation": [], "test": []}
    for number in range(ROUNDS):
        task = create_task("qmnist", raw=raw, download=False, references_per_query=max(STEPS), round=number)
        built = task.build(SilentProgress())
        for split, drawn in sets.items():
            drawn.append(built[split])
    return curve(Verifier.from_pretrained("miv/digits"), sets, cache)


def twin(name: str, cache: Path) -> dict[str, Any]:
    """The curve on a synthetic twin, with a head trained with single queries."""
    sets = create_task(name, references_per_query=max(STEPS), **TWINS[name]).build(SilentProgress())
    single = {split: exemplars.with_first_reference() for split, exemplars in sets.items()}
    config = choose(single, {"backbone": "hog"}).config.changed({"backbone": "hog"})
    with tempfile.TemporaryDirectory() as folder:
        run_training(single, config, Path(folder) / "run", Machine(cache, quiet=True))
        verifier = Verifier.from_pretrained(Path(folder) / "run")
    return curve(verifier, {split: [sets[split]] for split in ("validation", "test")}, cache)


def curve(verifier: Verifier, sets: Sets, cache: Path) -> dict[str, Any]:
    """AUROC by way and step on ``test``; ``fitted`` is fitted on ``validation``."""
    full = {split: [_with_all(one) for one in drawn] for split, drawn in sets.items()}
    found: dict[str, dict[str, float]] = {name: {} for name in ("rule", "fitted", *BY_HAND)}
    beside_best, rules = {}, {}
    for step in STEPS:
        validation = [first_references(one, step) for one in full["validation"]]
        test = [first_references(one, step) for one in full["test"]]
        known = {id(one): embed_pool(verifier.backbone, one.pool, cache) for one in (*validation, *test)}
        own = ReferenceRule()
        verifier.set_reference_rule(own)
        fit_reference_rule(verifier, validation[0], known[id(validation[0])])
        ways = {"rule": own, "fitted": verifier.reference_rule}
        ways |= {name: ReferenceRule(*numbers) for name, numbers in BY_HAND.items()}
        label = np.concatenate([one.label for one in test])
        scores: dict[str, list[np.ndarray]] = {name: [] for name in ways}
        for one in test:
            logit, of_mean = reference_logits(verifier, embedded_exemplars(one, known[id(one)]))
            for name, rule in ways.items():
                scores[name].append(rule.of_ragged(logit, of_mean, one.all_references[0]))
        joined = {name: np.concatenate(parts) for name, parts in scores.items()}
        for name, score in joined.items():
            found[name][str(step)] = round(auroc(label, score), 4)
        best = max(BY_HAND, key=lambda name: found[name][str(step)])
        rules[str(step)] = verifier.reference_rule.document()
        beside_best[str(step)] = {
            "best_by_hand": best,
            "rule_minus_best": round(found["rule"][str(step)] - found[best][str(step)], 4),
            "fitted_minus_best": round(found["fitted"][str(step)] - found[best][str(step)], 4),
            "standard_error": round(auroc_error(label, joined["rule"], joined[best]), 4),
        }
    writers = {name for one in full["test"] for name in one.pool.classes[one.query]}  # type: ignore[index]
    return {
        "exemplars": int(sum(map(len, full["test"]))),
        "classes": len(writers),
        "auroc": found,
        "beside_best": beside_best,
        "fitted_rule": rules,
    }


def _with_all(exemplars: ExemplarSet) -> ExemplarSet:
    """The exemplars that have as many references as the last step needs."""
    return exemplars.subset(np.diff(exemplars.all_references[0]) == max(STEPS))


def first_references(exemplars: ExemplarSet, count: int) -> ExemplarSet:
    """The same exemplars with the first ``count`` references of each."""
    ptr, index = exemplars.all_references
    kept = [index[first : first + count] for first in ptr[:-1]]
    borders = csr.borders([len(one) for one in kept])
    return replace(exemplars, reference_ptr=borders, reference_index=np.concatenate(kept))


def write(name: str, result: dict[str, Any]) -> None:
    """Store one set's result beside the others, and draw all of them."""
    path = RESULTS / "references.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    known[name] = result | {"gain_of_4": gain_of_4(result)}
    known.pop("worst", None)
    beside = [step for one in known.values() for step in one["beside_best"].values()]
    known["worst"] = {
        f"{way}_below_best": max(0.0, *(-step[f"{way}_minus_best"] for step in beside)) for way in ("rule", "fitted")
    }
    path.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")
    draw({name: one for name, one in known.items() if name != "worst"})


def gain_of_4(result: dict[str, Any]) -> float:
    """The AUROC with four references minus that with one."""
    return round(float(result["auroc"]["rule"]["4"] - result["auroc"]["rule"]["1"]), 4)


def draw(known: dict[str, Any]) -> None:
    """One panel per set: AUROC over the number of references."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, len(known), figsize=(4 * len(known), 3.4), squeeze=False, layout="constrained")
    styles = {"rule": "o-", "fitted": "s--", "mean_feature": "^:", "mean_logit": "v:", "max_logit": "x:"}
    for panel, (name, result) in zip(panels[0], known.items(), strict=True):
        for way, line in result["auroc"].items():
            panel.plot([int(step) for step in line], list(line.values()), styles[way], label=way.replace("_", " "))
        panel.set(title=name, xlabel="references", xscale="log")
        panel.set_xticks(STEPS, [str(step) for step in STEPS])
        panel.minorticks_off()
    panels[0][0].set_ylabel("AUROC")
    panels[0][0].legend(fontsize="small")
    for suffix in ("png", "svg"):
        figure.savefig(
            RESULTS / "plots" / f"references.{suffix}", dpi=120, metadata={} if suffix == "png" else {"Date": None}
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", nargs="?", default="qmnist", choices=("qmnist", *TWINS))
    parser.add_argument("--raw", type=Path, default=Path("data/qmnist"))
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "miv-references")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    if given.set == "qmnist":
        data_folder(given.raw.parent, given.raw.name)
    result = qmnist(given.raw, given.cache) if given.set == "qmnist" else twin(given.set, given.cache)
    if given.write:
        write(given.set, result)
    print(json.dumps({**result, "references_gain": gain_of_4(result)}))


if __name__ == "__main__":
    main()

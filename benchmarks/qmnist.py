"""What verifying gives on real QMNIST, part by part, with ``miv/digits``. The last line of the output is JSON.

    python benchmarks/qmnist.py [--raw data/qmnist] [--run RUN ...]

The data are the test split of the round on which ``miv/digits`` was trained; no writer of it was seen in training.
``verify_many``: AUROC, accuracy at the stored operating point, share of true witnesses inside the witness sets, and
exemplars a second from images on one thread; with ``largest_difference`` to ``verify`` one by one, for a hundred.
``onnx``: the same from the exported file, for the first hundred.
``sklearn``: ``MIVClassifier`` on the features of its backbone, trained anew on the train split.
``report``: seconds and megabytes of a page on all exemplars.
``explaining``: i-AUROC and i-AP of every way to score instances, for ``miv/digits`` and for each ``--run``, such as
those of ``miv reproduce qmnist classification`` in its ``--work`` folder: also for poolings without attention.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from miv import MIVClassifier, MIVError, Verifier
from miv.backbones.cache import embed_instances
from miv.data import ExemplarSet
from miv.evaluation import Predictions, ReportModel, ReportSource, evaluate, write_report
from miv.evaluation.predicting import explain, predict
from miv.interop.onnx_export import export_onnx
from miv.interop.onnx_verifier import OnnxVerifier
from miv.runtime import SilentProgress
from miv.tasks import create_task
from miv.verifier.explain import METHODS

FEW = 100


def given(exemplars: ExemplarSet) -> tuple[list[Any], list[Any]]:
    images = exemplars.pool.values
    return [images[query] for query in exemplars.query], [images[exemplars.bag(e)] for e in range(len(exemplars))]


def verifying(verifier: Verifier, exemplars: ExemplarSet) -> dict[str, Any]:
    queries, bags = given(exemplars)
    start = time.process_time()
    verdicts = verifier.verify_many(queries, bags)
    seconds = time.process_time() - start
    assert verdicts.witness is not None
    assert exemplars.witness is not None
    one_by_one = [verifier.verify(query, bag).probability for query, bag in zip(queries[:FEW], bags[:FEW], strict=True)]
    metrics = evaluate(Predictions.of(exemplars, verdicts.logit, verdicts.attention)).metrics
    return {
        "auroc": metrics["auroc"],
        "i_auroc": metrics["i_auroc"],
        "accuracy_at_operating_point": float((verdicts.verdict == exemplars.label).mean()),
        "witness_coverage": float(verdicts.witness[np.asarray(exemplars.witness)].mean()),
        "mean_set": float(verdicts.witness.sum() / len(exemplars)),
        "exemplars_per_second": len(exemplars) / seconds,
        "largest_difference": float(np.abs(np.array(one_by_one) - verdicts.probability[:FEW]).max()),
    }


def exported(verifier: Verifier, exemplars: ExemplarSet, folder: Path) -> dict[str, Any]:
    queries, bags = given(exemplars)
    export_onnx(verifier, folder / "digits.onnx")
    loaded = OnnxVerifier(folder / "digits.onnx", threads=1)
    answers = list(map(loaded.verify, queries[:FEW], bags[:FEW]))
    verdicts = verifier.verify_many(queries[:FEW], bags[:FEW])
    same = [
        answer.witnesses is not None and set(answer.witnesses) == {one.index for one in verdict.witnesses}
        for answer, verdict in zip(answers, verdicts, strict=True)
    ]
    return {
        "largest_difference": float(np.abs([a.probability for a in answers] - verdicts.probability).max()),
        "same_witnesses": float(np.mean(same)),
        "megabytes": (folder / "digits.onnx").stat().st_size / 1e6,
    }


def classifier(verifier: Verifier, sets: dict[str, ExemplarSet]) -> dict[str, Any]:
    pairs = {}
    for split in ("train", "test"):
        exemplars = sets[split]
        features = embed_instances(verifier.backbone, exemplars.pool, exemplars.used)
        bags = [features[exemplars.bag(number)] for number in range(len(exemplars))]
        pairs[split] = (features[exemplars.query], bags)
    start = time.perf_counter()
    model = MIVClassifier(heads=8, random_state=0).fit(*pairs["train"], sets["train"].label)
    seconds = time.perf_counter() - start
    verdicts = model.verifier_.verify_many(*pairs["test"])
    metrics = evaluate(Predictions.of(sets["test"], verdicts.logit, verdicts.attention)).metrics
    return {"auroc": metrics["auroc"], "i_auroc": metrics["i_auroc"], "fit_seconds": seconds}


def report(verifier: Verifier, exemplars: ExemplarSet, folder: Path) -> dict[str, Any]:
    model = ReportModel("miv/digits", predict(verifier, exemplars), verifier.operating_point)
    start = time.perf_counter()
    source = ReportSource("qmnist", "test", exemplars, [model])
    write_report(source, folder / "report.html", exemplars=len(exemplars))
    return {"seconds": time.perf_counter() - start, "megabytes": (folder / "report.html").stat().st_size / 1e6}


def explained(verifier: Verifier, exemplars: ExemplarSet) -> dict[str, Any]:
    features = embed_instances(verifier.backbone, exemplars.pool, exemplars.used)
    answers, found = predict(verifier, exemplars, features), {}
    for method in METHODS:
        start = time.process_time()
        try:
            scores = explain(verifier, exemplars, method, features=features)
        except MIVError:  # attention and rollout are not for every pooling
            continue
        metrics = evaluate(answers, score=scores).metrics
        seconds = time.process_time() - start
        found[method] = {"i_auroc": metrics["i_auroc"], "i_ap": metrics["i_ap"], "seconds": seconds}
    return found


def rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--raw", type=Path, help="folder of QMNIST's raw files; without it a twin stands in")
    parser.add_argument("--round", type=int, default=1, help="of the data; that of miv/digits is the default")
    parser.add_argument("--only", help="one part, such as explaining")
    parser.add_argument("--run", type=Path, action="append", default=[], help="a run of that round, to explain too")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if asked.raw:
        task = create_task("qmnist", raw=asked.raw, round=asked.round, download=False)
    else:
        print("No --raw: the handwriting twin stands in for QMNIST.", file=sys.stderr)
        task = create_task("digits-twin", writers=200, copies=5)
    sets = task.build(SilentProgress())
    verifier, test = Verifier.from_pretrained("miv/digits"), sets["test"]
    trained = [Verifier.from_pretrained(run / "verifier") for run in asked.run]
    runs = {one.configuration["pooling"]: one for one in trained}
    figures: dict[str, Any] = {"data": "qmnist" if asked.raw else "digits-twin", "exemplars": len(test)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parts = {
            "verify_many": lambda: verifying(verifier, test),
            "onnx": lambda: exported(verifier, test, folder),
            "sklearn": lambda: classifier(verifier, sets),
            "report": lambda: report(verifier, test, folder),
            "explaining": lambda: {
                name: explained(one, test) for name, one in {"miv/digits": verifier, **runs}.items()
            },
        }
        for part, measure in parts.items():
            if asked.only not in (None, part):
                continue
            figures[part] = rounded(measure())
            print(part, json.dumps(figures[part]), flush=True)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()

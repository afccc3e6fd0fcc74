"""How much of a task's label the query or the bag tells alone, beside the models of the paper.

    PYTHONPATH=. python benchmarks/controls.py --data DATA --symmetric FILE --runs RUN... [--out FILE]

DATA has fever-dev/, fm2/ and qmnist/. Each line is the AUROC on test of one round, on the frozen features of the tier;
`query_words` is a logistic regression on TF-IDF of the query's words and pairs of words.

FILE is fever_symmetric_dev.jsonl (TalSchuster/FeverSymmetric, version 0.2): each of its claims stands beside a sentence
that supports it and one that refutes it, so the claim alone tells nothing. RUNs are runs on fever-dev with the
settings of the cells in docs/results/cpu; claims of its train and validation splits are left out of FILE.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from plain_sets import build  # type: ignore[import-not-found]
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from tools.judge_training import symmetric_dev

from miv import Verifier
from miv.backbones import create_backbone
from miv.backbones.cache import embed_pool
from miv.data import ExemplarSet, InstancePool
from miv.evaluation import auroc, score_baselines
from miv.evaluation.predicting import predict
from miv.files.cache import cache_folder
from miv.runtime import RichProgress
from miv.tasks import create_task

Sets = dict[str, ExemplarSet]
WITH_TEXTS = {
    "fever-dev": {"raw": "fever-dev"},
    "claims": {"raw": "fm2", "train_file": "dev.jsonl", "test_file": "test.jsonl"},
}


def by_words(sets: Sets, split: str) -> float:
    """AUROC of a logistic regression on the words of the query."""
    model = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\w+"), LogisticRegression(max_iter=1000)
    )
    train, held = sets["train"], sets[split]
    model.fit(train.pool.values[train.query], train.label)
    return auroc(held.label, model.decision_function(held.pool.values[held.query]))


def controls(sets: Sets, backbone: Any, split: str = "test") -> dict[str, float]:
    """AUROC of the controls and of the nearest target."""
    rows = score_baselines(sets, backbone, splits=(split,), progress=RichProgress()).splits[split]
    figures = {name: rows[name].auroc or 0.5 for name in ("nearest", "query_only", "bag_only")}
    if sets["train"].pool.kind == "text":
        figures["query_words"] = by_words(sets, split)
    return figures


def auroc_of(verifier: Verifier, exemplars: ExemplarSet) -> float:
    exemplars = verifier.backbone.paired(exemplars)
    features = embed_pool(verifier.backbone, exemplars.pool, cache_folder() / "features", RichProgress())
    return auroc(exemplars.label, predict(verifier, exemplars, features).logit)


def symmetric_set(path: Path, data: Path) -> ExemplarSet:
    """FEVER-Symmetric as exemplars with bags of one sentence."""
    dev = symmetric_dev(path, data / "fever-dev")
    texts = np.array([*dev.queries, *dev.targets], dtype=object)
    count = len(dev.queries)
    bags = [[count + place] for place in range(count)]
    return ExemplarSet.from_lists(
        InstancePool("text", texts), list(range(count)), bags, [int(x) for x in dev.supported]
    )


def lines(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Every line, from the quickest."""
    encoder = create_backbone("hf:minilm", pooling="mean")
    for task, settings in WITH_TEXTS.items():
        given = settings | {"raw": options.data / settings["raw"]}
        for number in range(1 if task == "fever-dev" else 3):  # all rounds of fever-dev have the same sets
            sets = create_task(task, **given, round=number).build(RichProgress())
            yield {"task": task, "tier": "cpu", "round": number} | controls(sets, encoder)
            if task == "fever-dev":
                pairs = {"train": sets["train"], "symmetric": symmetric_set(options.symmetric, options.data)}
                yield {"task": "symmetric", "tier": "cpu", "round": 0} | controls(pairs, encoder, "symmetric")
                held = {"test": sets["test"], "symmetric": pairs["symmetric"]}
                for run in options.runs:
                    verifier = Verifier.from_pretrained(run)
                    areas = {name: auroc_of(verifier, one) for name, one in held.items()}
                    yield {"task": "symmetric", "run": run.name, "model": verifier.configuration["pooling"]} | areas
    for size in (200, 1000, None):
        for seed in range(3 if size else 1):
            sets = build("fever-verdicts", options.data, seed, size, cache_folder())
            yield {"task": "fever-verdicts", "size": size, "seed": seed} | controls(sets, encoder)
    digits = Verifier.from_pretrained("miv/digits").backbone
    for number in range(3):
        sets = create_task("qmnist", raw=options.data / "qmnist", round=number).build(RichProgress())
        yield {"task": "qmnist", "tier": "frozen", "round": number} | controls(sets, digits)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--symmetric", type=Path, required=True)
    parser.add_argument("--runs", type=Path, nargs="*", default=[])
    parser.add_argument("--out", type=Path, default=Path("docs/results/controls.jsonl"))
    options = parser.parse_args()
    with options.out.open("w", encoding="utf-8") as out:
        for line in lines(options):
            rounded = {name: round(value, 6) if isinstance(value, float) else value for name, value in line.items()}
            print(json.dumps(rounded), file=out, flush=True)
            print(json.dumps(rounded))


if __name__ == "__main__":
    main()

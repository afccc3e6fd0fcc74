"""Make the verifier ``miv/evidence`` anew: train its head on claims with known evidence, and calibrate it.

    python -m tools.evidence --data DATA --work FOLDER --out src/miv/verifier/shipped_verifiers/evidence

DATA is a folder with fever-dev/, fm2/ and nli/ (docs/tasks.md). FOLDER keeps what the frozen encoder computes, so that
a stopped run goes on. The card README.md in the output folder stays.
"""

import argparse
import gzip
import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tools.evidence_states import TokenStates
from tools.evidence_task import Evidence
from tools.evidence_training import examples_of, start, train

from miv.backbones.tokens import TokenEncoder
from miv.data import ExemplarSet, InstancePool
from miv.evaluation import calibrate, evaluate
from miv.evaluation.out_of_distribution import fit_check
from miv.evaluation.predicting import predict
from miv.runtime import SilentProgress
from miv.tasks.claims import Claims
from miv.verifier.network import Verifier

FEVER_SHARE = 0.9
SENTENCES = 2_000  # that the out-of-distribution check is fitted to, and as many that test it
SIZES = {"min_size": 5, "max_size": 300}  # source sentences of a check


def validation(data: Path, **options: Any) -> ExemplarSet:
    """Validation claims with and without evidence."""
    return Evidence(data / "fever-dev", **options).build(SilentProgress())["validation"]


def sentences(data: Path, split: str, everyday: int) -> ExemplarSet:
    """Sentences of FEVER and everyday ones, drawn at random, for the out-of-distribution check."""
    random = np.random.default_rng(0)
    sets = Evidence(data / "fever-dev").build(SilentProgress())
    texts = list(random.permutation(sets[split].pool.values)[: SENTENCES - everyday])
    if everyday:
        with gzip.open(data / "nli" / f"{split}.jsonl.gz", "rt", encoding="utf-8") as file:
            pairs = [json.loads(line) for line in file]
        both = [pairs[row][part] for row in random.permutation(len(pairs)) for part in ("premise", "hypothesis")]
        texts += list(dict.fromkeys(filter(str.strip, both)))[:everyday]
    return ExemplarSet.from_lists(InstancePool("text", np.array(texts, dtype=object)), [0], [range(len(texts))], [1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--goal", default="far=0.1,frr=0.1")
    given = parser.parse_args()
    fever = Claims(given.data / "fever-dev", validation_file="validation.jsonl", page_field="").read()
    fm2 = Claims(given.data / "fm2", train_file="dev.jsonl", missing_gold="add").read()
    verifier = Verifier("maxsim", "tokens:minilm", pooling_options={"width": 128})
    assert isinstance(verifier.backbone, TokenEncoder)
    bags = [*fever["train"], *fm2["train"]]
    texts = [bag.claim for bag in bags] + [one.text for bag in bags for one in bag.sentences]
    states = TokenStates(verifier.backbone, texts, given.work)
    sets = [(FEVER_SHARE, examples_of(fever["train"])), (1 - FEVER_SHARE, examples_of(fm2["train"]))]
    learned_from = sha256(repr((states.fingerprint, sets)).encode()).hexdigest()  # other data, other weights
    trained = given.work / f"trained-{given.steps}-{given.seed}-{learned_from[:16]}.pt"
    if not trained.is_file():
        start(verifier.backbone, states)
        train(verifier, states, sets, given.steps, given.seed)
        torch.save(verifier.state_dict(), trained)
    verifier.load_state_dict(torch.load(trained, weights_only=True))
    verifier.eval()
    metrics = evaluate(predict(verifier, validation(given.data))).metrics
    print({name: round(metrics[name], 4) for name in ("auroc", "i_auroc", "i_ap")}, flush=True)
    exemplars = validation(given.data, **SIZES)
    found = calibrate(predict(verifier, exemplars), given.goal)
    about = {"name": "validation", "task": "evidence", **SIZES, "fingerprint": exemplars.fingerprint}
    verifier.operating_point = replace(found.point, measured={"data": about, **found.point.measured})
    print(found.text())
    train_sentences, others = sentences(given.data, "train", SENTENCES // 2), sentences(given.data, "validation", 0)
    verifier.unlike = fit_check(verifier, train_sentences, others, 0.01)
    verifier.save_pretrained(given.out)


if __name__ == "__main__":
    main()

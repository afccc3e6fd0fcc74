"""Make the judge `miv/judge` anew: supports, contradicts or neither, from query and target read together.

    python -m tools.judge data --data DATA --work FOLDER
    python -m tools.judge train --data DATA --work FOLDER --symmetric FILE --minutes 10
    python -m tools.judge ship --data DATA --work FOLDER --symmetric FILE --out src/miv/verifier/shipped_verifiers/judge

DATA is a folder with nli/, fever-dev/ and fm2/. FOLDER keeps pairs, states and figures; `train` goes on where the last
run of it ended, and ends after --minutes. FILE is fever_symmetric_dev.jsonl (TalSchuster/FeverSymmetric, version 0.2):
the checkpoint is chosen on it and on NLI validation, never on FEVER.
"""

import argparse
import gzip
import json
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

import torch
from tools.judge_data import Pair, claim_only, leaks, make
from tools.judge_model import Judge
from tools.judge_shipping import ship
from tools.judge_training import BEST, DevSet, Training, nli_dev, symmetric_dev

from miv.backbones.pairs import JUDGE_WEIGHTS, LABELS, Judge as ShippedJudge

PAIRS, COUNTS = "pairs.jsonl.gz", "pairs.json"
LICENCES = {
    "all-MiniLM-L6-v2": "Apache-2.0",
    "SNLI": "CC BY-SA 4.0",
    "MNLI": "OANC and others",
    "TaxiNLI": "C-UDA",
    "counterfactually augmented SNLI": "Apache-2.0",
    "ConjNLI": "MIT",
    "FEVER claims and Wikipedia sentences": "CC BY-SA 3.0",
    "Fool Me Twice": "Apache-2.0",
    "WordNet": "WordNet 3.0",
}


def write_pairs(pairs: list[Pair], folder: Path, about: dict[str, object]) -> None:
    """Write the pairs and what they are."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f"{PAIRS}.part"
    with gzip.open(temporary, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(asdict(pair), ensure_ascii=False) + "\n" for pair in pairs)
    kinds: dict[str, dict[str, int]] = {}
    for pair in pairs:
        counts = kinds.setdefault(pair.kind, dict.fromkeys(LABELS, 0))
        counts[LABELS[pair.label]] += 1
    measured = leaks(pairs, claim_only(pairs, 100))
    text = json.dumps(
        {**about, "pairs": len(pairs), "claim_only_auroc": measured, "kinds": dict(sorted(kinds.items()))}
    )
    (folder / COUNTS).write_text(text + "\n", encoding="utf-8")
    temporary.replace(folder / PAIRS)


def read_pairs(folder: Path) -> list[Pair]:
    """The pairs that ``data`` wrote."""
    with gzip.open(folder / PAIRS, "rt", encoding="utf-8") as file:
        return [Pair(**json.loads(line)) for line in file]


def dev_sets(options: argparse.Namespace, size: int) -> list[DevSet]:
    """What chooses among checkpoints: FEVER-Symmetric dev and some NLI validation pairs, of which ``size`` SNLI."""
    sizes = {"snli": size, "mnli": size, "cad": size // 2, "conjnli": size // 2}
    return [
        symmetric_dev(options.symmetric, options.data / "fever-dev"),
        nli_dev(options.data / "nli/validation.jsonl.gz", sizes),
    ]


def train(options: argparse.Namespace) -> None:
    """Train for some cells, and evaluate after each."""
    sets = dev_sets(options, 120)
    training = Training(read_pairs(options.work), options.work, options.steps, options.layers, options.seed)
    for _ in range(options.cells):
        if training.step >= training.steps:
            break
        training.run(options.minutes)
        print({"step": training.step, **training.evaluate(sets)}, flush=True)


def ship_best(options: argparse.Namespace) -> None:
    """Write the best checkpoint, and measure what four bits per weight lose."""
    best = torch.load(options.work / BEST, weights_only=True)
    weights, sets = best.pop("average"), dev_sets(options, 300)
    trained = len({name.split(".")[3] for name in weights if name.startswith("encoder.")})
    full = Judge(trained)
    full.load_state_dict(weights, strict=False)
    about = {
        "training": json.loads((options.work / COUNTS).read_text(encoding="utf-8")),
        "pairs_sha256": sha256((options.work / PAIRS).read_bytes()).hexdigest(),
        "checkpoint": best,
        "licences": LICENCES,
    }
    ship(weights, trained, options.out, about)
    shipped = ShippedJudge(folder=str(options.out)).eval()
    measured = {
        one.name: {
            "full": round(one.auroc(full), 4),
            "shipped": round(one.auroc(shipped), 4),
            "pairs": len(one.queries),
        }
        for one in sets
    }
    print(measured, f"{(options.out / JUDGE_WEIGHTS).stat().st_size:,} bytes")
    ship(weights, trained, options.out, {**about, "auroc": measured})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    data = commands.add_parser("data")
    data.add_argument("--data", type=Path, required=True)
    data.add_argument("--nli-pairs", type=int, default=45_000)
    data.add_argument("--claim-pairs", type=int, default=55_000)
    data.add_argument("--seed", type=int, default=0)
    training = commands.add_parser("train")
    training.add_argument("--data", type=Path, required=True)
    training.add_argument("--symmetric", type=Path, required=True)
    training.add_argument("--steps", type=int, default=3000)
    training.add_argument("--layers", type=int, default=4)
    training.add_argument("--minutes", type=float, default=10.0, help="of this cell")
    training.add_argument("--cells", type=int, default=1)
    training.add_argument("--seed", type=int, default=0)
    shipping = commands.add_parser("ship")
    shipping.add_argument("--data", type=Path, required=True)
    shipping.add_argument("--symmetric", type=Path, required=True)
    shipping.add_argument("--out", type=Path, required=True)
    for command in (data, training, shipping):
        command.add_argument("--work", type=Path, required=True)
    options = parser.parse_args()
    if options.command == "data":
        pairs = make(options.data, options.nli_pairs, options.claim_pairs, options.seed)
        write_pairs(pairs, options.work, {"seed": options.seed})
    elif options.command == "train":
        train(options)
    else:
        ship_best(options)


if __name__ == "__main__":
    main()

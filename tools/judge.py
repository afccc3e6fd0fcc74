"""Make the judge `miv/judge` anew: supports, contradicts or neither, from query and target read together.

    python -m tools.judge data --data DATA --work FOLDER
    python -m tools.judge train --data DATA --work FOLDER --symmetric FILE --minutes 10
    python -m tools.judge ship --work FOLDER --symmetric FILE --out src/miv/verifier/shipped_verifiers/judge

DATA is a folder with nli/, fever-dev/ and fm2/. FOLDER keeps pairs, states and figures; `train` goes on where the last
run of it ended, and ends after --minutes. FILE is fever_symmetric_dev.jsonl (TalSchuster/FeverSymmetric, version 0.2)
and data/entailment_retrieval/claim/dev.jsonl (ryokamoi/wice): what is chosen, is chosen on these and NLI validation.
"""

import argparse
import gzip
import json
from dataclasses import asdict
from pathlib import Path

from tools.judge_data import Pair, claim_only, leaks, make
from tools.judge_rules import LABELS
from tools.judge_training import Training, nli_dev, symmetric_dev

PAIRS, COUNTS = "pairs.jsonl.gz", "pairs.json"


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


def train(options: argparse.Namespace) -> None:
    """Train for some cells, and evaluate after each."""
    sets = [
        symmetric_dev(options.symmetric, options.data / "fever-dev"),
        nli_dev(options.data / "nli/validation.jsonl.gz", {"snli": 120, "mnli": 120, "cad": 60, "conjnli": 60}),
    ]
    training = Training(read_pairs(options.work), options.work, options.steps, options.layers, options.seed)
    for _ in range(options.cells):
        if training.step >= training.steps:
            break
        training.run(options.minutes)
        print({"step": training.step, **training.evaluate(sets)}, flush=True)


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
    for command in (data, training):
        command.add_argument("--work", type=Path, required=True)
    options = parser.parse_args()
    if options.command == "data":
        pairs = make(options.data, options.nli_pairs, options.claim_pairs, options.seed)
        write_pairs(pairs, options.work, {"seed": options.seed})
    elif options.command == "train":
        train(options)


if __name__ == "__main__":
    main()

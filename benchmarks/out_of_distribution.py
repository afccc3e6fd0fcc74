"""Which inputs are unsure because they are out of distribution: false alarms on new classes, and foreign inputs.

    python benchmarks/out_of_distribution.py --data DATA [--folder FOLDER] [--only miv/digits,omniglot]

Every row is a verifier with its defaults: those of the package, and runs of `miv train` on 2,000 exemplars, which are
kept in FOLDER. Each cell is the share of 100 queries that are unsure; "test" are ordinary instances of classes that the
verifier has never seen. Prints tables for `docs/results/out-of-distribution.md`; the last line is JSON.
"""

import argparse
import json
import sys
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_sample_images

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script

from benchmarks import plain_sets
from benchmarks.shared import data_folder

from miv import Verifier, train
from miv.data import ExemplarSet, load_split, save_splits
from miv.verifier.out_of_distribution import OutOfDistributionLimit

RUNS = {"qmnist": "qmnist", "omniglot": "omniglot", "fever": "fever-evidence"}
NAMES = ("miv/digits", *RUNS, "miv/evidence")
EACH, ORDINARY, EXEMPLARS = 100, 1_000, 2_000
Images = NDArray[np.uint8]

SENTENCES = {
    "French": "Le président de la république a signé un accord avec les pays voisins pour protéger la forêt",
    "German": "Der Präsident der Republik hat ein Abkommen mit den Nachbarländern unterzeichnet um Wald zu schützen",
    "Georgian": "საქართველოს პრეზიდენტმა ხელი მოაწერა შეთანხმებას მეზობელ ქვეყნებთან ტყისა და მდინარეების დასაცავად",
    "Arabic": "وقع رئيس الجمهورية اتفاقا مع الدول المجاورة لحماية الغابة والأنهار التي تعبر المنطقة منذ زمن طويل",
    "Russian": "Президент республики подписал соглашение с соседними странами о защите леса и рек региона",
    "Hindi": "गणराज्य के राष्ट्रपति ने जंगल और नदियों की रक्षा के लिए पड़ोसी देशों के साथ एक समझौते पर हस्ताक्षर किए",
    "Chinese": "总 统 与 邻 国 签 署 协 议 保 护 森 林 和 河 流 这 些 长 期 经 该 地 区",
}
CODE = (
    "for {a} in range({n}):",
    "{a} = {b}({n}, {a})",
    "return self.{a}[{n}] + {b}({a})",
    "if not {a}.{b}: raise {b}({n})",
)


def image_kinds(ordinary: Images, others: Images) -> dict[str, Images]:
    """Foreign images of the same size; ``others`` are of another alphabet."""
    random, side = np.random.default_rng(0), ordinary.shape[1]
    some, shape = ordinary[:EACH], (EACH, side, side)
    photographs = []
    for _ in range(EACH):
        photo = load_sample_images().images[random.integers(2)]
        size = random.integers(60, 400)
        top, left = (random.integers(length - size) for length in photo.shape[:2])
        photographs.append(
            Image.fromarray(photo[top : top + size, left : left + size]).convert("L").resize((side, side))
        )
    grey = random.integers(0, 256, (EACH, 1, 1))
    return {
        "blank": np.broadcast_to(grey, shape).astype(np.uint8),
        "0/1 masks": (some > 127).astype(np.uint8),
        "noise": random.integers(0, 256, shape, dtype=np.uint8),
        "sparse dots": ((random.random(shape) < 0.1) * 255).astype(np.uint8),
        "shuffled pixels": random.permuted(some.reshape(EACH, -1), axis=1).reshape(shape),
        "inverted": 255 - some,
        "dim ink": (some * 0.2).astype(np.uint8),
        "photographs": np.stack([np.asarray(photo) for photo in photographs]),
        "other alphabet": others[:EACH],
        "upside down": some[:, ::-1],
    }


def text_kinds() -> dict[str, list[str]]:
    """Foreign texts."""
    random = Random(0)

    def letters(least: int, most: int) -> str:
        return "".join(random.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(random.randint(least, most)))

    kinds = {
        name: [" ".join(random.sample(words.split(), 9)) + "." for _ in range(EACH)]
        for name, words in SENTENCES.items()
    }
    every = range(EACH)
    return kinds | {
        "emoji": ["".join(chr(random.randint(0x1F600, 0x1F64F)) for _ in range(random.randint(1, 9))) for _ in every],
        "punctuation": ["".join(random.choice(".,;:!?–—…()") for _ in range(random.randint(1, 20))) for _ in every],
        "numbers": [" ".join(str(random.randint(0, 99_999)) for _ in range(random.randint(3, 15))) for _ in every],
        "code": [random.choice(CODE).format(a=letters(2, 8), b=letters(3, 9), n=random.randint(0, 99)) for _ in every],
        "Base64": ["".join(random.choice("ABCdefGHIjklmNOPqrstUVWxyz0123456789+/") for _ in range(60)) for _ in every],
        "random letters": [" ".join(letters(2, 10) for _ in range(random.randint(4, 14))) for _ in every],
    }


def resized(images: Images, side: int) -> Images:
    return np.stack([np.asarray(Image.fromarray(image).resize((side, side))) for image in images])


def ordinary_of(test: ExemplarSet) -> NDArray[Any]:
    used = test.used
    return test.pool.values[np.random.default_rng(0).choice(used, min(ORDINARY, len(used)), replace=False)]


def unsure(verifier: Verifier, queries: Any, bag: Any) -> float:
    """The share of queries that get neither yes nor no because of what they are."""
    verdicts = verifier.verify_many(list(queries), [bag] * len(queries), witnesses="none")
    return float(np.mean([verdict.query_is_unlike for verdict in verdicts]))


def prepared(name: str, data: Path, folder: Path) -> tuple[Verifier, ExemplarSet]:
    """The verifier, and a test split of what it is for."""
    source, number = (
        RUNS.get(name) or {"miv/digits": "qmnist", "miv/evidence": "fever-evidence"}[name],
        int(name == "miv/digits"),
    )
    saved = folder / f"data-{source}-{number}"
    if not saved.is_dir():
        sets = plain_sets.build(source, data, number, EXEMPLARS, folder / "cache")
        save_splits(sets, saved, builder="benchmark", options={}, seed=number)
    test = load_split(saved, "test")
    if name not in RUNS:
        return Verifier.from_pretrained(name), test
    run = folder / f"run-{source}"
    if not run.is_dir():
        train(saved, out=run, seed=0, cache=folder / "cache", verbose=True)
    return Verifier.from_pretrained(run), test


def measure(name: str, data: Path, folder: Path) -> dict[str, Any]:
    """Promised and measured false alarms, and the share of each kind of foreign input that is unsure."""
    verifier, test = prepared(name, data, folder)
    ordinary, bag = ordinary_of(test), ordinary_of(test)[-2:]
    assert isinstance(verifier.unlike, OutOfDistributionLimit)
    kinds: dict[str, Any] = text_kinds()
    if test.pool.kind == "image":
        other = plain_sets.read_omniglot(data / "omniglot")[0][:2_000]
        if name == "omniglot":
            other = ordinary_of(prepared("qmnist", data, folder)[1])
        random = np.random.default_rng(1)
        kinds = image_kinds(ordinary, random.permutation(resized(other, ordinary.shape[1])))
    return {
        "promised": verifier.unlike.rate,
        "test": unsure(verifier, ordinary, list(bag)),
        "of": len(ordinary),
        **{kind: unsure(verifier, queries, list(bag)) for kind, queries in kinds.items()},
    }


def table(figures: dict[str, dict[str, Any]]) -> str:
    """One row per kind, one column per verifier."""
    names = list(dict.fromkeys(name for row in figures.values() for name in row if name != "of"))
    lines = [["unsure", *figures], ["---"] * (1 + len(figures))]
    lines += [[kind, *(f"{row[kind]:.3f}" if kind in row else "–" for row in figures.values())] for kind in names]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with qmnist/, omniglot/ and fever-dev/")
    parser.add_argument("--folder", type=Path, default=Path("out_of_distribution"), help="where sets and runs are kept")
    parser.add_argument("--only", default=",".join(NAMES), help="names, separated by commas")
    options = parser.parse_args()
    data = data_folder(options.data, "qmnist")
    figures: dict[str, dict[str, Any]] = {}
    for name in options.only.split(","):
        figures[name] = measure(name, data, options.folder)
        print(json.dumps({name: figures[name]}), file=sys.stderr, flush=True)
    for kind in ("blank", "emoji"):
        print(table({name: row for name, row in figures.items() if kind in row}), end="\n\n")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()

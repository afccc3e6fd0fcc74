"""What do tokens add to vectors of texts, without any training on the set? AUROC and i-AP on validation.

    python benchmarks/text_tokens.py --data DATA [--set fever-evidence] [--exemplars 500]

A bag scores as its most similar target. The similarities: the cosine of the vectors of ``hf:minilm``; the tokens of
``tokens:minilm`` with its random projection; the tokens of ``miv/evidence``; and the cosine plus a share of these, one
of which ``miv train`` chooses. ``docstrings`` asks whether a bag holds a docstring of the query's module, with the
first paragraphs of installed packages. One JSON object per set and similarity.
"""

import argparse
import ast
import json
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks import plain_sets

from miv import Verifier, create_backbone
from miv.backbones.cache import embed_instances
from miv.data import ExemplarSet, InstancePool, csr
from miv.data.sources.drawing import Drawing
from miv.evaluation import auroc
from miv.evaluation.cosines import unit_rows
from miv.evaluation.witnesses import witness_scores
from miv.runtime import SilentProgress
from miv.training.token_share import SHARES

SETS = ("fever-evidence", "fm2-evidence", "fever-verdicts", "claims-twin", "docstrings")
WIDTH = 128
PACKAGES = ("sklearn", "scipy", "numpy", "torch", "transformers", "matplotlib", "lightning", "networkx")
FEWEST, MOST, LENGTHS = 8, 30, (25, 300)  # docstrings per module, and letters in each
MODULES = 150
TOGETHER = 256  # targets that are compared together


def docstrings(seed: int, exemplars: int) -> ExemplarSet:
    """Is one of these of the query's module? The first paragraphs of docstrings of installed packages."""
    found = [find_spec(package) for package in PACKAGES]
    folders = [Path(spec.origin).parent for spec in found if spec is not None and spec.origin is not None]
    paths = [path for folder in folders for path in sorted(folder.rglob("*.py")) if "tests" not in path.parts]
    random = np.random.default_rng([seed, 99])
    modules: dict[str, list[str]] = {}
    for at in random.permutation(len(paths)):
        kept = list(dict.fromkeys(text for text in _paragraphs(paths[at]) if LENGTHS[0] <= len(text) <= LENGTHS[1]))
        if len(kept) >= FEWEST:
            modules[str(paths[at])] = kept[:MOST]
        if len(modules) == MODULES:
            break
    classes = np.repeat(np.array([*modules], object), [len(texts) for texts in modules.values()])
    pool = InstancePool("text", np.array([text for texts in modules.values() for text in texts], object), classes)
    members = {name: np.flatnonzero(classes == name) for name in modules}
    return Drawing(exemplars).draw(pool, members, exemplars, random, SilentProgress(), "validation").compact()


def _paragraphs(path: Path) -> Iterator[str]:
    """The first paragraph of each docstring of a module; none for one of a later Python."""
    try:
        tree = ast.parse(path.read_text("utf-8"))
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())


def drawn(name: str, data: Path, seed: int, exemplars: int) -> ExemplarSet:
    """At most so many exemplars of validation, over the instances that they use."""
    if name == "docstrings":
        return docstrings(seed, exemplars)
    sets = plain_sets.WITHOUT_CACHE[name](data, seed)
    random = np.random.default_rng([seed, 7])
    if len(sets["train"]) > 1000:
        random.permutation(len(sets["train"]))  # the board draws train first
    validation = sets["validation"]
    if exemplars < len(validation):
        validation = validation.subset(np.sort(random.permutation(len(validation))[:exemplars]))
    return validation.compact()


def cosines(exemplars: ExemplarSet) -> NDArray[np.float64]:
    """``(T,)``, of each target with its query, by vectors."""
    features = embed_instances(create_backbone("hf:minilm").eval(), exemplars.pool, np.arange(len(exemplars.pool)))
    rows = (exemplars.query[exemplars.owner], exemplars.bag_index)
    query, target = (unit_rows(features, one) for one in rows)
    return np.asarray((query * target).sum(axis=1), np.float64)


@torch.inference_mode()
def matches(verifier: Verifier, exemplars: ExemplarSet) -> NDArray[np.float64]:
    """``(T,)``, of each target with its query, token by token."""
    features = embed_instances(verifier.backbone, exemplars.pool, np.arange(len(exemplars.pool)))
    asked, found = exemplars.query[exemplars.owner], []
    for first in range(0, len(asked), TOGETHER):
        rows = (asked[first : first + TOGETHER], exemplars.bag_index[first : first + TOGETHER])
        found.append(verifier.pooling.similarity(*(torch.from_numpy(features[one]) for one in rows)).numpy())
    return np.concatenate(found).astype(np.float64)


def compute(exemplars: ExemplarSet) -> Iterator[dict[str, object]]:
    """The rows of a set, one after the other."""
    cosine = cosines(exemplars)
    yield {"similarity": "cosine of vectors", **figures(exemplars, cosine)}
    torch.manual_seed(0)
    random = Verifier("maxsim", "tokens:minilm", pooling_options={"width": WIDTH}).eval()
    yield {"similarity": "tokens, projected at random", **figures(exemplars, matches(random, exemplars))}
    learned = matches(Verifier.from_pretrained("miv/evidence"), exemplars)
    yield {"similarity": "tokens of miv/evidence", **figures(exemplars, learned)}
    for share in SHARES[1:]:
        yield {"similarity": f"{share} of these, plus the cosine", **figures(exemplars, cosine + share * learned)}


def figures(exemplars: ExemplarSet, score: NDArray[np.float64]) -> dict[str, float]:
    """AUROC of the largest similarity of each bag, and i-AP of the positive ones."""
    assert exemplars.witness is not None
    ranked = witness_scores(exemplars.bag_ptr, exemplars.witness, score)
    counted = (exemplars.label == 1) & ranked.defined
    return {
        "auroc": round(float(auroc(exemplars.label, csr.bag_maxima(score, exemplars.bag_ptr))), 4),
        "i_ap": round(float(ranked.i_ap[counted].mean()), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--set", choices=SETS, action="append")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--exemplars", type=int, default=500)
    asked = parser.parse_args()
    for name in asked.set or SETS:
        exemplars = drawn(name, asked.data, asked.seed, asked.exemplars)
        for row in compute(exemplars):
            print(json.dumps({"set": name, "exemplars": len(exemplars), **row}), flush=True)


if __name__ == "__main__":
    main()

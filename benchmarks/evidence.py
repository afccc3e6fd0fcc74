"""How well and how fast `miv/evidence` finds evidence, beside the largest cosine of its encoder and BM25.

    PYTHONPATH=. python benchmarks/evidence.py --data DATA

DATA is a folder with fever-dev/ (and fm2/, if there). The set is test of `tools.evidence_task`: half of the bags
have lost their evidence, and the other sentences are on the same topic as far as possible. The last line is JSON.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from shared import data_folder  # type: ignore[import-not-found]
from tools.evidence_task import Evidence

import miv
from miv.backbones.cache import embed_instances
from miv.data import ExemplarSet, InstancePool
from miv.evaluation import evaluate
from miv.evaluation.plain_methods import score_baselines
from miv.evaluation.predicting import predict
from miv.runtime import RichProgress, SilentProgress

FM2 = {"train_file": "dev.jsonl", "validation_file": "", "page_field": "wikipedia_page", "missing_gold": "add"}


def figures(verifier: miv.Verifier, test: ExemplarSet, cache: Path | None) -> dict[str, float]:
    """AUROC and i-AP of the verifier and of the plain methods."""
    ours = evaluate(predict(verifier, test, progress=RichProgress())).metrics
    plain = score_baselines({"test": test}, "hf:minilm", cache=cache, progress=RichProgress()).splits["test"]
    cosine, words = plain["nearest"], plain["bm25"]
    assert cosine.auroc is not None
    assert cosine.i_ap is not None
    assert words.auroc is not None
    return {
        "evidence_auroc": ours["auroc"],
        "cosine_auroc": cosine.auroc,
        "bm25_auroc": words.auroc,
        "evidence_margin": ours["auroc"] - max(cosine.auroc, words.auroc),
        "evidence_i_ap": ours["i_ap"],
        "cosine_i_ap": cosine.i_ap,
        "evidence_i_ap_margin": ours["i_ap"] - max(cosine.i_ap, words.i_ap or 0.0),
    }


def speed(verifier: miv.Verifier, texts: list[str]) -> dict[str, float]:
    """Sentences embedded per second on one core, and the time of a check once the verifier is loaded."""
    cores = torch.get_num_threads()
    torch.set_num_threads(1)
    some = InstancePool("text", np.array(texts[:512], dtype=object))
    embed_instances(verifier.backbone, some, np.arange(64))  # warm up
    began = time.perf_counter()
    embed_instances(verifier.backbone, some, np.arange(len(some)))
    rate = len(some) / (time.perf_counter() - began)
    torch.set_num_threads(cores)
    answer, source = "\n\n".join(texts[-10:]), "\n\n".join(texts[:300])
    began = time.perf_counter()
    checked = miv.check(answer, source, verifier=verifier)
    seconds = time.perf_counter() - began
    asked = [one for one in checked.sentences if one.outcome != "not checked"]
    told = len(checked.sources[0].sentences)
    return {"sentences_per_s": rate, "check_s": seconds, "check_sentences": len(asked), "check_source_sentences": told}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with fever-dev/, and fm2/ if there")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--split", default="test", choices=["validation", "test"])
    given = parser.parse_args()
    given.data = data_folder(given.data, "fever-dev")
    verifier = miv.Verifier.from_pretrained("miv/evidence")
    sets: dict[str, dict[str, Any]] = {"": {"raw": given.data / "fever-dev"}}
    if (given.data / "fm2").is_dir():
        sets["fm2_"] = {"raw": given.data / "fm2", **FM2}
    found: dict[str, float] = {}
    for name, options in sets.items():
        test = Evidence(**options).build(SilentProgress())[given.split]
        found |= {f"{name}{key}": value for key, value in figures(verifier, test, given.cache).items()}
        if not name:
            found |= speed(verifier, [str(text) for text in test.pool.values[np.unique(test.bag_index)]])
    print(json.dumps({key: round(value, 4) for key, value in found.items()}))


if __name__ == "__main__":
    main()

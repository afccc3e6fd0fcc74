"""Features of the QMNIST test digits by ``miv/digits``, and what storing them in fewer bytes costs."""

import gzip
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from miv import Verifier
from miv.backbones.cache import embed_instances
from miv.data import InstancePool
from miv.evaluation.metrics import auroc
from miv.verifier.stored_bag import RowType, restore_rows, store_rows
from miv.verifier.streaming import StreamingPass

DIGITS, BAG = 10_000, 12


def digits_and_features(data: Path, folder: Path) -> tuple[Verifier, NDArray[np.float32], NDArray[np.int64]]:
    """The verifier, features ``(N, C)``, kept in the folder, and digits and writers ``(N, 2)``."""
    verifier = Verifier.from_pretrained("miv/digits")
    saved = folder / "digit_features.npy"
    with gzip.open(data / "qmnist" / "qmnist-test-labels-idx2-int.gz") as file:
        labels = np.frombuffer(file.read()[12:], ">i4").reshape(-1, 8)[:DIGITS, [0, 2]].astype(np.int64)
    if not saved.exists():
        with gzip.open(data / "qmnist" / "t10k-images-idx3-ubyte.gz") as file:
            images = np.frombuffer(file.read()[16:], np.uint8).reshape(-1, 28, 28)[:DIGITS]
        pool = InstancePool("image", images)
        np.save(saved, embed_instances(verifier.backbone, pool, np.arange(len(pool))))
    return verifier, np.load(saved), labels


def quantised_auroc_loss(folder: Path, data: Path, exemplars: int = 2000) -> dict[str, float]:
    """AUROC on bags of 12 test digits (one digit by other writers) with float32 rows, minus that with fewer bytes."""
    verifier, features, labels = digits_and_features(data, folder)
    random = np.random.default_rng(0)
    logits: dict[RowType, list[float]] = {"float32": [], "float16": [], "int8": []}
    truth: list[int] = []
    while len(truth) < exemplars:
        query = random.integers(DIGITS)
        alike, by_writer = (labels == labels[query]).T
        others, same = np.flatnonzero(alike & ~by_writer), np.flatnonzero(alike & by_writer)
        if len(same) < 2:
            continue
        bag = random.choice(others, BAG, replace=False)
        if len(truth) % 2:
            bag[0] = random.choice(same[same != query])
        truth.append(len(truth) % 2)
        keys = StreamingPass(verifier, features[query][None], top=0).rows(features[bag])
        for kind, found in logits.items():
            state = StreamingPass(verifier, features[query][None], top=0)
            state.update_stored(restore_rows(*store_rows(keys, kind)))
            found.append(state.finish()[0].logit)
    exact = auroc(np.array(truth), np.array(logits["float32"]))
    losses = {kind: exact - auroc(np.array(truth), np.array(found)) for kind, found in logits.items()}
    return {"quantised_auroc": exact, "quantised_auroc_loss": max(losses["float16"], losses["int8"]),
            "float16_auroc_loss": losses["float16"], "int8_auroc_loss": losses["int8"]}  # fmt: skip

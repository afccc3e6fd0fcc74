"""What verifying costs beyond what it must. The last line of the output is one JSON object.

    python benchmarks/verify.py [--quick] [--threads 2]

``verify_over_matmul``: ``Verifier.verify`` on ready features (bag of 50, C = 512, cap_dba_l2) / its bare matrix
products, on one thread: p50 of processor time, which other work on the machine changes least; that of the clock
beside it.
``many_over_loop``: exemplars a second of ``verify_many`` / of a loop of ``verify``, at the sizes of QMNIST with the
compact CNN (bags of 14, C = 128), one thread. The gain is what a call costs besides arithmetic, so it shrinks as the
arithmetic grows: at most ``verify_over_matmul`` or so for bags of 50 and C = 512, which stands beside it with others.
``onnx_over_torch``: ``OnnxVerifier.verify`` / ``Verifier.verify`` on the same ready features (bag of 50, C = 512,
cap_dba_l2), one thread each: p50 of processor time; below 1 the exported file is the quicker. Beside it the same for
other sizes. Reported, with no target: an export is for machines without PyTorch. Left out where the libraries of the
export are not there.
``sklearn_fit_s``: seconds of the clock in which ``MIVClassifier`` trains on 10,000 exemplars (C = 384, bags of 5 to 15)
with its default settings on so many threads, with the processor time and the load of the machine beside it.
"""

import argparse
import functools
import json
import os
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from miv import MIVClassifier, Verifier
from miv.poolings.cap import CrossAttentionPooling

SIZES = {"bag_5_c_64": (5, 64), "bag_14_c_128": (14, 128), "bag_10_c_384": (10, 384), "bag_50_c_512": (50, 512)}
HEADLINE, LARGEST = "bag_14_c_128", "bag_50_c_512"


def p50(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, tuple[float, float]]:
    """Microseconds of the processor and of the clock, the calls in turn."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            clock, processor = time.perf_counter(), time.process_time()
            call()
            found[name].append((time.process_time() - processor, time.perf_counter() - clock))
    columns = {name: np.median(np.array(rows), axis=0) * 1e6 for name, rows in found.items()}
    return {name: (float(processor), float(clock)) for name, (processor, clock) in columns.items()}


def vectors(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def latency(repeats: int) -> dict[str, Any]:
    verifier = Verifier("cap_dba_l2", channels=512).eval()
    pooling = verifier.pooling
    assert isinstance(pooling, CrossAttentionPooling)
    assert pooling.gate is not None
    query, bag = vectors(512), vectors(50, 512)
    rows, targets = torch.from_numpy(query)[None], torch.from_numpy(bag)
    linear: list[Any] = [pooling.project, pooling.gate.squeeze, pooling.gate.excite]
    project, squeeze, excite = (one.weight.T for one in linear)

    @torch.inference_mode()
    def matrix_products() -> None:
        rows @ project
        targets @ project
        (rows @ squeeze) @ excite

    found = p50({"matmul": matrix_products, "verify": lambda: verifier.verify(query, bag)}, repeats)
    return {
        "verify_over_matmul": round(found["verify"][0] / found["matmul"][0], 2),
        "verify_us": round(found["verify"][0]),
        "matmul_us": round(found["matmul"][0]),
        "verify_us_clock": round(found["verify"][1]),
        "matmul_us_clock": round(found["matmul"][1]),
    }


def throughput(exemplars: int, repeats: int) -> dict[str, Any]:
    gains = {}
    for name, (size, channels) in SIZES.items():
        verifier = Verifier("cap_dba_l2", channels=channels).eval()
        queries, bags = vectors(exemplars, channels), list(vectors(exemplars, size, channels))

        def many(verifier: Verifier = verifier, queries: Any = queries, bags: Any = bags) -> object:
            return verifier.verify_many(queries, bags)

        def loop(verifier: Verifier = verifier, queries: Any = queries, bags: Any = bags) -> object:
            return [verifier.verify(query, bag) for query, bag in zip(queries, bags, strict=True)]

        found = p50({"many": many, "loop": loop}, repeats)
        gains[name] = round(found["loop"][0] / found["many"][0], 1)
    return {"many_over_loop": gains[HEADLINE], "many_over_loop_by_size": gains}


def exported(repeats: int) -> dict[str, Any]:
    if not all(map(find_spec, ("onnx", "onnxruntime", "onnxscript"))):
        return {}
    from miv.interop import export_onnx
    from miv.interop.onnx_verifier import OnnxVerifier

    ratios = {}
    for name, (size, channels) in SIZES.items():
        verifier = Verifier("cap_dba_l2", channels=channels).eval()
        query, bag = vectors(channels), vectors(size, channels)
        with TemporaryDirectory() as folder:
            export_onnx(verifier, Path(folder) / "verifier.onnx", bags=3)
            onnx = OnnxVerifier(Path(folder) / "verifier.onnx", threads=1)
        calls: dict[str, Callable[[], object]] = {
            "onnx": functools.partial(onnx.verify, query, bag),
            "torch": functools.partial(verifier.verify, query, bag),
        }
        found = p50(calls, repeats)
        ratios[name] = round(found["onnx"][0] / found["torch"][0], 2)
    return {"onnx_over_torch": ratios[LARGEST], "onnx_over_torch_by_size": ratios}


def classes_of_vectors(exemplars: int, channels: int, seed: int) -> tuple[Any, list[Any], Any]:
    """Bags of 5 to 15 vectors around 200 centres; in every other one a vector of the query's centre."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(0).normal(size=(200, channels)).astype(np.float32)
    queries, bags, labels = [], [], []
    for number in range(exemplars):
        own, size = random.integers(200), random.integers(5, 16)
        members = (own + random.integers(1, 200, size)) % 200
        if number % 2:
            members[random.integers(size)] = own
        noise = random.normal(size=(size + 1, channels)).astype(np.float32)
        queries.append(centres[own] + noise[0])
        bags.append(centres[members] + noise[1:])
        labels.append(number % 2)
    return np.stack(queries), bags, np.array(labels)


def classifier(exemplars: int, threads: int) -> dict[str, Any]:
    torch.set_num_threads(threads)
    training, test = classes_of_vectors(exemplars, 384, 0), classes_of_vectors(1000, 384, 1)
    clock, processor = time.perf_counter(), time.process_time()
    model = MIVClassifier(random_state=0).fit(*training)
    return {
        "sklearn_fit_s": round(time.perf_counter() - clock, 1),
        "sklearn_fit_processor_s": round(time.process_time() - processor, 1),
        "sklearn_exemplars": exemplars,
        "sklearn_threads": threads,
        "sklearn_test_accuracy": round(model.score(*test[:2], labels=test[2]), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer repeats, and a tenth of the exemplars to train on")
    parser.add_argument(
        "--threads", type=int, default=2, help="of the training; on a busy machine two wait for each other"
    )
    given = parser.parse_args()
    quick = given.quick
    torch.set_num_threads(1)
    figures: dict[str, Any] = {"load_before": round(os.getloadavg()[0], 1), "cores": os.cpu_count()}
    figures |= latency(50 if quick else 500)
    figures |= exported(50 if quick else 500)
    figures |= throughput(100 if quick else 300, 3 if quick else 7)
    print(json.dumps(figures), flush=True)
    figures |= classifier(1000 if quick else 10_000, given.threads)
    figures["load_after"] = round(os.getloadavg()[0], 1)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()

"""What the service costs beyond the calls it makes. The last line of the output is one JSON object.

    python benchmarks/serve.py [--quick] [--only ready,latency,batching,load,attacks]

Everything runs on this machine: ``miv serve`` in processes of its own, clients over loopback in this one.

``request_over_call``: p50 of a request with ready features (a bag of 50 vectors as JSON, C = 512, cap_dba_l2) / p50 of
the same call in this process, ``verify(query, bag).document()``; one thread each, in turn. Beside it the same for
``verify`` without the scores of single instances, and in processor time (that of the service and of the client), which
other work on the machine changes least.
``batching_gain``: requests per second of 16 clients / the same with ``--no-batching``: an image as the query of
``miv/digits``, and a bag of 12.
``ready_s``: seconds from starting ``miv serve miv/digits`` to its first answer "ready"; best of three.
``failed_requests`` and ``memory_growth``: 32 clients for 60 seconds on two workers, with images, changes and
searches of a gallery. Answers of 503 with Retry-After are honoured and not counted as failed. The growth is
the greatest change of the resident memory of all processes from second 20 to 60, as a share of that at second 20.
``attacks``: small requests of four clients (a bag of 12 images) to a model that eight other clients attack, either by
searches with 50 references and leave-one-out in a gallery with a bag of 1,500, or by images of 5000 × 5000 pixels,
nine per request. Seconds of the median and of the slowest twentieth of the small requests, and how many got 503.
"""

import argparse
import base64
import io
import json
import os
import statistics
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from miv import Verifier

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.serve_load import Load, put_under_load
from benchmarks.serve_process import Service, processor_seconds, serving
from benchmarks.serve_requests import RawClient, request_bytes

CHANNELS, SIZE = 512, 50


def png(pixels: NDArray[np.uint8]) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def image(seed: int) -> dict[str, str]:
    pixels = np.random.default_rng(seed).integers(0, 256, (28, 28), np.uint8)
    return {"image": base64.b64encode(png(pixels)).decode()}


def verify_bytes(query: Any, bag: Any, **more: Any) -> bytes:
    return request_bytes("POST", "/v1/verify", {"exemplars": [{"query": query, "bag": bag}], **more})


def ready(repeats: int, folder: Path) -> dict[str, Any]:
    found, processor = [], []
    for _ in range(repeats):
        with serving("miv/digits") as service:
            found.append(service.ready_s)
            processor.append(processor_seconds(service.process.pid))
    return {
        "ready_s": round(min(found), 2),
        "ready_s_all": [round(one, 2) for one in found],
        "ready_processor_s": round(min(processor), 2),
    }


def latency(repeats: int, folder: Path) -> dict[str, Any]:
    """The three calls in turn, so that other work on the machine meets all alike."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    verifier = Verifier("cap_dba_l2", channels=CHANNELS).eval()
    verifier.save_pretrained(folder / "vectors")
    random = np.random.default_rng(0)
    query, bag = random.normal(size=(1, CHANNELS))[0], random.normal(size=(SIZE, CHANNELS))
    query, bag = query.astype(np.float32), bag.astype(np.float32)
    times: dict[str, list[float]] = {"call": [], "bare": [], "vectors": []}
    with serving(str(folder / "vectors"), "--threads", "1") as service, RawClient(service.host, service.port) as client:
        given = [[round(float(number), 6) for number in row] for row in bag]
        asked = [round(float(number), 6) for number in query]
        request = verify_bytes(asked, given)
        for number in range(repeats + 20):
            found = {}
            start = time.perf_counter()
            verifier.verify(query, bag).document()
            found["call"] = time.perf_counter() - start
            start = time.perf_counter()
            verifier.verify(query, bag)
            found["bare"] = time.perf_counter() - start
            start = time.perf_counter()
            status, _, _ = client.send(request)
            found["vectors"] = time.perf_counter() - start
            assert status == 200
            if number >= 20:  # warm
                for name, seconds in found.items():
                    times[name].append(seconds)
        processor = {"vectors": processor_ms(service, client, request, repeats)}
    start_of_call = time.process_time()
    for _ in range(repeats):
        verifier.verify(query, bag).document()
    processor["call"] = (time.process_time() - start_of_call) / repeats * 1e3
    p50 = {name: statistics.median(found) * 1e3 for name, found in times.items()}
    return {
        "request_over_call": round(p50["vectors"] / p50["call"], 2),
        "request_over_call_in_processor_time": round(processor["vectors"] / processor["call"], 2),
        "ms": {name: round(one, 2) for name, one in p50.items()},
        "processor_ms": {name: round(one, 2) for name, one in processor.items()},
    }


def processor_ms(service: Service, client: RawClient, request: bytes, repeats: int) -> float:
    """Processor time of the service and of this process for a request."""
    before = processor_seconds(service.process.pid) + time.process_time()
    for _ in range(repeats):
        client.send(request)
    return (processor_seconds(service.process.pid) + time.process_time() - before) / repeats * 1e3


def batching(seconds: float, folder: Path) -> dict[str, Any]:
    rates: dict[str, list[float]] = {"--batching": [], "--no-batching": []}
    for _ in range(3):
        for option, found in rates.items():
            arguments = ["miv/digits", option, "--threads", "1"]
            with serving(*arguments) as service:
                bag = [image(number) for number in range(12)]
                requests = [verify_bytes(image(100 + number), bag) for number in range(16)]
                put_under_load(service, 16, 1, lambda number, _: requests[number])  # noqa: B023 - warm
                start = time.monotonic()
                load = put_under_load(service, 16, seconds, lambda number, _: requests[number])  # noqa: B023
                assert not load.failed, load.problems
                found.append(load.answered / (time.monotonic() - start))
    with_batching, without = (statistics.median(found) for found in rates.values())
    return {
        "batching_gain": round(with_batching / without, 2),
        "requests_per_second": round(with_batching, 1),
        "requests_per_second_alone": round(without, 1),
    }


def load(seconds: int, folder: Path) -> dict[str, Any]:
    arguments = ["miv/digits", "--galleries", str(folder / "galleries")]
    memory: list[tuple[float, int]] = []
    with serving(*arguments, "--workers", "2", "--threads", "1") as service:
        requests = prepared(service)
        found = put_under_load(
            service,
            32,
            seconds,
            lambda client, number: requests[(7 * client + number) % len(requests)],
            lambda second: memory.append((second, service.memory())),
        )
    first = seconds / 3
    late = [size for second, size in memory if second >= first]
    return {
        "failed_requests": found.failed,
        "memory_growth": round(max(abs(size / late[0] - 1) for size in late), 3),
        "load_seconds": seconds,
        "answered_requests": found.answered,
        "refused_requests": found.refused,
        "memory_mb": [round(size / 1e6) for size in late[:: max(1, len(late) // 8)]],
        "problems": found.problems,
    }


def attacks(seconds: int, folder: Path) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    arguments = ["miv/digits", "--galleries", str(folder / "attacked")]
    with serving(*arguments, "--threads", "1") as service:
        bag = {"bag": [image(number) for number in range(1_500)]}
        with RawClient(service.host, service.port) as client:
            client.answered(request_bytes("POST", "/v1/galleries", {"name": "large"}))
            client.answered(request_bytes("PUT", "/v1/galleries/large/bags/1", bag))
        references = {"query": [image(number) for number in range(50)], "top": 3, "witnesses": "leave_one_out"}
        black = {"image": base64.b64encode(png(np.zeros((5000, 5000), np.uint8))).decode()}
        attacking = {
            "none": None,
            "search": request_bytes("POST", "/v1/galleries/large/search", references),
            "images": verify_bytes(black, [black] * 8, resize="stretch"),
        }
        small = [verify_bytes(image(200 + n), [image(300 + 20 * n + place) for place in range(12)]) for n in range(12)]
        for name, attack in attacking.items():
            found: dict[str, Load] = {}
            clients = [(8, [attack], "attack")] if attack is not None else []
            threads = [
                threading.Thread(target=lambda c, r, key: found.update({key: send(service, c, seconds, r)}), args=args)  # noqa: B023
                for args in [*clients, (4, small, "small")]
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            times = sorted(found["small"].seconds)
            figures[f"attack_{name}"] = {
                "p50_s": round(times[len(times) // 2], 3) if times else None,
                "p95_s": round(times[int(0.95 * len(times))], 3) if times else None,
                "answered": len(times),
                "busy": found["small"].refused,
                "failed": found["small"].failed,
                "problems": found["small"].problems,
                "attacker": vars(found["attack"]) | {"seconds": None} if attack is not None else None,
            }
    return figures


def send(service: Service, clients: int, seconds: float, requests: list[bytes]) -> Load:
    return put_under_load(service, clients, seconds, lambda client, number: requests[(client + number) % len(requests)])


def prepared(service: Service) -> list[bytes]:
    """A mixture of requests, most of them verdicts."""
    with RawClient(service.host, service.port) as client:
        client.answered(request_bytes("POST", "/v1/galleries", {"name": "load"}))
        for number in range(20):
            bag = {"bag": [image(1000 + 10 * number + place) for place in range(5)]}
            client.answered(request_bytes("PUT", f"/v1/galleries/load/bags/{number}", bag))
    found = [verify_bytes(image(200 + n), [image(300 + 20 * n + place) for place in range(12)]) for n in range(12)]
    found += [verify_bytes(image(9), [image(n) for n in range(4)], heads=True)] * 2
    bags = [[image(n + place) for place in range(20)] for n in range(2)]
    found += [request_bytes("PUT", f"/v1/galleries/load/bags/{n}", {"bag": bag}) for n, bag in enumerate(bags)]
    found += [request_bytes("POST", "/v1/galleries/load/search", {"query": image(n), "top": 3}) for n in range(3)]
    return [*found, request_bytes("GET", "/v1/models")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the time, for a look")
    parser.add_argument("--only", default="ready,latency,batching,load,attacks")
    given = parser.parse_args()
    quick, chosen = given.quick, given.only.split(",")
    figures: dict[str, Any] = {}
    with TemporaryDirectory() as name:
        folder = Path(name)
        steps = {
            "ready": lambda: ready(1 if quick else 3, folder),
            "latency": lambda: latency(100 if quick else 300, folder),
            "batching": lambda: batching(2 if quick else 6, folder),
            "load": lambda: load(6 if quick else 60, folder),
            "attacks": lambda: attacks(15 if quick else 60, folder),
        }
        for step, measure in steps.items():
            if step in chosen:
                figures |= measure()
                print(json.dumps(figures), flush=True)
    print(json.dumps({**figures, "load_average": os.getloadavg()[0], "cores": os.cpu_count()}))


if __name__ == "__main__":
    main()

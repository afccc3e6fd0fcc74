"""A service in a process of its own, as a user starts it."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import miv.models
from miv.models.verifier import Verifier


@contextmanager
def started_service(log: Path, *arguments: str, token: str = "") -> Iterator[str]:
    """The address of a service that is ready."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "MIV_TOKEN": token, "MIV_CACHE_DIR": str(log.parent / "cache"), "OMP_NUM_THREADS": "1"}
    if not token:
        del environment["MIV_TOKEN"]
    command = [sys.executable, "-m", "miv", "serve", *arguments, "--port", str(port)]
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
    try:
        address = f"http://127.0.0.1:{port}"
        _wait(process, address, log)
        yield address
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def _wait(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until and process.poll() is None:
        try:
            with urlopen(f"{address}/readyz", timeout=5) as answer:
                if answer.status == 200:
                    return
        except URLError:  # not listening yet, or 503 while loading
            time.sleep(0.1)
    raise AssertionError(f"The service did not start:\n{log.read_text()}")


def cautious_digits(folder: Path) -> Path:
    """A copy of miv/digits that is unsure between 0.3 and 0.9: a second model for images."""
    shutil.copytree(Path(miv.models.__file__).parent / "shipped_verifiers" / "digits", folder)
    file = folder / "operating_point.json"
    point = json.loads(file.read_text())
    point |= {"format_version": 2, "threshold": 0.9, "lower_threshold": 0.3, "goal": "stated thresholds 0.3 and 0.9"}
    file.write_text(json.dumps(point))
    return folder


def vectors_verifier(folder: Path) -> Path:
    """An untrained verifier of vectors with eight numbers."""
    Verifier("cap_dba_l2", channels=8).save_pretrained(folder)
    return folder

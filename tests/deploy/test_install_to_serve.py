"""The install of the container file in an empty environment: the service runs, and no library of training is there."""

import os
import re
import subprocess
import venv
from pathlib import Path

import pytest
from benchmarks.serve_process import serving
from benchmarks.serve_requests import RawClient, request_bytes

from tests.cli.packing import ROOT, copy_of_source, run


@pytest.mark.slow
def test_the_service_runs_without_the_libraries_of_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    containerfile = (ROOT / "deploy" / "Containerfile").read_text()
    [extras] = re.findall(r"^ARG EXTRAS=(\S+)$", containerfile, re.MULTILINE)
    source = copy_of_source(tmp_path)
    venv.create(tmp_path / "miv", with_pip=True)
    python = tmp_path / "miv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--constraint", "constraints.txt", f".[{extras}]", cwd=source)
    libraries = ("matplotlib", "transformers", "pytest")
    missing = f"import importlib.util as u; print([n for n in {libraries} if u.find_spec(n)])"
    assert run(python, "-c", missing, cwd=tmp_path)[0].strip() == "[]"
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.chdir(tmp_path)
    with (
        serving("miv/digits", "--galleries", "galleries", python=str(python)) as service,
        RawClient(service.host, service.port) as client,
    ):
        assert client.send(request_bytes("GET", "/"))[0] == 200  # the page is in the package
        assert client.send(request_bytes("POST", "/v1/galleries", {"name": "a"}))[0] == 201
        sample = client.send(request_bytes("GET", "/v1/samples/digits-present"))
        assert sample[0] == 200
    size = subprocess.run(["du", "-sm", tmp_path / "miv"], capture_output=True, text=True, check=True).stdout.split()[0]
    print(f"The environment has {size} MB; {os.cpu_count()} processors.")

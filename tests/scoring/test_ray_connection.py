"""Which token goes to which Ray cluster, without Ray."""

import os
import sys
from pathlib import Path
from threading import Event
from types import ModuleType
from typing import Any

import pytest

from miv import MIVError
from miv.reproduction.jobs import JobFolders
from miv.reproduction.ray_runner import run_on_ray
from miv.scoring.ray import LOCAL, connected, import_ray
from tests.reproduction.examples import job_of

HERE, ELSEWHERE = "127.0.0.1:6379", "192.0.2.1:6379"


class SomeRay(ModuleType):
    """Starts a cluster as Ray does: with a token that it keeps in the home folder."""

    __version__ = "0"
    exceptions: Any = ModuleType("ray.exceptions")

    def is_initialized(self) -> bool:
        return False

    def init(self, **options: Any) -> None:
        os.environ.setdefault("RAY_AUTH_MODE", "token")

    def shutdown(self) -> None:
        return


def forget_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this a process that has used no token, and restore everything after the test."""
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.setenv(name, "")  # so that it is restored
        monkeypatch.delenv(name)
    monkeypatch.setattr("miv.scoring.ray._uses_own_token", Event())


@pytest.fixture(autouse=True)
def _ray(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_tokens(monkeypatch)
    some = SomeRay("ray")
    some.exceptions.RayError = RuntimeError
    monkeypatch.setitem(sys.modules, "ray", some)
    monkeypatch.setitem(sys.modules, "ray.exceptions", some.exceptions)


@pytest.mark.parametrize("address", [ELSEWHERE, f"ray://{ELSEWHERE}", "[2001:db8::1]:6379", HERE, "auto"])
def test_no_token_is_sent_that_was_not_given(address: str) -> None:
    import_ray("Testing", address)
    assert "RAY_AUTH_MODE" not in os.environ


@pytest.mark.parametrize("address", [ELSEWHERE, HERE])
def test_the_token_of_a_cluster_that_was_started_here_is_for_that_cluster_alone(address: str) -> None:
    with connected(import_ray("Testing", LOCAL), LOCAL, lambda line: None):
        assert os.environ["RAY_AUTH_MODE"] == "token"
    with pytest.raises(MIVError, match="from a new process"):
        import_ray("Testing", address)
    import_ray("Testing", LOCAL)


def test_a_given_token_is_for_any_address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "1" * 64)
    with pytest.raises(MIVError, match=r"Cannot reach a Ray cluster at '127\.0\.0\.1:1'"):
        run_on_ray([job_of()], JobFolders(tmp_path / "a", tmp_path / "b", tmp_path / "c"), "127.0.0.1:1", print)
    assert os.environ["RAY_AUTH_MODE"] == "token"
    import_ray("Testing", ELSEWHERE)


def test_a_mode_that_is_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "1" * 64)
    import_ray("Testing", HERE)
    assert os.environ["RAY_AUTH_MODE"] == "disabled"

"""Which token goes to which Ray cluster, without Ray."""

import os
import socket
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from miv import MIVError
from miv.reproduction.jobs import JobFolders
from miv.reproduction.ray_runner import run_on_ray
from miv.scoring.ray import LOCAL, connected, import_ray
from tests.reproduction.examples import job_of
from tests.scoring.ray_tokens import forget_tokens

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


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with a token, in a process that has not used it."""
    forget_tokens(tmp_path, monkeypatch)
    some = SomeRay("ray")
    some.exceptions.RayError = RuntimeError
    monkeypatch.setitem(sys.modules, "ray", some)
    monkeypatch.setitem(sys.modules, "ray.exceptions", some.exceptions)
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("0" * 64)
    return tmp_path


@pytest.mark.parametrize("address", [ELSEWHERE, f"ray://{ELSEWHERE}", "[2001:db8::1]:6379", "auto"])
def test_the_token_of_the_home_folder_is_not_for_others(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket.socket, "bind", lambda *_: None)  # as with net.ipv4.ip_nonlocal_bind=1
    import_ray("Testing", address)
    assert "RAY_AUTH_MODE" not in os.environ


@pytest.mark.parametrize("address", [HERE, f"ray://{HERE}", "localhost:6379", "127.0.0.5:1"])
def test_the_token_of_the_home_folder_is_for_this_machine_alone(address: str) -> None:
    import_ray("Testing", address)
    assert os.environ["RAY_AUTH_MODE"] == "token"
    with pytest.raises(MIVError, match=r"send to '192\.0\.2\.1:6379' as well\. Connect to it from a new process"):
        import_ray("Testing", ELSEWHERE)
    import_ray("Testing", HERE)


def test_the_token_of_a_cluster_that_was_started_here_is_for_this_machine_alone(home: Path) -> None:
    (home / ".ray" / "auth_token").unlink()
    with connected(import_ray("Testing", LOCAL), LOCAL, lambda line: None):
        assert os.environ["RAY_AUTH_MODE"] == "token"
    with pytest.raises(MIVError, match="Connect to it from a new process"):
        import_ray("Testing", ELSEWHERE)


def test_a_given_token_is_for_any_address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "1" * 64)
    with pytest.raises(MIVError, match=r"Cannot reach a Ray cluster at '127\.0\.0\.1:1'"):
        run_on_ray([job_of()], JobFolders(tmp_path / "a", tmp_path / "b", tmp_path / "c"), "127.0.0.1:1", print)
    assert os.environ["RAY_AUTH_MODE"] == "token"
    import_ray("Testing", ELSEWHERE)


def test_a_mode_that_is_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    import_ray("Testing", HERE)
    assert os.environ["RAY_AUTH_MODE"] == "disabled"

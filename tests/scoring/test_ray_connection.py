"""Which token goes to which Ray cluster, without Ray."""

import os
import socket
import sys
from threading import Event
from types import ModuleType
from typing import Any

import pytest

from miv import MIVError
from miv.scoring.ray import LOCAL, check_address, connected, import_ray

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


def test_a_given_token_is_for_any_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "1" * 64)
    import_ray("Testing", ELSEWHERE)
    assert os.environ["RAY_AUTH_MODE"] == "token"


def test_an_address_where_nobody_answers_is_refused_at_once() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"  # bound, and nobody listens
        for one in (address, f"ray://{address}", "127.0.0.1:ray"):
            with pytest.raises(MIVError, match=f"Cannot reach a Ray cluster at '{one}'"):
                check_address(one)
        free.listen()
        check_address(address)
    check_address("auto")


def test_a_mode_that_is_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "1" * 64)
    import_ray("Testing", HERE)
    assert os.environ["RAY_AUTH_MODE"] == "disabled"

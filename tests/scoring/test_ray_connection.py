"""What Ray is told before it is imported, and which addresses are tried; without Ray."""

import os
import socket
import sys
from types import ModuleType

import pytest

from miv import MIVError
from miv.scoring.ray import check_address, import_ray


@pytest.mark.parametrize(
    ("given", "mode"),
    [
        ({}, None),  # no token is sent that was not given
        ({"RAY_AUTH_TOKEN": "1" * 64}, "token"),
        ({"RAY_AUTH_TOKEN_PATH": "token.txt"}, "token"),
        ({"RAY_AUTH_TOKEN": "1" * 64, "RAY_AUTH_MODE": "disabled"}, "disabled"),
    ],
)
def test_a_given_token_is_used(monkeypatch: pytest.MonkeyPatch, given: dict[str, str], mode: str | None) -> None:
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.setenv(name, given.get(name, ""))  # so that it is restored
        if name not in given:
            monkeypatch.delenv(name)
    monkeypatch.setitem(sys.modules, "ray", ModuleType("ray"))
    monkeypatch.setitem(sys.modules, "ray.exceptions", ModuleType("ray.exceptions"))
    import_ray("Testing")
    assert os.environ.get("RAY_AUTH_MODE") == mode


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

"""A process that has used no token of Ray, whatever the user's home folder and environment have."""

from pathlib import Path
from threading import Event

import pytest


def forget_tokens(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take ``home`` as the home folder, and restore everything after the test."""
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.setenv(name, "")  # so that it is restored
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr("miv.scoring.ray._sends_home_token", Event())

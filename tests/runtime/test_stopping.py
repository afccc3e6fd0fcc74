"""SIGTERM as an exception."""

import os
import signal

import pytest

from miv import runtime
from miv.runtime import Terminated, raising_on_terminate


class Swallowing:
    """Python drops what is raised while it frees an object."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_swallowed_stop_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "REPEAT_SECONDS", 0.0)
    with raising_on_terminate():
        Swallowing()
        with pytest.raises(Terminated):
            os.kill(os.getpid(), signal.SIGTERM)


def test_a_repeat_within_seconds_is_ignored() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with raising_on_terminate():
        with pytest.raises(Terminated):
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)  # as `timeout` sends it, while blocks clean up
    assert signal.getsignal(signal.SIGTERM) is before

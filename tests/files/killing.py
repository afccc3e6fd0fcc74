"""Run a function in a process of its own and kill it, as ``kill -9`` does, at the n-th change of a name on disk."""

import multiprocessing
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_CHANGES = [(os, "replace"), (os, "rename"), (os, "unlink"), (os, "rmdir"), (shutil, "rmtree")]


def kill_at_change(number: int, work: Callable[..., Any], *arguments: Any) -> bool:
    """Whether the process was killed; otherwise it ended before that many renames and removals."""
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_killed_at, args=(number, work, arguments))
    process.start()
    process.join(60)
    assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
    return process.exitcode != 0


def _killed_at(number: int, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    count = 0

    def counted(change: Callable[..., Any]) -> Callable[..., Any]:
        def first_perhaps_die(*given: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return change(*given, **options)

        return first_perhaps_die

    with pytest.MonkeyPatch.context() as patched:
        for module, name in _CHANGES:
            patched.setattr(module, name, counted(getattr(module, name)))
        work(*arguments)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())

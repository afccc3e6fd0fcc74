"""What benchmarks share: one setting of the allocator, and a word on what a machine cannot measure."""

import json
import os
import sys
from pathlib import Path
from typing import NoReturn

# glibc gives large tensors back to the system at every step unless told otherwise; that would slow all sides, a padded
# one more. The variables only count when a process starts.
SETTINGS = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "8589934592",
    "MALLOC_TOP_PAD_": "67108864",
}


def restart_with_settings() -> None:
    """Begin the running script anew under the settings, unless it has them; call this before torch is imported."""
    if any(os.environ.get(name) != value for name, value in SETTINGS.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **SETTINGS})


def leave_out(reason: str) -> NoReturn:
    """End a benchmark that cannot run here: the last line says why, as JSON."""
    print(json.dumps({"left_out": reason}))
    sys.exit(0)


def data_folder(folder: Path | None, name: str) -> Path:
    """The folder ``--data``, or the end of the benchmark if it is missing or has no ``name``."""
    if folder is None or not (folder / name).is_dir():
        leave_out(f"needs --data DIR, a folder with {name}; got {folder or 'no folder'}")
    return folder

"""One setting of the allocator for every benchmark that measures steps of training."""

import os
import sys

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

"""Telling the C library to keep memory that will be needed again at the next step."""

import ctypes
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # of mallopt(3)


def keep_memory() -> None:
    """Let glibc reuse large blocks instead of giving each back; makes training on a CPU 1.2 to 1.6 times as fast.

    For a whole process, so it is for commands to call, not for a library. Elsewhere than on Linux it does nothing.
    """
    if not sys.platform.startswith("linux"):
        return
    library = ctypes.CDLL(None)
    if hasattr(library, "gnu_get_libc_version"):
        library.mallopt(_MMAP_MAX, 0)
        library.mallopt(_TRIM_THRESHOLD, 2**31 - 1)
        library.mallopt(_TOP_PAD, 64 << 20)

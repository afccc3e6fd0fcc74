"""Make the C library keep memory for reuse in the next step."""

import ctypes
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # of mallopt(3)


def keep_memory() -> None:
    """Let glibc reuse large blocks instead of releasing them; makes CPU training 1.2 to 1.6 times as fast.

    Affects the whole process, so only commands call it, not the library. Does nothing except on Linux.
    """
    if not sys.platform.startswith("linux"):
        return
    library = ctypes.CDLL(None)
    if hasattr(library, "gnu_get_libc_version"):
        library.mallopt(_MMAP_MAX, 0)
        library.mallopt(_TRIM_THRESHOLD, 2**31 - 1)
        library.mallopt(_TOP_PAD, 64 << 20)

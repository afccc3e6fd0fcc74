"""Exchange two folders in one step, where the system can."""

import ctypes
import errno
import os
import sys
from pathlib import Path

_AT_CURRENT_FOLDER = -100  # AT_FDCWD
_EXCHANGE = 2  # RENAME_EXCHANGE
# Not known to the kernel, to the file system, or not allowed in a container.
_CANNOT = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM}


def exchange(one: Path, other: Path) -> bool:
    """Exchange the names of two existing folders in one step; false, with nothing changed, if that is impossible."""
    if sys.platform != "linux":
        return False
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:  # an older C library
        return False
    if call(_AT_CURRENT_FOLDER, os.fsencode(one), _AT_CURRENT_FOLDER, os.fsencode(other), _EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _CANNOT:
        return False
    raise OSError(code, os.strerror(code), str(other))

"""A limit on the size of a network that a file describes, checked while it is created."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.nn.modules.module import register_module_module_registration_hook

from miv.errors import MIVError

MOST_MODULES = 10_000
"""Maximum number of modules of a network; a transformer has about 20 per layer."""


@contextmanager
def counting_modules(what: str) -> Iterator[None]:
    """Raise an error in this block once a network has more than ``MOST_MODULES`` parts.

    On the meta device, tensors of any size cost nothing, but a hundred thousand layers take minutes. Every
    architecture names its number of layers differently, so the layers themselves are counted.
    """
    thread, count = threading.get_ident(), 0

    def one_more(*_: Any) -> None:
        nonlocal count
        if threading.get_ident() != thread:  # the hook sees the modules of all threads
            return
        count += 1
        if count > MOST_MODULES:
            raise MIVError(
                f"{what} describes a network with more than {MOST_MODULES:,} parts. The file is probably damaged."
            )

    handle = register_module_module_registration_hook(one_more)
    try:
        yield
    finally:
        handle.remove()

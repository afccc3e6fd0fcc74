"""Training and evaluation mode of a module."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Put a module in evaluation mode; restore the mode of each part when the block ends, even on error.

    >>> network = nn.Sequential(nn.Dropout(), nn.Dropout().eval())
    >>> with evaluating(network):
    ...     [part.training for part in network]
    [False, False]
    >>> [part.training for part in network]
    [True, False]
    """
    learning = [part for part in module.modules() if part.training]
    if not learning:
        yield
        return
    module.eval()
    try:
        yield
    finally:
        for part in learning:
            part.training = True

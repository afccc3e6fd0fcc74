"""The ``miv`` command: a thin layer over the rest of the package."""

from miv.cli import data  # noqa: F401 - its import adds the command
from miv.cli.app import main

__all__ = ["main"]

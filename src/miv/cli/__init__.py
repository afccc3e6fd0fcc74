"""The ``miv`` command: a thin layer over the rest of the package."""

from miv.cli.app import main

__all__ = ["main"]

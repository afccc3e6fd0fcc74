"""The ``miv`` command: a thin layer over the rest of the package."""

from miv.cli import data, demo, evaluate, own_data, poolings, runs, train  # noqa: F401 - their import adds the commands
from miv.cli.app import main

__all__ = ["main"]

"""The ``miv`` command: a thin layer over the rest of the package."""

# Their import adds the commands.
from miv.cli import audit, calibrate, data, demo, evaluate, export, own_data, poolings, report, reproduce, runs, train  # noqa: F401  # noqa: F401
from miv.cli.app import main

__all__ = ["main"]

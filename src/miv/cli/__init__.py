"""The ``miv`` command: a thin layer over the rest of the package."""

# Their import adds the commands.
from miv.cli import (  # noqa: F401
    audit,
    calibrate,
    data,
    demo,
    evaluate,
    export,
    own_data,
    poolings,
    reference,
    report,
    reproduce,
    runs,
    train,
    verify,
)
from miv.cli.app import main

__all__ = ["main"]

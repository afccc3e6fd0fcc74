"""The ``miv`` command: a thin layer over the rest of the package."""

# Importing these modules registers the commands.
from miv.cli import (  # noqa: F401
    calibrate_command,
    check_command,
    data_command,
    demo_command,
    evaluation_commands,
    export_command,
    gallery_command,
    reproduce_command,
    serve_command,
    train_command,
    verify_command,
)
from miv.cli.app import main

__all__ = ["main"]

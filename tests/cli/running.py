"""Run a command in this process."""

from typer.testing import CliRunner

from miv.cli.app import app


def run_command(*arguments: str) -> str:
    """Return what it prints on standard output; an error is raised as it came."""
    done = CliRunner().invoke(app, list(arguments))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout

"""The commit of the code that runs, if it runs from a clone."""

import shutil
import subprocess
from functools import cache
from pathlib import Path

_SECONDS = 30


@cache
def source_commit(package: Path = Path(__file__).parents[1]) -> dict[str, str | bool] | None:
    """The commit of the clone that a package is part of, and whether its files differ from it.

    ``None`` if the package is installed and not part of a clone, or there is no git.
    """
    git = shutil.which("git")
    if git is None:
        return None

    def answer(*arguments: str) -> str | None:
        try:
            done = subprocess.run(  # noqa: S603 - git with fixed arguments
                [git, "-C", str(package), *arguments], capture_output=True, text=True, timeout=_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    # An environment inside the clone of another project is not part of it.
    if answer("ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    commit, changed = answer("rev-parse", "HEAD"), answer("status", "--porcelain", "--", ".")
    return None if commit is None or changed is None else {"commit": commit, "changed": bool(changed)}

"""The cache: features, and sets built by a command, all of which can be recomputed."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """The folder in ``MIV_CACHE_DIR``, or ``miv`` in the user's cache."""
    named = os.environ.get("MIV_CACHE_DIR")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "miv"


def feature_folder(cache: Path | None = None) -> Path:
    """The features folder in a cache, by default ``cache_folder()``; `miv train` writes to it."""
    return (cache or cache_folder()) / "features"

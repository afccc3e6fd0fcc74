"""Where things are kept that can be made again: features, and sets that a command built on its way."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """The folder ``MIV_CACHE_DIR`` names, or ``miv`` in the user's cache."""
    named = os.environ.get("MIV_CACHE_DIR")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "miv"


def feature_folder(cache: Path | None = None) -> Path:
    """The folder of features within a cache, by default within ``cache_folder()``; `miv train` writes them there."""
    return (cache or cache_folder()) / "features"

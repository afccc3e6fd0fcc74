"""Names of local folders or of models on the hub."""

from pathlib import Path
from typing import Any

from huggingface_hub import HfApi
from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError, RevisionNotFoundError


def is_path(name: str) -> bool:
    """Return whether a name can only be a folder: hub names are ``name`` or ``owner/name``.

    >>> is_path("./model"), is_path("/models/a"), is_path("a/b/c"), is_path("facebook/dinov2-small")
    (True, True, True, False)
    """
    path = Path(name)
    if name.startswith((".", "~", "/")) or "\\" in name or path.is_absolute() or len(path.parts) > 2:
        return True
    try:
        return len(path.parts) == 2 and Path(path.parts[0]).is_dir()  # models/nope next to models/resnet
    except OSError:  # too long for a file name
        return False


def folders_near(path: Path) -> str:
    """List the contents of the deepest existing folder of a path, for a message."""
    parent = next((folder for folder in path.parents if folder.is_dir()), Path())
    found = sorted(folder.name for folder in parent.iterdir() if folder.is_dir() and not folder.name.startswith("."))
    return f" {parent} holds: {', '.join(found[:10])}{', …' if len(found) > 10 else ''}." if found else ""


def hub_answers(name: str, options: dict[str, Any] | None = None) -> bool:
    """Query the hub for a model once; without a network, a download would try six times and print a line each time."""
    options = options or {}
    try:
        HfApi(options.get("endpoint"), options.get("token")).model_info(name, revision=options.get("revision"))
    except (HFValidationError, RepositoryNotFoundError, RevisionNotFoundError):
        raise
    except Exception:  # no network, or offline mode; the type depends on the HTTP library
        return False
    return True

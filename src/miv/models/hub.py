"""Verifiers on the model hub, and names that may mean a hub model or a folder."""

from pathlib import Path
from typing import Any

from huggingface_hub import hf_hub_download
from huggingface_hub.errors import (
    EntryNotFoundError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
)

from miv.errors import MIVError
from miv.files.downloads import folders_near, hub_answers


def is_folder(name: str) -> bool:
    """Whether a name is an existing folder."""
    try:
        return bool(name) and Path(name).is_dir()
    except OSError:  # too long for a file name
        return False


def download(name: str, files: tuple[str, ...], **options: Any) -> Path:
    """Fetch files of a verifier on the hub, or from its local cache, and return their folder."""
    path = Path(name)
    if len(path.parts) > 1 and is_folder(path.parts[0]):  # runs/nope next to runs/cap is not a hub name
        raise MIVError(f"There is no folder {name!r}. Expected a run, or the folder of a verifier.{folders_near(path)}")
    try:
        if not options.get("local_files_only"):
            options["local_files_only"] = not hub_answers(name, options)
        paths = [hf_hub_download(name, filename, **options) for filename in files]
    except HFValidationError as error:
        raise MIVError(
            f"There is no folder {name!r}, and it is not the name of a model on the hub (owner/name)."
        ) from error
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise MIVError(
            f"There is no folder {name!r}, and the hub has no such verifier to load: {_reason(error)}."
        ) from error
    return Path(paths[0]).parent


def download_if_there(name: str, file: str, **options: Any) -> None:
    """Fetch an optional file, after the files that ``download`` fetched."""
    try:
        if not options.get("local_files_only"):
            options["local_files_only"] = not hub_answers(name, options)
        hf_hub_download(name, file, **options)
    except EntryNotFoundError:  # the verifier does not have it
        return
    except (HfHubHTTPError, OSError) as error:
        raise MIVError(f"Could not load {file} of {name!r} from the hub: {_reason(error)}. Try again.") from error


def _reason(error: Exception) -> str:
    if isinstance(error, RepositoryNotFoundError):
        return "it does not exist, or it is private"
    if isinstance(error, LocalEntryNotFoundError):
        return "it is not in the local cache, and the hub could not be reached"
    return str(error).strip().split("\n")[0].rstrip(".")

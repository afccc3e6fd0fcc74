"""Downloads that resume where they stopped and must match a size and hash."""

import hashlib
import http.client
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi
from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError, RevisionNotFoundError

from miv.errors import MIVError
from miv.runtime import Progress

_BLOCK = 1 << 16
_ATTEMPTS = 5
_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class RemoteFile:
    """A file at a URL, with its expected size and hash."""

    url: str
    size: int
    sha256: str

    @property
    def name(self) -> str:
        """File name to store it under."""
        return self.url.rsplit("/", 1)[-1]


def fetch(file: RemoteFile, folder: Path, progress: Progress) -> Path:
    """Download a file into ``folder`` and return its path.

    A partial download stays in ``<name>.part`` when the connection breaks or the program stops, and is not
    downloaded again. The file gets its final name only when complete.
    """
    target = folder / file.name
    part = folder / f"{file.name}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if part.exists() and part.stat().st_size > file.size:
            part.unlink()
        _fill(part, file, progress)
        _check_hash(part, file)
        part.replace(target)
    except OSError as error:
        raise MIVError(f"Could not write {part}: {error.strerror or error}.") from error
    return target


def _fill(part: Path, file: RemoteFile, progress: Progress) -> None:
    """Request the missing part until the file is complete or nothing more arrives."""
    problem = ""
    with progress.step(f"Downloading {file.name} (bytes)", total=file.size) as advance:
        have = part.stat().st_size if part.exists() else 0
        advance(have)
        failures = 0
        while have < file.size and failures < _ATTEMPTS:
            try:
                _ask_for_rest(part, have, file)
                problem = "the connection was closed early"
            except urllib.error.HTTPError as error:
                problem = f"the server returned {error.code} {error.reason}"
                if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                    problem = "the server's file is shorter"
                    part.unlink()  # resuming would fail again; the next run starts over
                    have = 0
                    break
            except urllib.error.URLError as error:
                problem = f"there is no connection ({error.reason})"
            except (http.client.HTTPException, ConnectionError, TimeoutError) as error:
                problem = f"the connection broke ({error or type(error).__name__})"
            now = part.stat().st_size if part.exists() else 0
            failures = 0 if now > have else failures + 1
            advance(now - have)
            have = now
    if have != file.size:
        raise MIVError(
            f"Could not download {file.url}: {problem}; got {have:,} of {file.size:,} bytes. "
            f"Try again to resume, or put the file in {part.parent} yourself."
        )


def _ask_for_rest(part: Path, have: int, file: RemoteFile) -> None:
    if not file.url.startswith(("https://", "http://")):
        raise MIVError(f"{file.url} is not a web address.")
    request = urllib.request.Request(file.url, headers={"Range": f"bytes={have}-"} if have else {})  # noqa: S310
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310
        resumed = answer.status == http.HTTPStatus.PARTIAL_CONTENT
        if resumed and not str(answer.headers.get("Content-Range", "")).startswith(f"bytes {have}-"):
            raise http.client.HTTPException("the server sent the wrong part of the file")
        with part.open("ab" if resumed else "wb") as out:
            _copy(answer, out, file.size - (have if resumed else 0))


def _copy(answer: Any, out: Any, missing: int) -> None:
    """Copy at most one byte more than is missing: this detects a file that is too long without storing all of it."""
    missing += 1
    while missing > 0 and (block := answer.read(min(_BLOCK, missing))):
        out.write(block)
        missing -= len(block)


def _check_hash(part: Path, file: RemoteFile) -> None:
    with part.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != file.sha256:
        part.unlink()
        raise MIVError(
            f"{file.url} is not the expected file: its sha256 is {found}, expected {file.sha256}. "
            "It was deleted. Try again, or get the file from elsewhere."
        )


# Names of local folders or of models on the hub.


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

"""The error type of the package, and its messages for unknown names and missing libraries."""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches

_collected: ContextVar[list[str] | None] = ContextVar("collected", default=None)


class MIVError(ValueError):
    """What was given, what was expected, what to do. The command line prints it without a traceback."""


class MIVWarning(UserWarning):
    """Something that works but is probably not intended. The command line prints it on one line."""

    def __init__(self, *words: object) -> None:
        super().__init__(*words)
        collected = _collected.get()
        if collected is not None:
            collected.append(str(self))


def warn(message: str, stacklevel: int = 3) -> None:
    """Warn the user; a library caller can filter these by ``MIVWarning``."""
    warnings.warn(MIVWarning(message), stacklevel=stacklevel)


@contextmanager
def collect_warnings() -> Iterator[list[str]]:
    """Collect our warnings of this block and thread; ``warnings.catch_warnings`` collects those of all threads."""
    collected: list[str] = []
    before = _collected.set(collected)
    try:
        yield collected
    finally:
        _collected.reset(before)


def are_warnings_collected() -> bool:
    """Whether someone collects the warnings of this thread."""
    return _collected.get() is not None


class StoppedByUser(MIVError):  # noqa: N818 - nothing went wrong
    """Ctrl-C (exit code 130) or SIGTERM (143): finished work is saved, and the same command resumes."""

    def __init__(self, message: str = "", exit_code: int = 130) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class MissingLibrary(MIVError):  # noqa: N818 - named after what is wrong
    """A library of an extra is not installed; what was given may be all right."""


def number_of(count: int, thing: str, things: str = "") -> str:
    """A count with its noun: ``1 class``, ``2 classes``."""
    return f"{count:,} {thing if count == 1 else things or thing + 's'}"


def unknown_name(what: str, name: str, known: Iterable[str]) -> MIVError:
    """Return the error for an unknown name, with the nearest known one as a suggestion.

    >>> print(unknown_name("pooling", "cap_vena", ["cap_vema", "gabmil"]))
    There is no pooling 'cap_vena'. Did you mean 'cap_vema'? Known: cap_vema, gabmil.
    """
    names = sorted(known)
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    suggestion = f" Did you mean {near[0]!r}?" if near else ""
    listing = ", ".join(names) if names else "none"
    short = name if len(name) <= 80 else f"{name[:80]}…"
    return MIVError(f"There is no {what} {short!r}.{suggestion} Known: {listing}.")


@contextmanager
def needs_extra(extra: str, purpose: str, library: str) -> Iterator[None]:
    """Import the libraries of an extra in this block; if one is missing, the error says what to install.

    >>> with needs_extra("hf", "Training", "transformers"):
    ...     import a_library_that_is_not_there
    Traceback (most recent call last):
    miv.errors.MissingLibrary: Training needs transformers. Run `pip install 'miv[hf]'`.
    """
    try:
        yield
    except ImportError as error:
        # The library is installed but fails to import: show its own reason.
        reason = "" if isinstance(error, ModuleNotFoundError) else f" ({str(error).strip()})"
        raise MissingLibrary(f"{purpose} needs {library}{reason}. Run `pip install 'miv[{extra}]'`.") from error

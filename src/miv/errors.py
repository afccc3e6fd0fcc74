"""The one error type of the package, and its sentences for a misspelt name and for a library that is missing."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches


class MIVError(ValueError):
    """What was given, what was expected, what to do. The command line prints it without a traceback."""


class MIVWarning(UserWarning):
    """Something that works, and is likely not what was meant. The command line prints it in one line."""


class StoppedByUser(MIVError):  # noqa: N818 - nothing went wrong
    """Ctrl-C: what was done is saved, and the same command goes on."""


def unknown_name(what: str, given: str, known: Iterable[str]) -> MIVError:
    """Return the error for a name that is not among the known ones, with the nearest as a suggestion.

    >>> print(unknown_name("pooling", "cap_vena", ["cap_vema", "gabmil"]))
    There is no pooling 'cap_vena'. Did you mean 'cap_vema'? Known: cap_vema, gabmil.
    """
    names = sorted(known)
    near = get_close_matches(given, names, n=1, cutoff=0.5)
    suggestion = f" Did you mean {near[0]!r}?" if near else ""
    listing = ", ".join(names) if names else "none"
    return MIVError(f"There is no {what} {given!r}.{suggestion} Known: {listing}.")


@contextmanager
def needs_extra(extra: str, purpose: str, library: str) -> Iterator[None]:
    """Import the libraries of an extra in this block: where one is missing, the error says what to install.

    >>> with needs_extra("train", "Training", "Lightning"):
    ...     import a_library_that_is_not_there
    Traceback (most recent call last):
    miv.errors.MIVError: Training needs Lightning. Run `pip install 'miv[train]'`.
    """
    try:
        yield
    except ImportError as error:
        # A library that is there and cannot be imported has a reason of its own.
        reason = "" if isinstance(error, ModuleNotFoundError) else f" ({str(error).strip()})"
        raise MIVError(f"{purpose} needs {library}{reason}. Run `pip install 'miv[{extra}]'`.") from error

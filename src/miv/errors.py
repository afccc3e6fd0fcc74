"""The one error type of the package, and the suggestion that comes with a misspelt name."""

from collections.abc import Iterable
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

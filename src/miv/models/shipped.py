"""Verifiers included in the package, with names that begin with ``miv/``."""

from pathlib import Path

from miv.errors import unknown_name

_FOLDER = Path(__file__).parent / "shipped_verifiers"


def shipped_folder(name: str) -> Path | None:
    """The folder of an included verifier, or ``None`` if the name does not begin with ``miv/``.

    >>> shipped_folder("someone/digits") is None
    True
    >>> shipped_folder("miv/digit")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    miv.errors.MIVError: There is no verifier in the package 'miv/digit'. Did you mean 'miv/digits'? Known: ...
    """
    if not name.startswith("miv/"):
        return None
    known = {f"miv/{folder.name}": folder for folder in sorted(_FOLDER.iterdir()) if folder.is_dir()}
    if name not in known:
        raise unknown_name("verifier in the package", name, known)
    return known[name]

"""The names of models in requests, and what their model cards say that they decide."""

from collections.abc import Sequence
from pathlib import Path

from miv.errors import MIVError
from miv.io.card_sections import card_about
from miv.io.model_files import find_verifier
from miv.models.hub import is_folder
from miv.models.shipped import shipped_folder


def served_name(model: str) -> str:
    """The name of a model in requests: never the path of a folder.

    >>> served_name("miv/digits"), served_name("/usr/")
    ('miv/digits', 'usr')
    """
    folder = Path(model)
    return folder.resolve().name if folder.is_dir() else model


def served_names(models: Sequence[str]) -> list[str]:
    """The names of all models in requests; a name that is given twice or not known is an error."""
    named: dict[str, str] = {}
    for model in models:
        if not is_folder(model):
            shipped_folder(model)  # raises for one that the package should have, but has not
        name = served_name(model)
        if name in named:
            raise MIVError(f"Two models have the name {name}: {named[name]} and {model}. Rename one of the folders.")
        named[name] = model
    return list(named)


def about_model(model: str) -> str | None:
    """What a model decides, if it is in a folder with a card that says so."""
    folder = Path(model) if is_folder(model) else shipped_folder(model)
    return None if folder is None else card_about(find_verifier(folder))

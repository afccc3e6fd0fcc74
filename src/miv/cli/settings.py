"""Training settings as flags: one flag per field of the dataclass, with its help."""

import inspect
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from miv.runtime import argument_lines, as_sentence
from miv.training.config import TrainingConfig, parse_setting


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Add one flag per training setting to a command that takes ``settings`` as its last argument.

    ``settings`` contains only the flags that are given.
    """
    types = get_type_hints(TrainingConfig)
    helps = argument_lines(TrainingConfig.__doc__ or "")
    own = [one for one in inspect.signature(command).parameters.values() if one.name != "settings"]
    parameters, names = own, [one.name for one in own]
    for one in fields(TrainingConfig):
        flag = typer.Option(
            help=as_sentence(helps[one.name], get_args(types[one.name])),
            show_default=False,
            rich_help_panel="Training settings (override the preset and the file)",
        )
        annotation: Any = Annotated[_flag_type(types[one.name]) | None, flag]
        parameters = [
            *parameters,
            inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=None),
        ]

    def run(**given: Any) -> None:
        settings = {name: value for name, value in given.items() if name not in names and value is not None}
        settings = {n: parse_setting(n, v) if isinstance(v, str) else v for n, v in settings.items()}
        command(**{name: given[name] for name in names}, settings=settings)

    run.__doc__ = command.__doc__
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def _flag_type(wanted: Any) -> Any:
    """The type Typer uses to parse a flag; the settings check ``Literal`` values themselves."""
    if get_origin(wanted) is Literal:
        return str
    parts = [part for part in get_args(wanted) if part is not type(None)]
    plain = (str, int, float, bool, Path)
    return wanted if wanted in plain else parts[0] if len(parts) == 1 and parts[0] in plain else str

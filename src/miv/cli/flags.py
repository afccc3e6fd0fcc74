"""The options of dataclasses as flags of commands: training settings, and the builders of exemplar sets."""

import dataclasses
import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer

from miv.registry import Option, as_sentence


def keyword(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    """A keyword-only parameter of a command."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def with_parameters(command: Callable[..., Any], parameters: Iterable[inspect.Parameter]) -> Callable[..., Any]:
    """Give a function the signature from which Typer makes arguments and flags."""
    parameters = list(parameters)
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command


def parameter_of(option: Option) -> inspect.Parameter:
    """A flag, or an argument for an option without a default."""
    words = as_sentence(option.help, option.choices)
    if option.default is dataclasses.MISSING:
        return keyword(option.name, Annotated[option.type, typer.Argument(help=words, show_default=False)])
    shown: Any = option.shown or option.default is not None
    flag = typer.Option(*option.flags, help=words, min=option.least, show_default=shown)
    return keyword(option.name, Annotated[_flag_type(option.type), flag], option.default)


def setting_of(option: Option, panel: str) -> inspect.Parameter:
    """A flag that is None if it is not given; the settings check the values of a Literal themselves."""
    flag = typer.Option(help=as_sentence(option.help, get_args(option.type)), show_default=False, rich_help_panel=panel)
    kind = str if get_origin(option.type) is Literal else _flag_type(option.type)
    return keyword(option.name, Annotated[kind | None, flag], None)


def _flag_type(given: Any) -> Any:
    """The type Typer uses to parse a flag: the option's own, or a text that the option parses."""
    if get_origin(given) in (Union, UnionType):
        parts = [part for part in get_args(given) if part is not type(None)]
        return (_flag_type(parts[0]) if len(parts) == 1 else str) | None
    return given if given in (str, int, float, bool, Path) or get_origin(given) is Literal else str

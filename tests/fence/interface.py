"""What ``miv`` shows to users, as plain lists; ``python -m tests.fence.interface`` adds what is new to the snapshot."""

import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import typer
from PIL import Image

import miv
from miv.cli import main
from miv.service import ServiceSettings, create_app

SNAPSHOT = Path(__file__).with_name("interface.json")
GOLDEN = Path(__file__).with_name("golden")
OLD_RUN = str(Path(__file__).parents[1] / "golden" / "run_0_1" / "run")
Lines = dict[str, list[str]]

# In a folder with a copy of the specimens, in this order: the last one writes into the run.
JSON_COMMANDS = {
    "audit": ["audit", "run", "exemplars"],
    "data inspect": ["data", "inspect", "exemplars"],
    "evaluate": ["evaluate", "run", "exemplars"],
    "gallery info": ["gallery", "info", "gallery"],
    "gallery search": ["gallery", "search", "gallery", "--query", "vector.npy"],
    "poolings": ["poolings"],
    "baselines": ["baselines", "exemplars"],
    "runs compare": ["runs", "compare", "run", OLD_RUN],
    "runs list": ["runs", "list", "."],
    "verify": ["verify", "miv/digits", "--query", "query.png", "--bag", "bag"],
    "calibrate": ["calibrate", "run", "exemplars", "--overwrite", "--epsilon", "0.1"],
}


def run_miv(*arguments: str) -> tuple[int, str, str]:
    """Run a command in this process; return its exit code, standard output and standard error."""
    output, error = io.StringIO(), io.StringIO()
    code: Any = 0
    called = mock.patch.object(sys, "argv", ["miv", *arguments])
    with called, contextlib.redirect_stdout(output), contextlib.redirect_stderr(error):
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    return int(code or 0), output.getvalue(), error.getvalue()


def commands() -> Lines:
    """Every command with its options and arguments; ``--out=`` takes a value, ``<2...>`` is one or more arguments."""
    with mock.patch.object(typer.Typer, "__call__", autospec=True) as started:
        main()
    root = typer.main.get_command(started.call_args.args[0])
    return dict(_commands(root, "miv"))


def _commands(command: Any, name: str) -> Iterator[tuple[str, list[str]]]:
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    places = [_place(number, argument) for number, argument in enumerate(arguments, 1)]
    yield name, sorted([*places, *(spelling for option in options for spelling in _spellings(option))])
    if hasattr(command, "list_commands"):
        context = command.make_context(name, [], resilient_parsing=True)
        for inner in command.list_commands(context):
            yield from _commands(command.get_command(context, inner), f"{name} {inner}")


def _place(number: int, argument: Any) -> str:
    place = f"<{number}{'...' * (argument.nargs != 1)}>"
    return place if argument.required else f"[{place}]"


def _spellings(option: Any) -> list[str]:
    value = "" if option.is_flag or option.count else "="
    required = " (required)" if option.required else ""
    return [f"{spelling}{value}{required}" for spelling in [*option.opts, *option.secondary_opts]]


def json_outputs() -> Lines:
    """The keys of what commands print with ``--json``."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        shutil.copytree(GOLDEN, folder, dirs_exist_ok=True)
        query, *bag = np.load("digits.npy")
        Path("bag").mkdir()
        for number, image in enumerate(bag):
            Image.fromarray(image).save(f"bag/{number}.png")
        Image.fromarray(query).save("query.png")
        np.save("vector.npy", np.eye(6, dtype=np.float32)[0])
        with mock.patch.dict(os.environ, MIV_CACHE_DIR="cache"):
            return {name: _json_keys(arguments) for name, arguments in JSON_COMMANDS.items()}


def _json_keys(arguments: list[str]) -> list[str]:
    code, output, error = run_miv(*arguments, "--json")
    assert code == 0, error
    return sorted(key_paths(json.loads(output)))


def key_paths(document: Any) -> set[str]:
    """``{"a": [{"b": 1}]}`` has the paths ``a`` and ``a[].b``."""
    if isinstance(document, list):
        return {f"[]{_joined(path)}" for item in document for path in key_paths(item)}
    if not isinstance(document, dict):
        return set()
    return set(document) | {key + _joined(path) for key, value in document.items() for path in key_paths(value)}


def _joined(path: str) -> str:
    return path if path.startswith("[]") else f".{path}"


def service() -> Lines:
    """Every operation of the service: its parameters, the fields of its body, its status codes and answer's fields."""
    with tempfile.TemporaryDirectory() as folder:
        settings = ServiceSettings(("miv/digits",), galleries=Path(folder))
        document = create_app(settings).openapi()
    return {
        f"{method.upper()} {path}": sorted(set(_operation(operation, document)))
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def _operation(operation: dict[str, Any], document: dict[str, Any]) -> Iterator[str]:
    for parameter in operation.get("parameters", []):
        yield f"{parameter['in']} {parameter['name']}"
    yield from operation["responses"]
    answers = {name: part for name, part in operation["responses"].items() if name.startswith("2")}
    for name, part in {"request": operation.get("requestBody", {}), **answers}.items():
        for content in part.get("content", {}).values():
            yield from (f"{name} {path}" for path in _fields(content.get("schema", {}), document))


def _fields(schema: dict[str, Any], document: dict[str, Any], inside: tuple[str, ...] = ()) -> Iterator[str]:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        if name not in inside:
            yield from _fields(document["components"]["schemas"][name], document, (*inside, name))
    for choice in [*schema.get("anyOf", []), *schema.get("oneOf", []), *schema.get("allOf", [])]:
        yield from _fields(choice, document, inside)
    for path in _fields(schema["items"], document, inside) if "items" in schema else ():
        yield f"[]{_joined(path)}"
    for name, value in schema.get("properties", {}).items():
        yield name
        yield from (name + _joined(path) for path in _fields(value, document, inside))


OBSERVED = {
    "commands": commands,
    "json": json_outputs,
    "names": lambda: {"miv": sorted(miv.__all__)},
    "service": service,
}


def add_new() -> None:
    """Add what is new to the snapshot, and keep all that was there."""
    snapshot = json.loads(SNAPSHOT.read_text()) if SNAPSHOT.exists() else {}
    for part, observe in OBSERVED.items():
        lines = snapshot.setdefault(part, {})
        for name, observed in observe().items():
            lines[name] = sorted({*lines.get(name, []), *observed})
    SNAPSHOT.write_text(json.dumps(snapshot, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    add_new()

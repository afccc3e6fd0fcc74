"""What ``miv --help`` and the ``--help`` of a command show first; ``--help-all`` shows every option."""

import sys
from typing import Any

from typer.core import TyperGroup

HEADINGS = {
    "Start": ("demo", "verify", "check"),
    "Data": ("data", "audio"),
    "Train": ("train", "baselines", "calibrate", "evaluate", "report", "runs"),
    "Use": ("score", "gallery", "serve", "mcp", "export"),
    "Research": ("reproduce", "audit", "poolings"),
}
# The options of long commands that most people need. All others work as well, and stand in --help-all.
USUAL = {
    "calibrate": ("far", "frr", "confidence", "split", "overwrite", "json"),
    "data build": ("raw", "exemplars", "validation_file", "page_field", "round", "seed", "out", "overwrite"),
    "data from-folder": ("size", "exemplars", "bag_mean", "witness_rate", "seed", "out", "overwrite"),
    "data from-table": ("instances", "kind", "size", "query_column", "bag_column", "label_column", "out", "overwrite"),
    "reproduce": ("tier", "list_all", "rounds", "models", "raw", "results", "report_only", "out", "json"),
    "score": ("out", "instances", "overwrite", "json"),
    "serve": ("host", "port", "token_file", "workers", "galleries", "pictures"),
    "train": (
        *("out", "backbone", "pooling", "recipe", "recipes", "without", "start_from", "preset", "config", "raw"),
        *("resume", "baselines", "seed", "json"),
    ),
    "verify": ("query", "bag", "backbone", "html", "bags", "instances", "out", "overwrite", "witnesses", "json"),
}
ALL = "--help-all"


def shortened(path: str, command: Any) -> Any:
    """The command with its unusual options hidden, unless all are asked for; ``path`` as in ``data build``."""
    usual = USUAL.get(path)
    if usual is None or ALL in sys.argv:
        return command
    rare = [one for one in command.params if one.param_type_name == "option" and one.name not in usual]
    for option in rare:
        option.hidden = True
    if rare:
        command.epilog = f"{len(rare)} more options: {ALL}"
    return command


class Commands(TyperGroup):
    """``miv`` with its commands under headings, and ``--import MODULE`` wherever it stands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        modules: list[str] = []
        rest: list[str] = []
        words = iter(args)
        for word in words:
            if word == "--import":
                modules += [word, *(value for value in [next(words, None)] if value is not None)]
            else:
                (modules if word.startswith("--import=") else rest).append(word)
        return super().parse_args(ctx, [*modules, *rest])

    def list_commands(self, ctx: Any) -> list[str]:
        known = [name for names in HEADINGS.values() for name in names if name in self.commands]
        return [*known, *(name for name in self.commands if name not in known)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command: Any = super().get_command(ctx, cmd_name)
        if command is not None:
            command.rich_help_panel = next((name for name, some in HEADINGS.items() if cmd_name in some), None)
            shortened(cmd_name, command)
        return command

"""``miv data from-folder`` and ``miv data from-table``: build exemplars from your own files."""

from typing import Any

from typer.core import TyperGroup

from miv.cli.set_building import building_command

_HELP = {
    "from-folder": """
    Draw exemplars from one folder per class: ROOT/<class>/ with images, .txt texts or .npy features.

    Each query gets one bag with its class (label 1) and one without (label 0).
    Splits share no class. If ROOT contains train, validation and test folders, these are the splits.

    Example: miv data from-folder photos --out exemplars --size 64x64 --bag-mean 8 --witness-rate 0.25
    """,
    "from-table": """
    Read exemplars from a table, one per row: query, bag, label, and optionally witnesses, split, group.

    An instance is an image path (relative to the table), a text, or a vector.
    In CSV, write a bag as a JSON list or separate its members with |.

    Example: miv data from-table claims.csv --out exemplars --query-column claim --bag-column sentences
    """,
}


class DataGroup(TyperGroup):
    """``miv data`` with commands that are created when asked for, so that ``miv --help`` does not import their room."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands."""
        return [*super().list_commands(ctx), *_HELP]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name."""
        if cmd_name not in _HELP:
            return super().get_command(ctx, cmd_name)
        from miv.data.sources import FromFolder, FromTable
        from miv.runtime import from_options, options_of_class

        source: Any = {"from-folder": FromFolder, "from-table": FromTable}[cmd_name]
        options = options_of_class(source).values()
        return building_command(cmd_name, _HELP[cmd_name], options, lambda **given: from_options(source, given))

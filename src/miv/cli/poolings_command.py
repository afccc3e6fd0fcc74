"""``miv poolings``: the table of models."""

import sys
from typing import Any

from miv.cli.app import JsonOption, app, print_json

CHANNELS = 512  # of ResNet-18, the paper's backbone for QMNIST


@app.command()
def poolings(json: JsonOption = False) -> None:
    """List the models: those of the paper, and the plain answer `nearest`.

    For each its section in the paper, the parameters for 512 channels, whether it has attention to show witnesses with,
    and the options it takes; --json adds their defaults.
    """
    rows = pooling_rows()
    if json:
        print_json(rows)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("pooling", "section", "parameters", "attention", "options"):
        table.add_column(heading, justify="right" if heading == "parameters" else "left", no_wrap=True)
    for row in rows:
        options = ", ".join(row["options"])
        attention = "yes" if row["has_attention"] else "no"
        table.add_row(row["name"], row["section"], f"{row['parameters']:,}", attention, options)
    Console(width=120 if not sys.stdout.isatty() else None).print(table)


def pooling_rows() -> list[dict[str, Any]]:
    """One row a registered pooling, with the parameters counted on a model that takes no memory."""
    import torch

    from miv.poolings import POOLINGS

    rows: list[dict[str, Any]] = []
    for entry in POOLINGS:
        with torch.device("meta"):
            parameters = sum(p.numel() for p in entry.make(CHANNELS).parameters())
        rows.append(
            {
                "name": entry.name,
                "section": entry.section,
                "parameters": parameters,
                "has_attention": entry.make.has_attention,
                "options": {k: p.default for k, p in entry.options.items() if k != "channels"},
                "summary": entry.summary,
            }
        )
    return rows

"""``miv poolings``: the table of models."""

from typing import Any

from miv.cli.app import JsonOption, app, print_json
from miv.runtime import aligned_table

CHANNELS = 512  # of ResNet-18, the paper's backbone for QMNIST


@app.command()
def poolings(json: JsonOption = False) -> None:
    """List the models: those of the paper, and the plain method `nearest`.

    Shows the section in the paper, the number of parameters for 512 channels, whether the model has attention,
    and its options; --json adds their defaults.
    """
    rows = pooling_rows()
    if json:
        print_json(rows)
        return
    shown = []
    for row in rows:
        attention = "yes" if row["has_attention"] else "no"
        shown.append([row["name"], row["section"], f"{row['parameters']:,}", attention, ", ".join(row["options"])])
    print(aligned_table(["pooling", "section", "parameters", "attention", "options"], shown, left=(0, 1, 3, 4)))


def pooling_rows() -> list[dict[str, Any]]:
    """One row per registered pooling, with parameters counted on the meta device."""
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

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
    import torch

    from miv.poolings import POOLINGS

    rows: list[dict[str, Any]] = []
    for entry in POOLINGS:
        with torch.device("meta"):
            parameters = sum(weight.numel() for weight in entry.make(CHANNELS).parameters() if weight.requires_grad)
        options = {name: option.default for name, option in entry.options.items() if name != "channels"}
        row: dict[str, Any] = {"name": entry.name, "section": entry.section, "parameters": parameters}
        row |= {"has_attention": entry.make.has_attention, "options": options, "summary": entry.summary}
        rows.append(row)
    if json:
        print_json(rows)
        return
    table = []
    for row in rows:
        attention = "yes" if row["has_attention"] else "no"
        table.append([row["name"], row["section"], f"{row['parameters']:,}", attention, ", ".join(row["options"])])
    print(aligned_table(["pooling", "section", "parameters", "attention", "options"], table, left=(0, 1, 3, 4)))

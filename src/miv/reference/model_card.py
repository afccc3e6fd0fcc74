"""The figures of a run on the model card of its verifier: README.md, which the hub shows."""

from collections.abc import Mapping
from pathlib import Path

from miv.calibration.point_card import BEGIN as POINT_BEGIN
from miv.calibration.point_card import END as POINT_END
from miv.calibration.point_card import check_point_card
from miv.decisions.operating_point import OPERATING_POINT_NAME
from miv.evaluation import Evaluation
from miv.evaluation.evaluation_text import TITLES
from miv.io.card_sections import check_section, write_section
from miv.reference.beside import figures_of, rows_beside
from miv.reference.plain_figures import COLUMNS, Reference
from miv.reference.reference_table import marked
from miv.reference.scoring import METHODS

BEGIN, END = "<!-- figures of miv train -->", "<!-- end of figures -->"


def check_card(folder: Path) -> None:
    """Raise an error if the figures could not be written to the card of a verifier that a run will train further."""
    check_section(folder, BEGIN, END)
    check_point_card(folder)


def write_card(folder: Path, pooling: str, evaluations: Mapping[str, Evaluation], plain: Reference | None) -> None:
    """Write the figures to the card of a verifier, replacing those of an earlier call.

    Args:
        folder: folder of the verifier; the rest of its README.md is unchanged.
        pooling: name of the verifier in the tables.
        evaluations: evaluations of the verifier, by split.
        plain: the reference on the same features, if scored.
    """
    write_section(folder, BEGIN, END, card_text(pooling, evaluations, plain))
    if not (folder / OPERATING_POINT_NAME).exists():  # that of earlier weights, which saving the new ones removed
        write_section(folder, POINT_BEGIN, POINT_END, "")


def card_text(pooling: str, evaluations: Mapping[str, Evaluation], plain: Reference | None) -> str:
    """The figures in Markdown: one table per split, the reference below the verifier."""
    parts = ["## Figures"]
    for split, evaluation in evaluations.items():
        rows = {} if plain is None else plain.splits.get(split, {})
        cells = marked(rows_beside(pooling, figures_of(evaluation), rows))
        table = [["", *(TITLES[column] for column in COLUMNS)], ["---"] * (len(COLUMNS) + 1)]
        table += [[name, *(cell.strip() for cell in row)] for name, row in cells.items()]
        lines = ["| " + " | ".join(row) + " |" for row in table]
        parts.append(
            f"On {split}: {evaluation.exemplars:,} exemplars, {evaluation.positives:,} positive.\n\n" + "\n".join(lines)
        )
    if plain is not None:
        known = dict.fromkeys(name for rows in plain.splits.values() for name in rows)
        told = [f"- `{name}`: {METHODS.get(name, 'a plain method')}" for name in known]
        parts.append("The rows below the verifier are plain methods on the same data. `*` marks the best of a column.")
        parts.append("\n".join(told))
    return "\n\n".join(parts)

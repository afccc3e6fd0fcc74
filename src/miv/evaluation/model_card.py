"""The figures of a run on the model card of its verifier: README.md, which the hub shows."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from miv.evaluation import Evaluation
from miv.evaluation.baselines import CHOSEN_ON, COLUMNS, Baselines, Figures, marked
from miv.evaluation.calibration import BEGIN as POINT_BEGIN, END as POINT_END, check_point_card
from miv.evaluation.evaluation import TITLES
from miv.evaluation.plain_methods import METHODS
from miv.evaluation.runs import RunFolder, recipe_rows
from miv.files.json import check_section, write_section
from miv.verifier.decisions import OperatingPoint

MARGIN = 0.01  # of AUROC: smaller differences are ignored
COSINES = ("nearest", "centred")  # plain methods that are recipes too


def rows_beside(name: str, evaluation: Evaluation, plain: Mapping[str, Figures]) -> dict[str, Figures]:
    """The verifier's row, followed by those of the plain methods."""
    measured = evaluation.document()  # without NaN
    witnesses = measured["witnesses"] or {}
    own = Figures(measured["classification"]["auroc"], witnesses.get("i_auroc"), witnesses.get("i_ap"))
    return {f"verifier ({name})": own, **plain}


def advice(evaluations: Mapping[str, Evaluation], plain: Baselines, run: RunFolder) -> str:
    """The advice for a verifier more than ``MARGIN`` below the baselines; empty otherwise.

    The plain method is chosen on validation, and both are compared there and on test, if there is one.
    """
    best = plain.best or ""
    for split in [split for split in ("test", CHOSEN_ON) if best and split in evaluations and split in plain.splits]:
        theirs, own = plain.splits[split][best].auroc, evaluations[split].metrics["auroc"]
        if theirs is not None and round(theirs - own, 9) > MARGIN:
            remedy = f"`--recipe {best}` makes such a verifier. " if best in COSINES else ""
            is_vectors = run.read_config().get("backbone") == "features"
            other = "other vectors" if is_vectors else "another backbone (--backbone)"
            return (
                f"The verifier is below the baselines: its AUROC on {split} is {own:.3f}, and {theirs:.3f} is that of "
                f"`{best}`, the best plain method on {CHOSEN_ON}.\n"
                f"What to do: {remedy}More exemplars or {other} may lift both.\n"
            )
    return ""


BEGIN, END = "<!-- figures of miv train -->", "<!-- end of figures -->"


def check_card(folder: Path) -> None:
    """Raise an error if the figures could not be written to the card of a verifier that a run will train further."""
    check_section(folder, BEGIN, END)
    check_point_card(folder)


def write_card(
    folder: Path,
    pooling: str,
    evaluations: Mapping[str, Evaluation],
    plain: Baselines | None,
    recipes: dict[str, Any] | None = None,
) -> None:
    """Write the figures to the card of a verifier, replacing those of an earlier call."""
    write_section(folder, BEGIN, END, card_text(pooling, evaluations, plain, recipes))
    if OperatingPoint.load(folder).is_default:  # the calibration was that of earlier weights
        write_section(folder, POINT_BEGIN, POINT_END, "")


def card_text(
    pooling: str, evaluations: Mapping[str, Evaluation], plain: Baselines | None, recipes: dict[str, Any] | None = None
) -> str:
    """The figures in Markdown: one table per split, the baselines below the verifier."""
    parts = ["## Figures"]
    for split, evaluation in evaluations.items():
        cells = marked(rows_beside(pooling, evaluation, {} if plain is None else plain.splits.get(split, {})))
        headings = ["", *(TITLES[column] for column in COLUMNS)]
        table = _markdown(headings, [[name, *row] for name, row in cells.items()])
        parts.append(f"On {split}: {evaluation.exemplars:,} exemplars, {evaluation.positives:,} positive.\n\n{table}")
    if plain is not None:
        known = dict.fromkeys(name for rows in plain.splits.values() for name in rows)
        told = [f"- `{name}`: {METHODS.get(name, 'a plain method')}" for name in known]
        parts.append("The rows below the verifier are plain methods on the same data. `*` marks the best of a column.")
        parts.append("\n".join(told))
    if recipes and recipes["rows"]:
        headings, compared, note = recipe_rows(recipes)
        parts += ["## Recipes compared in training", _markdown(headings, compared), note]
    return "\n\n".join(parts)


def _markdown(headings: list[str], rows: list[list[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(cell.strip() for cell in line) + " |" for line in lines)

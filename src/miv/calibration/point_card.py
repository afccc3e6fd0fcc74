"""The operating point on the model card of a verifier: README.md, which the hub shows."""

from pathlib import Path

from miv.decisions.operating_point import OperatingPoint
from miv.evaluation.clusters import cluster_words
from miv.io.card_sections import check_section, write_section

BEGIN, END = "<!-- operating point of miv calibrate -->", "<!-- end of operating point -->"


def check_point_card(folder: Path) -> None:
    """Raise an error if the operating point could not be written to the card."""
    check_section(folder, BEGIN, END)


def write_point_card(folder: Path, point: OperatingPoint) -> None:
    """Write the operating point to the card of a verifier, replacing that of an earlier call."""
    write_section(folder, BEGIN, END, point_card_text(point))


def point_card_text(point: OperatingPoint) -> str:
    """The goal, the thresholds and the errors on validation data, in Markdown."""
    m = point.measured
    rows = [("goal", point.goal), ("verdict yes from a probability of", f"{point.threshold:.4f}")]
    if point.lower_threshold is not None:
        unsure = m["unsure"]
        rows += [
            ("no below", f"{point.lower_threshold:.4f}"),
            (
                "unsure between them",
                f"{unsure['value']:.1%} of exemplars: {unsure['of_positives']:.1%} of positives, "
                f"{unsure['of_negatives']:.1%} of negatives",
            ),
        ]
    rows.append(("scaling", str(point.scaling.document()["name"])))
    for title, name in (("false accepts", "false_accept_rate"), ("false rejects", "false_reject_rate")):
        rate = m[name]
        rows.append(
            (title, f"{rate['value']:.4f}, at most {rate['at_most']:.4f} with {m['confidence']:.0%} confidence")
        )
    by, count = m["clusters"]["by"], m["clusters"]["count"]
    where = f" of {count:,} {cluster_words(by)}" if by is not None else ", counted as independent"
    rows.append(("measured on", f"{m['exemplars']:,} exemplars{where}, {m['positives']:,} positive"))
    table = "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows)])
    return "\n\n".join(["## Operating point", table, *m["notes"]])

"""From a table of exemplars to a table of verdicts."""

import csv
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from miv.data import csr
from miv.data.kinds import KINDS
from miv.errors import MIVError
from miv.files.atomic import refuse_existing, whole_file
from miv.files.images import Fit
from miv.files.tables import SEPARATOR, read_records, require_parquet
from miv.runtime import Advance, Progress
from miv.verifier.network import Verifier
from miv.verifier.reading import ErrorLocations
from miv.verifier.table_reading import REQUIRED, ExemplarRow, Survey, exemplar_rows, grouped, instances_by_id
from miv.verifier.verdict import Verdicts, WitnessMethod, witness_places
from miv.verifier.verifying import BatchVerifier

# Write a table part by part, as Parquet or as CSV that is safe to open in a spreadsheet.

_OUTPUTS = (".parquet", ".csv")
# Text that a spreadsheet would run as a formula; a plain number is not a formula.
# Spreadsheets skip blanks at the start, and read the full-width signs of East Asian keyboards as the plain ones.
_FORMULA = re.compile(r"[\t\r]|\s*([=@＝＠]|[+＋－-](?!\d+(\.\d+)?$))")

ColumnType = Literal["int64", "float64", "bool", "string", "list<int64>"]
Schema = dict[str, ColumnType]
"""The columns of a table in order, with the type of their cells; any cell except a list may be empty."""

Write = Callable[[dict[str, Any]], None]


def check_output(path: Path, *, overwrite: bool) -> None:
    """Raise an error before the work starts if the name is invalid or data would be lost."""
    if path.suffix.lower() not in _OUTPUTS:
        raise MIVError(f"The output {path} ends in {path.suffix!r}. Expected {' or '.join(_OUTPUTS)}.")
    if path.suffix.lower() == ".parquet":
        require_parquet()
    refuse_existing(path, overwrite=overwrite)


@contextmanager
def table_writer(path: Path, schema: Schema, notes: Callable[[], dict[str, str]] | None = None) -> Iterator[Write]:
    """Yield a function that writes the columns of one part. The file appears only if the block succeeds.

    ``notes`` gives what a Parquet file says about itself; it is called after the last part.

    In CSV the entries of a list are separated by ``|``, and a text that a spreadsheet would run as a formula (it begins
    with ``=``, ``+``, ``-``, ``@``, a tab or a return) is prefixed with ``'``. Parquet keeps every text unchanged.
    """
    with whole_file(path) as temporary:
        if path.suffix.lower() == ".parquet":
            with _parquet_writer(temporary, schema, notes) as write_part:
                yield write_part
            return
        with temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(schema)

            def write(columns: dict[str, Any]) -> None:
                cells = (
                    [None if cell is None else _CSV_CELLS[kind](cell) for cell in columns[name]]
                    for name, kind in schema.items()
                )
                writer.writerows(zip(*cells, strict=True))

            yield write


@contextmanager
def _parquet_writer(path: Path, schema: Schema, notes: Callable[[], dict[str, str]] | None) -> Iterator[Write]:
    from miv.files.parquet import pa, pq  # CSV does not need it

    types = {"list<int64>": pa.list_(pa.int64())}
    fields = pa.schema([(name, types.get(kind) or pa.type_for_alias(kind)) for name, kind in schema.items()])

    def write(columns: dict[str, Any]) -> None:
        arrays = {field.name: pa.array(columns[field.name], field.type) for field in fields}
        writer.write_table(pa.table(arrays, fields))

    with pq.ParquetWriter(path, fields) as writer:
        yield write
        if notes is not None:
            writer.add_key_value_metadata(notes())


def _safe_text(text: str) -> str:
    return f"'{text}" if _FORMULA.match(text) else text


# NumPy formats numbers differently from Python.
_CSV_CELLS: dict[ColumnType, Callable[[Any], Any]] = {
    "int64": int,
    "float64": float,
    "bool": bool,
    "string": _safe_text,
    "list<int64>": lambda cell: SEPARATOR.join(str(int(entry)) for entry in cell),
}


# Instances read before they are verified and written: 150 MB of images at 224 × 224 in colour, 13 MB of 384 numbers.
_TOGETHER, _VECTORS_TOGETHER = 1024, 8192


@dataclass
class VerdictTally:
    """Counts of verdicts: exemplars, accepted ones, accepted ones without a witness, and unsure ones."""

    exemplars: int = 0
    yes: int = 0
    yes_without_witness: int = 0
    unsure: int = 0

    def add(self, verdicts: Verdicts) -> None:
        """Count some verdicts."""
        self.exemplars += len(verdicts)
        self.yes += int(verdicts.verdict.sum())
        self.unsure += int((verdicts.decision == "unsure").sum())
        if verdicts.witness is not None:
            self.yes_without_witness += int((verdicts.verdict & ~csr.bag_any(verdicts.witness, verdicts.ptr)).sum())


@dataclass
class Scored(VerdictTally):
    """Summary of a verified table."""

    threshold: float = 0.5
    lower_threshold: float | None = None
    witnesses_by: WitnessMethod = "none"
    calibrated: bool = True

    @classmethod
    def of(cls, tallies: Iterable[VerdictTally], verifying: BatchVerifier) -> "Scored":
        """The summary of a table, from the counts of its parts."""
        point = verifying.verifier.operating_point
        scored = cls(0, 0, 0, 0, point.threshold, point.lower_threshold, verifying.by, not point.is_default)
        for tally in tallies:
            for name, count in vars(tally).items():
                setattr(scored, name, getattr(scored, name) + count)
        return scored


def score_table(
    verifier: Verifier,
    table: Path,
    out: Path,
    *,
    instances: Path | None = None,
    resize: Fit | None = None,
    witnesses: WitnessMethod | None = None,
    progress: Progress,
) -> Scored:
    """Verify every row of a table and write the verdicts as they are ready. The file appears only when complete.

    The table has ``query`` or ``references``, and ``bag``, as for ``miv data from-table``; labels are optional. With a
    table of ``instances``, which have an ``id``, queries and bags contain ids.
    """
    kind = verifier.backbone.kind
    known = None if instances is None else instances_by_id(instances, kind)
    survey = Survey()
    with progress.step("Reading exemplars") as advance:
        for place, record in read_records(table, REQUIRED):
            survey.add(place, record)
            advance(1)
    if not survey.count:
        raise MIVError(f"{table}: no rows. Expected one row per exemplar.")
    scoring = RowScoring(BatchVerifier(verifier, resize, witnesses), survey.copied)
    rows = exemplar_rows(read_records(table, REQUIRED), table.parent, known, kind, survey.copied)
    writer, step = table_writer(out, scoring.schema), progress.step("Verifying", total=survey.count)
    with writer as write, step as advance:
        scoring.score(rows, 0, write, advance)
    return Scored.of([scoring.tally], scoring.verifying)


# The columns after the query: their type, and their cells of some verdicts.
_COLUMNS: dict[str, tuple[ColumnType, Callable[[Verdicts], Any]]] = {
    "verdict": ("bool", lambda verdicts: verdicts.verdict),
    "decision": ("string", lambda verdicts: verdicts.decision.astype(object)),
    "probability": ("float64", lambda verdicts: verdicts.probability),
    "threshold": ("float64", lambda verdicts: np.full(len(verdicts), verdicts.threshold)),
    "lower_threshold": ("float64", lambda verdicts: np.full(len(verdicts), verdicts.lower_threshold)),
    "bag_size": ("int64", lambda verdicts: np.diff(verdicts.ptr)),
    "witnesses": ("list<int64>", lambda verdicts: witness_places(verdicts.witness, verdicts.shares, verdicts.ptr)),
    "witnesses_by": ("string", lambda verdicts: [verdicts.witnesses_by] * len(verdicts)),
    "warnings": ("string", lambda verdicts: [" ".join(verdict.warnings) or None for verdict in verdicts]),
    "reason": ("string", lambda verdicts: [verdict.reason for verdict in verdicts]),
    "unlike_query": ("bool", lambda verdicts: [verdict.query_is_unlike for verdict in verdicts]),
    "unlike": (
        "list<int64>",
        lambda verdicts: [verdict.unlike.places if verdict.unlike else [] for verdict in verdicts],
    ),
}


class RowScoring:
    """Verifies rows of a table of exemplars and writes their verdicts."""

    def __init__(self, verifying: BatchVerifier, copied: list[str]) -> None:
        self.verifying, self.copied, self.tally = verifying, copied, VerdictTally()
        verifier = verifying.verifier
        self._together = _VECTORS_TOGETHER if KINDS[verifier.backbone.kind].is_vector else _TOGETHER
        self._columns = dict(_COLUMNS)
        if verifier.operating_point.lower_threshold is None:
            del self._columns["lower_threshold"]
        self.schema: Schema = {"exemplar": "int64", "query": "string", **dict.fromkeys(copied, "string")}
        self.schema |= {name: kind for name, (kind, _) in self._columns.items()}

    def score(self, rows: Iterable[ExemplarRow], first: int, write: Write, advance: Advance) -> None:
        """Verify the rows and write the columns of ``schema``; ``first`` is the number of the first exemplar."""
        for group in grouped(rows, self._together):
            queries, bags = [row.asked for row in group], [[member.instance for member in row.bag] for row in group]
            verdicts = self.verifying.verify(queries, bags, ErrorLocations([row.place for row in group]))
            start = first + self.tally.exemplars
            columns = {name: cells(verdicts) for name, (_, cells) in self._columns.items()}
            columns |= {name: [row.copied[name] for row in group] for name in self.copied}
            columns["query"] = [SEPARATOR.join(reference.name for reference in row.query) for row in group]
            write({"exemplar": np.arange(start, start + len(group)), **columns})
            self.tally.add(verdicts)
            advance(len(group))

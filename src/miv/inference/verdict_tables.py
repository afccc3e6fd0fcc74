"""Read a table of exemplars and write a table of verdicts: one row per exemplar, or one row per instance."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from miv.data import csr
from miv.errors import MIVError
from miv.files.images import Fit
from miv.files.tables import SEPARATOR, read_records
from miv.inference.exemplar_rows import REQUIRED, ExemplarRow, Survey, exemplar_rows, grouped, instances_by_id
from miv.inference.given_instances import GivenPlaces
from miv.inference.table_writing import Schema, Write, table_writer
from miv.inference.unlike_columns import unlike_columns, unlike_schema
from miv.inference.verdict import Asked, Verdicts
from miv.inference.verifying import Verifying
from miv.inference.witness_places import witness_places
from miv.runtime import Advance, Progress

if TYPE_CHECKING:
    from miv.models.verifier import Verifier

# Instances read before they are verified and written: 150 MB of images at 224 × 224 in colour, 13 MB of 384 numbers.
_TOGETHER, _VECTORS_TOGETHER = 1024, 8192


@dataclass(frozen=True)
class Scored:
    """Summary of a verified table.

    Args:
        exemplars: number of rows.
        yes: number of accepted exemplars.
        yes_without_witness: number of accepted exemplars without a witness.
        threshold: the lowest probability that is accepted.
        witnesses_by: how witnesses were chosen.
        odd_label: the first label that is neither 0 nor 1, and its place; it is copied unchanged.
        unsure: number of exemplars between two thresholds, or unlike the training data.
        lower_threshold: the lowest probability that is not rejected; ``None`` if the verifier has one threshold.
    """

    exemplars: int
    yes: int
    yes_without_witness: int
    threshold: float
    witnesses_by: Asked
    odd_label: str | None
    unsure: int = 0
    lower_threshold: float | None = None


def score_table(
    verifier: "Verifier",
    table: Path,
    out: Path,
    *,
    instances: Path | None = None,
    by_instance: bool = False,
    resize: Fit | None = None,
    witnesses: Asked | None = None,
    progress: Progress,
) -> Scored:
    """Verify every row of a table and write the verdicts as they are ready. The file appears only when complete.

    Args:
        verifier: the verifier.
        table: CSV, JSON lines or Parquet with ``query`` or ``references``, and ``bag``, as for ``miv data from-table``;
            labels are optional.
        out: the .parquet or .csv file to write; see ``miv.inference.table_writing``.
        instances: a second table of instances with an ``id`` column; queries and bags then contain ids.
        by_instance: write one row per instance instead of one per exemplar.
        resize: as for ``Verifier.verify``.
        witnesses: as for ``Verifier.verify``.
        progress: reports the progress of reading and verifying.
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
    scoring = RowScoring(Verifying(verifier, resize, witnesses), survey.kept, by_instance)
    rows = exemplar_rows(read_records(table, REQUIRED), table.parent, known, kind, verifier.query_kind, survey.kept)
    writer, step = table_writer(out, scoring.schema), progress.step("Verifying", total=survey.count)
    with writer as write, step as advance:
        scoring.score(rows, 0, write, advance)
    return scoring.tally.scored(verifier, scoring.verifying.by, survey.odd_label)


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

    def scored(self, verifier: "Verifier", by: Asked, odd_label: str | None) -> Scored:
        """The summary of a table with these counts."""
        point = verifier.operating_point
        counts = (self.exemplars, self.yes, self.yes_without_witness)
        return Scored(*counts, point.threshold, by, odd_label, self.unsure, point.lower_threshold)


class RowScoring:
    """Verifies rows of a table of exemplars and writes their verdicts.

    Args:
        verifying: verifies them; it embeds each distinct instance once.
        kept: columns of the table to copy.
        by_instance: write one row per instance instead of one per exemplar.
    """

    def __init__(self, verifying: Verifying, kept: list[str], by_instance: bool) -> None:
        self.verifying, self.kept, self.by_instance = verifying, kept, by_instance
        self.tally = VerdictTally()
        verifier = verifying.verifier
        self._together = _VECTORS_TOGETHER if verifier.backbone.kind == "features" else _TOGETHER
        self.schema = _schema(kept, by_instance, two_thresholds=verifier.operating_point.lower_threshold is not None)
        self.schema |= unlike_schema(by_instance) if verifier.unlike is not None else {}

    def score(self, rows: Iterable[ExemplarRow], first: int, write: Write, advance: Advance) -> None:
        """Verify the rows and write the columns of ``schema``; ``first`` is the number of the first exemplar."""
        for group in grouped(rows, self._together):
            given = [row.asked for row in group], [[one.instance for one in row.bag] for row in group]
            verdicts = self.verifying.verify(*given, GivenPlaces([row.place for row in group]))
            number = first + self.tally.exemplars
            columns = _columns(group, verdicts, number, self.kept, self.by_instance)
            write(columns | unlike_columns(verdicts, self.by_instance))
            self.tally.add(verdicts)
            advance(len(group))


def _schema(kept: list[str], by_instance: bool, *, two_thresholds: bool) -> Schema:
    schema: Schema = {"exemplar": "int64", "query": "string"}
    schema |= dict.fromkeys(kept, "string")
    schema |= {"verdict": "bool", "decision": "string", "probability": "float64"}
    if by_instance:
        schema |= {"place": "int64", "instance": "string", "attention": "float64", "share": "float64"}
        return schema | {"score": "float64", "witnesses_by": "string", "witness": "bool"}
    schema |= {"threshold": "float64"}
    schema |= {"lower_threshold": "float64"} if two_thresholds else {}
    return schema | {"bag_size": "int64", "witnesses": "list<int64>", "witnesses_by": "string"}


def _columns(
    rows: list[ExemplarRow], verdicts: Verdicts, first: int, kept: list[str], by_instance: bool
) -> dict[str, Any]:
    """The output columns of one part, given the number of its first exemplar."""
    exemplars, sizes = len(verdicts), np.diff(verdicts.ptr)
    found: dict[str, Any] = {
        "exemplar": np.arange(first, first + exemplars),
        "query": np.array([SEPARATOR.join(one.name for one in row.query) for row in rows], object),
        **{name: np.array([row.kept[name] for row in rows], object) for name in kept},
        "verdict": verdicts.verdict,
        "decision": verdicts.decision.astype(object),
        "probability": verdicts.probability,
    }
    if not by_instance:
        found["threshold"] = np.full(exemplars, verdicts.threshold)
        if verdicts.lower_threshold is not None:
            found["lower_threshold"] = np.full(exemplars, verdicts.lower_threshold)
        found["bag_size"] = sizes
        found["witnesses"] = witness_places(verdicts.witness, verdicts.shares, verdicts.ptr)
        return {**found, "witnesses_by": [verdicts.witnesses_by] * exemplars}
    targets = int(verdicts.ptr[-1])
    nothing = [None] * targets
    return {
        **{name: csr.to_rows(column, verdicts.ptr) for name, column in found.items()},
        "place": csr.places(verdicts.ptr),
        "instance": [one.name for row in rows for one in row.bag],
        "attention": nothing if verdicts.attention is None else verdicts.attention,
        "share": nothing if verdicts.shares is None else verdicts.shares,
        "score": nothing if verdicts.scores is None else verdicts.scores,
        "witnesses_by": [verdicts.witnesses_by] * targets,
        "witness": nothing if verdicts.witness is None else verdicts.witness,
    }

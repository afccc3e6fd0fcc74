"""Columns of a table of verdicts about instances unlike the training data."""

from typing import Any

from miv.inference.table_writing import Schema
from miv.inference.verdict import Verdicts


def unlike_schema(by_instance: bool) -> Schema:
    """Names and types of the columns, with one row per instance or one per exemplar."""
    if by_instance:
        return {"unlike": "bool"}
    return {"reason": "string", "unlike_query": "bool", "unlike": "list<int64>"}


def unlike_columns(verdicts: Verdicts, by_instance: bool) -> dict[str, Any]:
    """The columns of one part of a table; none if the verifier has no limit."""
    if verdicts.unlike is None:
        return {}
    if by_instance:
        return {"unlike": verdicts.unlike.bag}
    each = [verdicts.unlike.one(exemplar) for exemplar in range(len(verdicts))]
    return {
        "reason": [verdict.reason for verdict in verdicts],
        "unlike_query": verdicts.unlike.query,
        "unlike": [one.places for one in each],
    }

"""Verdicts for what stands in files: a query and a bag by their names, or a whole table of exemplars."""

from miv.scoring.named import Named, named_bag, named_query
from miv.scoring.tables import ScoredTable, check_output, score_table

__all__ = ["Named", "ScoredTable", "check_output", "named_bag", "named_query", "score_table"]

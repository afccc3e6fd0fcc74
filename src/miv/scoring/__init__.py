"""Verdicts for what stands in files: a query and a bag by their names, or a whole table of exemplars."""

from miv.scoring.named import Named, named_bag, named_query
from miv.scoring.tables import Scored, score_table
from miv.scoring.writing import check_output

__all__ = ["Named", "Scored", "check_output", "named_bag", "named_query", "score_table"]

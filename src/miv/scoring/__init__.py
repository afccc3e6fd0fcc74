"""Score a table of exemplars of any size, and pool one giant bag, in this process or on a Ray cluster."""

from miv.scoring.ray import pool_giant
from miv.scoring.run import ScoreRun, score

__all__ = ["ScoreRun", "pool_giant", "score"]

"""Work spread over processes and machines: score a table of exemplars of any size, and pool one giant bag."""

from miv.distributed.giant_bag import pool_giant
from miv.distributed.scoring_run import ScoreRun, score

__all__ = ["ScoreRun", "pool_giant", "score"]

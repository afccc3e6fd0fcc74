"""Score a table of exemplars of any size, in one process or in several that share it."""

from miv.scoring.run import ScoreRun, score

__all__ = ["ScoreRun", "score"]

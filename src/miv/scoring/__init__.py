"""Score a table of exemplars of any size, by one command or by several that share it."""

from miv.scoring.run import ScoreRun, score

__all__ = ["ScoreRun", "score"]

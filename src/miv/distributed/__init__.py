"""Work spread over processes and machines: score a table of exemplars of any size, and pool one giant bag."""

from miv.distributed.scoring_run import score

__all__ = ["score"]

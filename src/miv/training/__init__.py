"""From exemplars to a verifier: settings, stages, runs, and the baselines to compare with."""

from typing import TYPE_CHECKING

from miv.registry import lazy_exports

if TYPE_CHECKING:
    from miv.training.baselines import METHODS as METHODS
    from miv.training.baselines import score_baselines as score_baselines
    from miv.training.config import TrainingConfig as TrainingConfig
    from miv.training.train import TrainingRun as TrainingRun

_HOMES = {
    "METHODS": "miv.training.baselines",
    "TrainingConfig": "miv.training.config",
    "TrainingRun": "miv.training.train",
    "score_baselines": "miv.training.baselines",
}
__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_exports(__name__, _HOMES)

"""From exemplars to a verifier: recipes and their selection, settings, stages and runs."""

from typing import TYPE_CHECKING

from miv.registry import lazy_exports

if TYPE_CHECKING:
    from miv.training.config import TrainingConfig as TrainingConfig
    from miv.training.recipes import RECIPES as RECIPES, Recipe as Recipe
    from miv.training.train import TrainingRun as TrainingRun

_HOMES = {
    "RECIPES": "miv.training.recipes",
    "Recipe": "miv.training.recipes",
    "TrainingConfig": "miv.training.config",
    "TrainingRun": "miv.training.train",
}
__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_exports(__name__, _HOMES)

"""A stage that teaches a linear map of the features of a frozen backbone to tell a query's bag from other bags."""

from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim import Optimizer

from miv.data import ExemplarSet
from miv.data.batches import Batch
from miv.evaluation import Predictions
from miv.evaluation.influence import auroc_error
from miv.poolings.similar import AlignedNorm
from miv.training.contrast import ContrastModule, contrast_losses
from miv.training.optimisers import create_optimiser
from miv.training.stage_module import SplitFeatures, independent
from miv.training.stage_state import EpochMetrics

CLEAR_AUROC = "validation_clear_auroc"
_ERRORS = 1.0  # standard errors; a map that gains less may cost witnesses, which nothing here can see
_TOGETHER = 8_192  # instances


class AlignModule(ContrastModule):
    """Trains the map of the pooling's norm by the contrast loss; the epoch by which the nearest answers best is kept.

    The map starts as the identity, and another is kept only where it is better by more than a standard error: less is
    paid for with witnesses, whose ranks get worse before the verdicts do.
    """

    @property
    def norm(self) -> AlignedNorm:
        return cast(AlignedNorm, self.verifier.pooling.norm)  # the settings allow the stage with no other

    def configure_optimizers(self) -> Optimizer:
        learning = [weight for weight in self.verifier.parameters() if weight.requires_grad]
        for weight in learning:
            weight.requires_grad_(False)
        self.norm.map.requires_grad_(True)
        optimiser = create_optimiser(self.config, self.verifier, independent(self.sets["train"]))
        for weight in learning:  # none of them is in the optimiser
            weight.requires_grad_(True)
        return optimiser

    def on_train_end(self) -> None:
        self.norm.map.requires_grad_(False)

    def figures(self, answers: Predictions) -> EpochMetrics:
        """Also the AUROC less a margin of chance: what a map must have above the start's to be kept."""
        row = super().figures(answers)
        if self.state.start_logit is None:
            self.state.start_logit = answers.logit.tolist()
        error = auroc_error(answers.label, answers.logit, np.array(self.state.start_logit))
        return row | {CLEAR_AUROC: row["validation_auroc"] - _ERRORS * error}

    def losses(self, batch: Batch) -> Tensor:
        aligned = batch.with_instances(self.norm.direction(batch.instances))
        return contrast_losses(aligned, self.config.contrast_temperature)

    @torch.no_grad()
    def directions(self, exemplars: ExemplarSet) -> NDArray[np.float32]:
        known = cast(SplitFeatures, self.features)["validation"]  # the backbone is frozen, so there are features
        found = np.zeros(known.shape, np.float32)
        for rows in np.array_split(exemplars.used, -(-len(exemplars.used) // _TOGETHER)):
            features = torch.from_numpy(np.array(known[rows])).to(self.norm.map)
            found[rows] = self.norm.direction(features).float().cpu().numpy()
        return found

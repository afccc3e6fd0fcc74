"""A stage that trains a linear map of frozen backbone features to tell a query's bag from other bags."""

from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from miv.data import ExemplarSet
from miv.data.batches import Batch
from miv.poolings.similar import AlignedNorm
from miv.runtime.processes import ProcessShare
from miv.training.contrast import ContrastModule, contrast_losses
from miv.training.stage_module import SplitFeatures

_TOGETHER = 8_192  # instances


class AlignModule(ContrastModule):
    """Trains the map of the pooling's norm with the contrast loss; keeps the epoch with the best nearest target.

    The map starts as the fitted one and is replaced only if another is better by more than a standard error: smaller
    gains cost witnesses, because their ranks get worse before the verdicts do.
    """

    @property
    def norm(self) -> AlignedNorm:
        return cast(AlignedNorm, self.verifier.pooling.norm)  # the settings allow this stage only with an AlignedNorm

    def share(self) -> ProcessShare:
        """All of every batch. Each process computes the same step, which is short: the backbone is not run."""
        return ProcessShare()

    def setup(self, stage: str) -> None:
        """Let only the map learn. Not later: the processes agree next on the weights whose gradients they sum."""
        self._resting = [weight for weight in self.verifier.parameters() if weight.requires_grad]
        for weight in self._resting:
            weight.requires_grad_(False)
        self.norm.map.requires_grad_(True)

    def on_train_end(self) -> None:
        self.norm.map.requires_grad_(False)
        for weight in self._resting:
            weight.requires_grad_(True)

    def losses(self, batch: Batch) -> Tensor:
        aligned = batch.with_instances(self.norm.direction(batch.instances))
        return contrast_losses(aligned, self.config.contrast_temperature)

    @torch.no_grad()
    def directions(self, exemplars: ExemplarSet) -> NDArray[np.float32]:
        known = cast(SplitFeatures, self.features)["validation"]  # the backbone is frozen, so there are features
        found = np.zeros((len(known), self.norm.channels), np.float32)
        for rows in np.array_split(exemplars.used, -(-len(exemplars.used) // _TOGETHER)):
            features = torch.from_numpy(np.array(known[rows, : self.norm.channels])).to(self.norm.map)
            found[rows] = self.norm.direction(features).float().cpu().numpy()
        return found

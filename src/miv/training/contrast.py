"""A first stage that trains the backbone to tell a query's bag from other bags, with bag labels only."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from miv.backbones.feature_cache import embed_instances
from miv.bags import Bags
from miv.data import ExemplarSet
from miv.data.batches import Batch
from miv.evaluation import Predictions
from miv.evaluation.cosines import cosines
from miv.training.sampling import Batches, draw_positives
from miv.training.stage_module import StageModule


def contrast_losses(batch: Batch, temperature: float) -> Tensor:
    r"""How well each query ``(B,)`` finds its own bag among all targets of the batch (MIL-NCE, Miech et al. 2020).

    .. math:: \ell_b = -\log \frac{\sum_{n \in b} \exp\{\cos(q_b, t_n) / \tau\}}{\sum_n \exp\{\cos(q_b, t_n) / \tau\}}

    All exemplars of the batch are positive: at least one target in a query's bag is of its class, and the
    quotient rises most easily through it. A target in several bags counts once. Several references of a query ask
    with their mean direction.

    Args:
        batch: exemplars over features ``(U, C)``.
        temperature: :math:`\tau`.
    """
    directions = functional.normalize(batch.instances, dim=1)  # (U, C)
    query, _ = batch.with_instances(directions).queries_and_bags()
    if isinstance(query, Bags):  # several references ask with their mean direction
        query = functional.normalize(query.mean(query.values), dim=1)
    similarity = query @ directions.T / temperature  # (B, U)
    owner = torch.repeat_interleave(torch.arange(len(batch), device=batch.ptr.device), batch.ptr.diff())  # (T,)
    own = torch.zeros_like(similarity, dtype=torch.bool).index_put((owner, batch.bag), torch.tensor(True))  # (B, U)
    in_no_bag = ~own.any(dim=0)  # (U,), queries
    nothing = torch.finfo(similarity.dtype).min  # not -inf: a row of -inf has NaN gradients
    among_all = similarity.masked_fill(in_no_bag, nothing).logsumexp(dim=1)
    return among_all - similarity.masked_fill(~own, nothing).logsumexp(dim=1)


class ContrastModule(StageModule):
    """Steps over batches of positive exemplars of one group, so that the group does not tell bags apart.

    A query is compared with all bags of its batch, so processes cannot divide a batch.
    """

    def count_drawn(self) -> tuple[int, int]:
        batches = self.draw_batches(np.random.default_rng(0))
        return sum(len(batch) for batch in batches), len(batches)

    def draw_batches(self, random: np.random.Generator) -> Batches:
        return draw_positives(self.sets["train"], self.config.batch_size, random)

    def losses(self, batch: Batch) -> Tensor:
        return contrast_losses(batch, self.config.contrast_temperature)

    def answer(self, exemplars: ExemplarSet) -> Predictions:
        """Predict by the target nearest to the query: yes for the half of the bags with the nearest targets."""
        nearest = cosines(exemplars, self.directions(exemplars)).nearest
        return Predictions.of(exemplars, (nearest - np.median(nearest)) / self.config.contrast_temperature, None)

    def directions(self, exemplars: ExemplarSet) -> NDArray[np.float32]:
        """Features ``(P, C)`` of the pool; their lengths do not matter."""
        return embed_instances(self.verifier.backbone, exemplars.pool, exemplars.used)

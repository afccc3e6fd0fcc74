import math
from abc import abstractmethod

import torch
from torch import Tensor, nn

from miv.bags import Bags
from miv.poolings.cap import CrossAttentionPooling
from miv.poolings.cap_stored import CrossAttentionForm
from miv.poolings.pooling_base import register_pooling
from miv.poolings.stored import StoredForm


class DistancePooling(CrossAttentionPooling):
    r"""CAP with distance-based attention (DBA), equation 11: the nearer a target is to the query, the more it counts.

    .. math:: as(Y, Z) = softmax\Big(\frac{c - \sum_m^D \beta_m d(Y_m, Z_m)}{s}\Big)

    A subclass defines the distance :math:`d` of two channels, and the constants :math:`c` and :math:`s`: mean
    and deviation of the sum for independent standard normal channels, so that scores spread by 1 around 0.
    """

    power: int  # of the absolute difference

    def add_attention_weights(self) -> None:
        self.distance_weight = nn.Parameter(torch.ones(self.channels))  # β

    @abstractmethod
    def constants(self, channels: int) -> tuple[float, float]:
        """``c`` and ``s`` for a head of ``D = channels``."""

    def scores(self, query: Tensor, keys: Bags, targets: Bags) -> Tensor:
        c, s = self.constants(self.head_channels)
        distances = keys.distance(query, keys.values, self.distance_weight, self.power, self.heads)  # (T, h)
        return (c - distances) / s

    def stored_form(self) -> StoredForm:
        return CrossAttentionForm(self, self.distance_weight / self.constants(self.head_channels)[1], self.power)


@register_pooling("cap_dba_l1", section="4.1.2")
class ManhattanPooling(DistancePooling):
    r"""CAP with distance-based attention, :math:`L_1`, as in the paper's equation 11.

    .. math:: d(y, z) = |y - z|, \qquad c = \sqrt{4 / \pi} \, D, \qquad s = \sqrt{(2 - 4 / \pi) \, D}
    """

    power = 1

    def constants(self, channels: int) -> tuple[float, float]:
        return math.sqrt(4 / math.pi) * channels, math.sqrt((2 - 4 / math.pi) * channels)

    stored_form = DistancePooling.stored_form


@register_pooling("cap_dba_l2", section="4.1.2")
class EuclideanPooling(DistancePooling):
    r"""CAP with distance-based attention, squared :math:`L_2`, equation 11 with a squared difference.

    .. math:: d(y, z) = (y - z)^2, \qquad c = 2 D, \qquad s = \sqrt{8 D}
    """

    power = 2

    def constants(self, channels: int) -> tuple[float, float]:
        return 2.0 * channels, math.sqrt(8 * channels)

    stored_form = DistancePooling.stored_form

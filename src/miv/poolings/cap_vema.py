import math

from torch import Tensor

from miv.bags import Bags
from miv.poolings.cap import CrossAttentionPooling
from miv.poolings.cap_stored import CrossAttentionForm
from miv.poolings.layers import Excitation
from miv.poolings.pooling_base import register_pooling
from miv.poolings.stored import StoredForm


@register_pooling("cap_vema", section="4.1.2")
class VarianceExcitedPooling(CrossAttentionPooling):
    r"""CAP with variance-excited multiplicative attention (VEMA), the paper's equations 9 and 10.

    .. math::
        as(Y, Z) &= softmax\Big(\frac{Y diag(\delta) Z^T}{\sqrt{D}}\Big) \\
        \delta &= sigmoid\big[ relu\big((variance(v^{target}) - 1) R\big) S \big]

    Channels in which the instances of a bag differ more separate them better. The variance is the
    population variance over the instances of a bag, before the projection; :math:`\delta` starts at 0.5.
    """

    compares_bag = True

    def add_attention_weights(self) -> None:
        self.delta = Excitation(self.channels)  # R and S

    def scores(self, query: Tensor, keys: Bags, targets: Bags) -> Tensor:
        delta = self.delta(targets.var(targets.values) - 1)  # (B, C)
        return keys.dot(query * delta, keys.values, self.heads) / math.sqrt(self.head_channels)  # (T, h)

    def stored_form(self) -> StoredForm:
        return CrossAttentionForm(self, delta=self.delta)

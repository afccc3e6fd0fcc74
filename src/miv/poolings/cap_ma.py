import math

from torch import Tensor

from miv.bags import Bags
from miv.poolings.cap import CrossAttentionPooling
from miv.poolings.cap_stored import CrossAttentionForm
from miv.poolings.pooling_base import register_pooling
from miv.poolings.stored import StoredForm


@register_pooling("cap_ma", section="6.4")
class MultiplicativePooling(CrossAttentionPooling):
    r"""CAP with the plain multiplicative attention of transformers, for ablation.

    .. math:: as(Y, Z) = softmax\Big(\frac{Y Z^T}{\sqrt{D}}\Big)

    The paper's equation 9 with :math:`\delta = 1`.
    """

    def scores(self, query: Tensor, keys: Bags, targets: Bags) -> Tensor:
        return keys.dot(query, keys.values, self.heads) / math.sqrt(self.head_channels)  # (T, h)

    def stored_form(self) -> StoredForm:
        return CrossAttentionForm(self)

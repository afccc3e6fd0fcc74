import math

from torch import Tensor

from miv.bags import Bags
from miv.poolings.cap import CrossAttentionPooling
from miv.poolings.cap_forms import CrossAttentionForm
from miv.poolings.kept_form import KeptForm
from miv.poolings.pooling_base import register_pooling


@register_pooling("cap_ma", section="6.4")
class MultiplicativePooling(CrossAttentionPooling):
    r"""CAP with the plain multiplicative attention of transformers, for ablation.

    .. math:: as(Y, Z) = softmax\Big(\frac{Y Z^T}{\sqrt{D}}\Big)
    """

    def scores(self, query: Tensor, keys: Bags, targets: Bags) -> Tensor:
        return keys.dot(query, keys.values, self.heads) / math.sqrt(self.head_channels)  # (T, h)

    def kept_form(self) -> KeptForm | None:
        return CrossAttentionForm(self) if self.position is None else None

from torch import Tensor

from miv.bags import Bags
from miv.poolings.pooling_base import Pooling, PoolingOutput, check_flag, register_pooling
from miv.poolings.similar import AlignedNorm, ScaledProduct
from miv.poolings.stored import BestTargetForm, StoredForm

SHARPNESS = 20.0  # of the shares; a cosine that is greater by 0.05 has e times the share


@register_pooling("nearest", section="–")
class NearestPooling(Pooling):
    r"""The target nearest to the query by cosine: a plain answer that learns only its scale, and a centre if asked.

    .. math:: n^* = argmax_n \cos(v^{query}, v^{target}_n), \qquad v^P = v^{target}_{n^*}, \qquad
        a_n \propto \exp\{20 \cos(v^{query}, v^{target}_n)\}

    The logit is the scaled cosine of the nearest target. The attention ranks all targets by their cosine; it does not
    affect the logit. Equally near targets share :math:`v^P`.

    Args:
        channels: ``C``.
        centred: whether training subtracts the mean of the train features, scaled to length 1, before the cosine.
    """

    starts_as_nearest = True
    takes_best = True
    learns = False

    def __init__(self, channels: int, centred: bool = False) -> None:
        super().__init__(channels)
        check_flag("centred", centred)
        self.centred = centred
        self.start_similar()

    def start_similar(self) -> None:
        self.norm = AlignedNorm(self.channels, learned=False)
        self.similarity = ScaledProduct(self.channels, learned=False)

    def forward(self, query: Tensor, bags: Bags) -> PoolingOutput:
        targets = bags.values  # (T, C), of one length
        cosine = (bags.expand(query) * targets).sum(dim=1, keepdim=True) / self.channels  # (T, 1)
        is_nearest = (cosine == bags.expand(bags.max(cosine))).to(targets.dtype)  # (T, 1)
        chosen = is_nearest / bags.expand(bags.sum(is_nearest))  # (T, 1)
        scores = cosine * SHARPNESS  # (T, 1)
        attention = bags.softmax(scores).to(targets.dtype)  # (T, 1)
        return PoolingOutput(query, bags.sum(chosen * targets), attention, None, scores)

    def stored_form(self) -> StoredForm:
        return BestTargetForm(self, by_cosine=True)

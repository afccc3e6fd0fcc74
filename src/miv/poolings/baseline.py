from torch import Tensor

from miv.bags import Bags
from miv.poolings.pooling_base import Pooling, PoolingOutput, register_pooling
from miv.poolings.stored import BestTargetForm, StoredForm


@register_pooling("baseline", section="4.2.1")
class BaselinePooling(Pooling):
    r"""The target most similar to the query represents the bag (section 4.2.1, not numbered).

    .. math:: v^P = 1_{argmax}\big(v^{query} diag(\alpha) (v^{target})^T\big) \, v^{target}

    with the :math:`\alpha` of the similarity, so that the logit is the greatest similarity in the bag. Equal
    maxima share the attention equally. The similarities of all targets are the pooling's score.
    """

    starts_as_nearest = True

    def forward(self, query: Tensor, bags: Bags) -> PoolingOutput:
        targets = bags.values  # (T, C)
        similarity = self.similarity(bags.expand(query), targets)[:, None]  # (T, 1)
        is_maximum = (similarity == bags.expand(bags.max(similarity))).to(targets.dtype)  # (T, 1)
        attention = is_maximum / bags.expand(bags.sum(is_maximum))  # (T, 1)
        return PoolingOutput(query, bags.sum(attention * targets), attention, similarity[:, 0])

    def stored_form(self) -> StoredForm:
        return BestTargetForm(self)

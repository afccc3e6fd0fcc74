from torch import Tensor, nn

from miv.bags import Bags
from miv.poolings.pooling_base import Pooling, PoolingOutput, check_count, register_pooling
from miv.poolings.stored import BagVectorForm, StoredForm


@register_pooling("gabmil", section="4.2.2")
class GatedAttentionPooling(Pooling):
    r"""Gated attention of Ilse et al. (2018).

    .. math:: a_n \propto \exp\{ w^\top (\tanh V x_n \odot \sigma(U x_n)) \}

    The query is not used: a bag has the same attention for every query.
    """

    def __init__(self, channels: int, hidden: int = 128) -> None:
        super().__init__(channels)
        check_count("hidden", hidden)
        self.content = nn.Linear(channels, hidden, bias=False)  # V
        self.gate = nn.Linear(channels, hidden, bias=False)  # U
        self.score = nn.Linear(hidden, 1, bias=False)  # w

    def forward(self, query: Tensor, bags: Bags) -> PoolingOutput:
        targets = bags.values  # (T, C)
        scores = self.score(self.content(targets).tanh() * self.gate(targets).sigmoid())  # (T, 1)
        attention = bags.softmax(scores)  # (T, 1)
        return PoolingOutput(query, bags.sum(attention * targets), attention, None, scores)

    def stored_form(self) -> StoredForm:
        return BagVectorForm(self)

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from miv.bags import Bags
from miv.poolings.pooling_base import Pooling, PoolingOutput, check_count, register_pooling
from miv.poolings.stored import BagVectorForm, StoredForm


@register_pooling("bi_lstm", section="4.2")
class BidirectionalLSTMPooling(Pooling):
    r"""A bidirectional LSTM reads the bag, as in Wang et al. (2020).

    .. math:: v^P = O \, [\overrightarrow{h}_N ; \overleftarrow{h}_1], \qquad v^Q = v^{query}

    The only pooling for which the order of the instances matters: random in training, as given
    otherwise. There is no attention.

    Args:
        channels: ``C``.
        hidden: size of the state of each direction.
    """

    has_attention = False

    def __init__(self, channels: int, hidden: int = 128) -> None:
        super().__init__(channels)
        check_count("hidden", hidden)
        self.lstm = nn.LSTM(channels, hidden, bidirectional=True, batch_first=True)
        self.to_output = nn.Linear(2 * hidden, channels)  # O

    def forward(self, query: Tensor, bags: Bags) -> PoolingOutput:
        if self.training:
            bags = bags.shuffled()
        padded, _ = bags.to_padded()  # (B, N, C)
        if len(bags) == 1:  # nothing is padded, and an exporter cannot follow the packing
            _, (states, _) = self.lstm(padded)  # (2, B, H)
        else:
            packed = pack_padded_sequence(padded, bags.sizes.cpu(), batch_first=True, enforce_sorted=False)
            _, (states, _) = self.lstm(packed)
        return PoolingOutput(query, self.to_output(torch.cat([states[0], states[1]], dim=-1)), None)

    def stored_form(self) -> StoredForm:
        return BagVectorForm(self)

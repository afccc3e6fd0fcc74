import numpy as np
from torch import Tensor, nn

from miv.bags import Bags
from miv.poolings.partial import Floats, PartialBag, RunningSums
from miv.poolings.pooling_base import Pooling, PoolingOutput, check_count, register_pooling
from miv.poolings.stored import BagVectorForm, BagVectorQueries, Rows, StoredForm, as_rows


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
        attention = bags.softmax(self.scores(targets))  # (T, 1)
        return PoolingOutput(query, bags.sum(attention * targets), attention)

    def scores(self, targets: Tensor) -> Tensor:
        """Scores ``(T, 1)`` of targets ``(T, C)``, before the softmax."""
        hidden = self.content(targets).tanh() * self.gate(targets).sigmoid()  # (T, H)
        return self.score(hidden)

    def stored_form(self) -> StoredForm:
        return GatedForm(self)


class GatedForm(BagVectorForm):
    """The bag vector, which a bag in chunks gives too."""

    def rows_of_part(self, features: Rows) -> Rows:
        return as_rows(self.normed(features))

    def partial_bag(
        self, queries: Rows, top: int, variance: Floats | None = None, log_sums: Floats | None = None
    ) -> PartialBag:
        return PartialBag(GatedQueries(self, queries), top, self.pooling.channels)


class GatedQueries(BagVectorQueries):
    """All queries with their one attention, for a bag in chunks."""

    step = 2048

    def __init__(self, form: StoredForm, queries: Rows) -> None:
        super().__init__(form, queries)
        self.count = 1

    def scores(self, rows: Rows) -> tuple[Rows, None]:
        """Scores ``(1, 1, N)`` of normed features ``(N, C)``."""
        return as_rows(self.pooling.scores(self.form.tensor(rows))).reshape(1, 1, -1), None

    def summed(self, weights: Rows, terms: None, rows: Rows) -> Rows:
        """Sum of the normed features, ``(1, 1, C)``."""
        return weights @ rows

    def logits_of(self, sums: RunningSums) -> Floats:
        """Logits ``(R,)`` of one bag."""
        vector = sums.means[0]  # (1, C)
        return np.concatenate([self.similarity.logits(vector, query) for query in range(len(self.query))])

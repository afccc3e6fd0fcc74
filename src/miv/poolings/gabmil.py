import numpy as np
from torch import Tensor, nn

from miv.bags import Bags
from miv.poolings.kept_form import KeptForm, PartialPooling, PooledBag, Rows, as_rows
from miv.poolings.plain_forms import BagVectorForm, QuerySimilarity
from miv.poolings.pooling_base import Pooling, PoolingOutput, check_count, register_pooling
from miv.poolings.running_sums import Floats, RunningSums

_ROWS = 2048  # gated together


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

    def kept_form(self) -> KeptForm:
        return GatedForm(self)


class GatedForm(BagVectorForm[GatedAttentionPooling]):
    """The bag vector, which a bag in chunks gives too."""

    def partial_pooling(
        self, queries: Rows, top: int, variance: Floats | None = None, log_sums: Floats | None = None
    ) -> PartialPooling:
        return PartialGated(self, queries, top)


class PartialGated(PartialPooling):
    """GABMIL: one attention for all queries, and one sum of the targets.

    Args:
        form: the kept form.
        queries: features ``(R, C)``.
        top: number of targets to name.
    """

    of_pooling = ("form", "query")

    def __init__(self, form: GatedForm, queries: Rows, top: int) -> None:
        super().__init__(1, 1, top)
        self.form, self.count = form, len(queries)
        self.query = form.normed(queries)
        self.sums = RunningSums((1, 1))
        self.vector: Floats = np.zeros(form.pooling.channels)

    def rows(self, features: Rows) -> Rows:
        return as_rows(self.form.normed(features))

    def update(self, rows: Rows, first: int) -> None:
        for start in range(0, len(rows), _ROWS):
            part = rows[start : start + _ROWS]
            scores = as_rows(self.form.pooling.scores(self.form.tensor(part))).reshape(1, 1, -1)  # (1, 1, N)
            self.lead(scores, first + start)
            weights, factor = self.sums.weights(scores)
            self.vector = self.vector * factor[0, 0] + weights[0, 0] @ part

    def merge(self, other: PartialPooling) -> None:
        assert isinstance(other, PartialGated)  # noqa: S101 - of one pass
        here, there = self.sums.merge(other.sums)
        self.vector = self.vector * here[0, 0] + other.vector * there[0, 0]
        self.merge_leading(other)

    def finish(self) -> PooledBag:
        similarity = QuerySimilarity(self.form.pooling, self.query)
        vector = (self.vector / self.sums.total[0, 0]).astype(np.float32)[None]
        logit = np.concatenate([similarity.logits(vector, query) for query in range(self.count)])
        places, shares = self.leading[0].shares(self.sums.log_sums[:, 0])
        return PooledBag(logit.astype(np.float64), [places] * self.count, [shares] * self.count)

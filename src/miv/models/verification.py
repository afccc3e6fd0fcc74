"""A verifier's output for a batch of tensors."""

from dataclasses import dataclass

from torch import Tensor

from miv.errors import MIVError


@dataclass(frozen=True)
class Verification:
    """The output for ``B`` exemplars with ``T`` targets in total.

    Args:
        logit: ``(B,)``; 0 or more means that the bag holds something of the query's class.
        probability: ``(B,)``, the sigmoid of the logit, regardless of the operating point; a ``Verdict`` has the
            calibrated probability.
        attention: ``(T,)``, the mean over heads, sums to 1 in each bag; ``None`` if the pooling has no attention.
        attention_by_head: ``(T, h)``, or ``None``.
        score: ``(T,)``, what the pooling chooses targets by, if its attention keeps only the choice; else ``None``.
        query_vector: ``(B, C)``, the query as the pooling compares it.
        bag_vector: ``(B, C)``, the bag as the pooling compares it.
        ptr: ``(B + 1,)``, the borders between the bags.
    """

    logit: Tensor
    probability: Tensor
    attention: Tensor | None
    attention_by_head: Tensor | None
    query_vector: Tensor
    bag_vector: Tensor
    ptr: Tensor
    score: Tensor | None = None

    def __len__(self) -> int:
        return len(self.logit)

    def attention_of(self, exemplar: int) -> Tensor:
        """The attention ``(N,)`` of each target of one exemplar."""
        if self.attention is None:
            raise MIVError("This pooling has no attention. `miv poolings` lists the poolings that do.")
        if not 0 <= exemplar < len(self):
            raise MIVError(f"There is no exemplar {exemplar}. Expected 0 to {len(self) - 1}.")
        return self.attention[int(self.ptr[exemplar]) : int(self.ptr[exemplar + 1])]

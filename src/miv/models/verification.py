"""What a verifier answers to a batch of tensors."""

from dataclasses import dataclass

from torch import Tensor

from miv.errors import MIVError


@dataclass(frozen=True)
class Verification:
    """The answers for ``B`` exemplars with ``T`` targets in all.

    Args:
        logit: ``(B,)``; from 0 on the bag is taken to hold something of the query's class.
        probability: ``(B,)``, the sigmoid of the logit, whatever the operating point; a ``Verdict`` has the
            calibrated one.
        attention: ``(T,)``, the mean over heads, of sum 1 in each bag; ``None`` where the pooling has none.
        attention_by_head: ``(T, h)``, or ``None``.
        query_vector: ``(B, C)``, the query's side of the twins.
        bag_vector: ``(B, C)``, the bag's side.
        ptr: ``(B + 1,)``, the borders between the bags.
    """

    logit: Tensor
    probability: Tensor
    attention: Tensor | None
    attention_by_head: Tensor | None
    query_vector: Tensor
    bag_vector: Tensor
    ptr: Tensor

    def __len__(self) -> int:
        return len(self.logit)

    def attention_of(self, exemplar: int) -> Tensor:
        """``(N,)`` how much of one exemplar's attention each of its targets gets."""
        if self.attention is None:
            raise MIVError("This pooling has no attention. `miv poolings` lists those that have.")
        if not 0 <= exemplar < len(self):
            raise MIVError(f"There is no exemplar {exemplar}. Expected 0 to {len(self) - 1}.")
        return self.attention[int(self.ptr[exemplar]) : int(self.ptr[exemplar + 1])]

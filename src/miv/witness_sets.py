"""Which instances are the witnesses? A rule that decides, whatever the size of the bag."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miv.errors import MivError

# Half as much attention again as an even share: see docs/operating-point.md for what it finds.
STATED_FACTOR = 1.5


@dataclass(frozen=True)
class WitnessRule:
    r"""An instance of an accepted bag of :math:`N` is a witness where :math:`a_n N \ge \min(factor, N)`.

    :math:`a_n N` is 1 where the attention is even, in bags of every size; no instance can have more than
    :math:`N`, hence the minimum. A bag that is not accepted has no witness; an accepted one may have none either.

    Args:
        factor: how many times an even share of the attention a witness has at least.
        basis: ``stated`` where the factor is a rule of thumb, ``conformal`` where it was calibrated on witnesses.
        epsilon: the share of witnesses that may be outside, where it was calibrated.

    >>> rule = WitnessRule(factor=1.5)
    >>> rule.witnesses([True, False], attention=[0.6, 0.3, 0.1, 1.0], ptr=[0, 3, 4]).tolist()
    [True, False, False, False]
    """

    factor: float = STATED_FACTOR
    basis: str = "stated"
    epsilon: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.factor, int | float) or not math.isfinite(self.factor) or self.factor < 0:
            raise MivError(f"The factor of the witness rule is {self.factor!r}. Expected a number from 0.")

    def witnesses(self, accepted: ArrayLike, attention: ArrayLike, ptr: ArrayLike) -> NDArray[np.bool_]:
        """Decide for every instance.

        Args:
            accepted: ``(B,)`` bool, whether the verdict on each bag is yes.
            attention: ``(T,)``, of sum 1 in each bag.
            ptr: ``(B + 1,)``, the borders between the bags.

        Returns:
            ``(T,)`` bool.
        """
        sizes = np.diff(np.asarray(ptr))  # (B,)
        needed = np.minimum(self.factor, sizes) / sizes  # (B,)
        enough = np.asarray(attention, np.float64) >= np.repeat(needed, sizes)
        return np.asarray(enough & np.repeat(np.asarray(accepted, bool), sizes))

    def document(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)

    @classmethod
    def of(cls, document: object) -> "WitnessRule":
        """Return the rule that ``document`` described; refuse anything else."""
        try:
            return cls(**document)  # type: ignore[arg-type]
        except TypeError as error:
            raise MivError(f"The witness rule is {str(document)[:80]}: {error}.") from error

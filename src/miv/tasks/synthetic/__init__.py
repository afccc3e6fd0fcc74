"""The twins: each task of the paper with synthetic data, generated on demand."""

from miv.tasks.synthetic.synthetic_claims import SyntheticClaims
from miv.tasks.synthetic.synthetic_digits import SyntheticDigits
from miv.tasks.synthetic.synthetic_signatures import SyntheticSignatures

__all__ = ["SyntheticClaims", "SyntheticDigits", "SyntheticSignatures"]

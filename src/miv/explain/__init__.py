"""Which instances caused the verdict? Scores for every pooling, also without attention."""

from miv.explain.explain import (
    METHODS,
    Scorer,
    as_shares,
    attention_rollout,
    check_method,
    contributions,
    explain_features,
)
from miv.explain.subsets import EmptyBag

__all__ = [
    "METHODS",
    "EmptyBag",
    "Scorer",
    "as_shares",
    "attention_rollout",
    "check_method",
    "contributions",
    "explain_features",
]

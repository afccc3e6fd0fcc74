"""Which instances made the verdict? Scores for every pooling, also those without attention."""

from miv.explain.explain import METHODS, check_method, explain, explain_features
from miv.explain.rollout import attention_rollout
from miv.explain.shares import as_shares, witness_shares

__all__ = [
    "METHODS",
    "as_shares",
    "attention_rollout",
    "check_method",
    "explain",
    "explain_features",
    "witness_shares",
]

"""Which instances caused the verdict? Scores for every pooling, also without attention."""

from miv.explain.contribution import contributions
from miv.explain.explain import METHODS, Scorer, check_method, explain_features
from miv.explain.rollout import attention_rollout
from miv.explain.shares import as_shares

__all__ = [
    "METHODS",
    "Scorer",
    "as_shares",
    "attention_rollout",
    "check_method",
    "contributions",
    "explain_features",
]

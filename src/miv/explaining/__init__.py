"""Which instances made the verdict? Scores for every pooling, also those without attention."""

from miv.explaining.explain import METHODS, explain, explain_features
from miv.explaining.rollout import attention_rollout

__all__ = ["METHODS", "attention_rollout", "explain", "explain_features"]

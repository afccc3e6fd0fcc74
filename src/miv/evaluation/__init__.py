"""Metrics as plain functions over arrays, the report on a set of predictions, and its curves."""

from miv.evaluation.classification import auroc, classification_metrics
from miv.evaluation.entropy import attention_entropy, entropy_metrics
from miv.evaluation.evaluation import Evaluation, evaluate
from miv.evaluation.groups import GroupRow, group_table
from miv.evaluation.learning_curves import write_learning_curves
from miv.evaluation.predictions import Predictions
from miv.evaluation.rankings import rank_instances, witness_rankings
from miv.evaluation.roc_curves import write_curves
from miv.evaluation.witnesses import WitnessScores, witness_metrics, witness_scores

__all__ = [
    "Evaluation",
    "GroupRow",
    "Predictions",
    "WitnessScores",
    "attention_entropy",
    "auroc",
    "classification_metrics",
    "entropy_metrics",
    "evaluate",
    "group_table",
    "rank_instances",
    "witness_metrics",
    "witness_rankings",
    "witness_scores",
    "write_curves",
    "write_learning_curves",
]

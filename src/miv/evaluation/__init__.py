"""Metrics, calibration, audits and reports: how good is a verifier, and where should it decide?"""

from typing import TYPE_CHECKING

from miv.registry import lazy_exports

if TYPE_CHECKING:
    from miv.evaluation.audit_report import AuditReport as AuditReport
    from miv.evaluation.audit_report import audit_models as audit_models
    from miv.evaluation.audit_tests import UNIT_TESTS as UNIT_TESTS
    from miv.evaluation.audit_tests import run_unit_tests as run_unit_tests
    from miv.evaluation.baseline_figures import Baselines as Baselines
    from miv.evaluation.baseline_figures import Figures as Figures
    from miv.evaluation.calibration import Calibration as Calibration
    from miv.evaluation.calibration import calibrate as calibrate
    from miv.evaluation.calibration_fits import expected_calibration_error as expected_calibration_error
    from miv.evaluation.calibration_fits import fit_witness_rule as fit_witness_rule
    from miv.evaluation.calibration_fits import measure_witness_sets as measure_witness_sets
    from miv.evaluation.curves import write_curves as write_curves
    from miv.evaluation.curves import write_learning_curves as write_learning_curves
    from miv.evaluation.evaluation import Evaluation as Evaluation
    from miv.evaluation.evaluation import evaluate as evaluate
    from miv.evaluation.goals import Goal as Goal
    from miv.evaluation.goals import parse_goal as parse_goal
    from miv.evaluation.metrics import GroupRow as GroupRow
    from miv.evaluation.metrics import attention_entropy as attention_entropy
    from miv.evaluation.metrics import auroc as auroc
    from miv.evaluation.metrics import classification_metrics as classification_metrics
    from miv.evaluation.metrics import entropy_metrics as entropy_metrics
    from miv.evaluation.metrics import group_table as group_table
    from miv.evaluation.predicting import explain as explain
    from miv.evaluation.predicting import predict as predict
    from miv.evaluation.predicting import witness_shares as witness_shares
    from miv.evaluation.predictions import Predictions as Predictions
    from miv.evaluation.report import check_report as check_report
    from miv.evaluation.report import write_report as write_report
    from miv.evaluation.report_source import ReportModel as ReportModel
    from miv.evaluation.report_source import ReportSource as ReportSource
    from miv.evaluation.report_source import open_runs as open_runs
    from miv.evaluation.runs import RunFolder as RunFolder
    from miv.evaluation.verifier_audit import audit as audit
    from miv.evaluation.witnesses import WitnessScores as WitnessScores
    from miv.evaluation.witnesses import rank_instances as rank_instances
    from miv.evaluation.witnesses import witness_metrics as witness_metrics
    from miv.evaluation.witnesses import witness_rankings as witness_rankings
    from miv.evaluation.witnesses import witness_scores as witness_scores

_HOMES = {
    "explain": "miv.evaluation.predicting",
    "predict": "miv.evaluation.predicting",
    "witness_shares": "miv.evaluation.predicting",
    "AuditReport": "miv.evaluation.audit_report",
    "Baselines": "miv.evaluation.baseline_figures",
    "Calibration": "miv.evaluation.calibration",
    "Evaluation": "miv.evaluation.evaluation",
    "Figures": "miv.evaluation.baseline_figures",
    "Goal": "miv.evaluation.goals",
    "GroupRow": "miv.evaluation.metrics",
    "Predictions": "miv.evaluation.predictions",
    "ReportModel": "miv.evaluation.report_source",
    "ReportSource": "miv.evaluation.report_source",
    "RunFolder": "miv.evaluation.runs",
    "UNIT_TESTS": "miv.evaluation.audit_tests",
    "WitnessScores": "miv.evaluation.witnesses",
    "attention_entropy": "miv.evaluation.metrics",
    "audit": "miv.evaluation.verifier_audit",
    "audit_models": "miv.evaluation.audit_report",
    "auroc": "miv.evaluation.metrics",
    "calibrate": "miv.evaluation.calibration",
    "check_report": "miv.evaluation.report",
    "classification_metrics": "miv.evaluation.metrics",
    "entropy_metrics": "miv.evaluation.metrics",
    "evaluate": "miv.evaluation.evaluation",
    "expected_calibration_error": "miv.evaluation.calibration_fits",
    "fit_witness_rule": "miv.evaluation.calibration_fits",
    "group_table": "miv.evaluation.metrics",
    "measure_witness_sets": "miv.evaluation.calibration_fits",
    "open_runs": "miv.evaluation.report_source",
    "parse_goal": "miv.evaluation.goals",
    "rank_instances": "miv.evaluation.witnesses",
    "run_unit_tests": "miv.evaluation.audit_tests",
    "witness_metrics": "miv.evaluation.witnesses",
    "witness_rankings": "miv.evaluation.witnesses",
    "witness_scores": "miv.evaluation.witnesses",
    "write_curves": "miv.evaluation.curves",
    "write_learning_curves": "miv.evaluation.curves",
    "write_report": "miv.evaluation.report",
}
__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_exports(__name__, _HOMES)

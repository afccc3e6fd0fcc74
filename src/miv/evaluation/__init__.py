"""Metrics, calibration, audits and reports: how good is a verifier, and where should it decide?"""

from typing import TYPE_CHECKING

from miv.registry import lazy_exports

if TYPE_CHECKING:
    from miv.evaluation.baselines import Baselines as Baselines, Figures as Figures
    from miv.evaluation.calibration import Calibration as Calibration, calibrate as calibrate
    from miv.evaluation.calibration_fits import expected_calibration_error as expected_calibration_error
    from miv.evaluation.evaluation import Evaluation as Evaluation, evaluate as evaluate
    from miv.evaluation.goals import parse_goal as parse_goal
    from miv.evaluation.metrics import (
        auroc as auroc,
        classification_metrics as classification_metrics,
        group_table as group_table,
    )
    from miv.evaluation.plain_methods import METHODS as METHODS, score_baselines as score_baselines
    from miv.evaluation.predicting import Predictions as Predictions, explain as explain, predict as predict
    from miv.evaluation.report import write_report as write_report
    from miv.evaluation.report_data import (
        ReportModel as ReportModel,
        ReportSource as ReportSource,
        open_runs as open_runs,
    )
    from miv.evaluation.runs import RunFolder as RunFolder
    from miv.evaluation.verifier_audit import AuditReport as AuditReport, audit as audit
    from miv.evaluation.witnesses import (
        rank_instances as rank_instances,
        witness_metrics as witness_metrics,
        witness_rankings as witness_rankings,
        witness_scores as witness_scores,
    )

_NAMES = {
    "baselines": "Baselines Figures",
    "calibration": "Calibration calibrate",
    "calibration_fits": "expected_calibration_error",
    "evaluation": "Evaluation evaluate",
    "goals": "parse_goal",
    "metrics": "auroc classification_metrics group_table",
    "plain_methods": "METHODS score_baselines",
    "predicting": "Predictions explain predict",
    "report": "write_report",
    "report_data": "ReportModel ReportSource open_runs",
    "runs": "RunFolder",
    "verifier_audit": "AuditReport audit",
    "witnesses": "rank_instances witness_metrics witness_rankings witness_scores",
}
_HOMES = {name: f"{__name__}.{module}" for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_exports(__name__, _HOMES)

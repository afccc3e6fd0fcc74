"""Choose an operating point on validation data: a scaling, a threshold for a goal, and a rule for witnesses."""

from miv.calibration.calibrate import Calibration, calibrate
from miv.calibration.goals import Goal, parse_goal
from miv.calibration.reliability import expected_calibration_error
from miv.calibration.witness_fits import fit_witness_rule, measure_witness_sets

__all__ = [
    "Calibration",
    "Goal",
    "calibrate",
    "expected_calibration_error",
    "fit_witness_rule",
    "measure_witness_sets",
    "parse_goal",
]

"""Inspect exemplar sets before training: statistics, a leakage audit, a contact sheet."""

from miv.inspection.contact_sheet import write_contact_sheet
from miv.inspection.inspection_report import Inspection, inspect_folder, open_sets
from miv.inspection.leakage import Finding, audit
from miv.inspection.statistics import Distribution, SetStatistics, set_statistics

__all__ = [
    "Distribution",
    "Finding",
    "Inspection",
    "SetStatistics",
    "audit",
    "inspect_folder",
    "open_sets",
    "set_statistics",
    "write_contact_sheet",
]

"""The report of one or more runs: one HTML file that needs no other, nor a network."""

from miv.report.sources import ReportModel, ReportSource, open_runs
from miv.report.writing import check_report, write_report

__all__ = ["ReportModel", "ReportSource", "check_report", "open_runs", "write_report"]

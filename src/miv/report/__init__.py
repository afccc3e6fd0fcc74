"""The report of one or more runs: one self-contained HTML file that needs no network."""

from miv.report.report_page import check_report, write_report
from miv.report.report_sources import ReportModel, ReportSource, open_runs

__all__ = ["ReportModel", "ReportSource", "check_report", "open_runs", "write_report"]

"""One HTML file that tells, offline, what a fitted model found and how far to trust it."""

from protocol_mvc.report.page import write_report

__all__ = ["write_report"]

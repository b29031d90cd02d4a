"""A self-contained HTML report about a fitted model."""

from protocol_mvc.report.page import write_report

__all__ = ["write_report"]

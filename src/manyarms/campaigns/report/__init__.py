"""A campaign as one self-contained web page: `render(Report(…))`."""

from manyarms.campaigns.report.page import render
from manyarms.campaigns.report.values import BatchLine, Measurement, Report, TopRow

__all__ = ["BatchLine", "Measurement", "Report", "TopRow", "render"]

"""The report of a campaign as one self-contained web page, made by `render(CampaignReport(…))`."""

from manyarms.campaigns.report.page import render
from manyarms.campaigns.report.values import BatchLine, CampaignReport, Measurement, TopRow

__all__ = ["BatchLine", "CampaignReport", "Measurement", "TopRow", "render"]

"""The report of a campaign as one self-contained web page, made by `render(CampaignReport(…))`."""

from manyarms.campaigns.report.page import render
from manyarms.campaigns.report.values import CampaignReport, TopRow

__all__ = ["CampaignReport", "TopRow", "render"]

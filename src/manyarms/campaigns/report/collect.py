"""Collect the contents of the report page from a campaign."""

from __future__ import annotations

from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.certify import certificate_in_units
from manyarms.campaigns.chart_view import batch_lines, measurements, model_in_units, present_best
from manyarms.campaigns.next_batch import values_of
from manyarms.campaigns.queries import expected_gains, snapshot, top_rows
from manyarms.campaigns.report.values import CampaignReport
from manyarms.campaigns.status import status, status_lines


def collect_report(campaign: Campaign, k: int = 20, optimum: float | None = None) -> CampaignReport:
    """Everything the page shows, from a model updated with every result recorded so far."""
    results, seen = measurements(campaign), snapshot(campaign)
    learned, top, certificate, model, present, expected = None, [], None, None, None, None
    if values_of(seen):
        run, units = campaign.current(seen)
        learned, top = run.model, top_rows(campaign, seen, run, units, k)
        certificate = certificate_in_units(run, units, campaign.settings)
        expected = expected_gains(campaign, seen, run, units)
        model, present = model_in_units(campaign, run, units), present_best(run, units)
    return CampaignReport(
        title=campaign.store.where.name,
        goal=campaign.settings.goal,
        facts=status_lines(status(campaign, learned, certificate, expected)),
        measurements=results,
        batches=batch_lines(campaign),
        top=top,
        optimum=optimum,
        model=model,
        present=present,
        gap=None if certificate is None else certificate["gap"],
        expected=expected,
    )

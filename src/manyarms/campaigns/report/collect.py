"""Collect the contents of the report page from a campaign."""

from __future__ import annotations

from dataclasses import fields, replace

from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.certify import certificate_in_units
from manyarms.campaigns.next_batch import current, values_of
from manyarms.campaigns.queries import batches, history, snapshot, top_rows
from manyarms.campaigns.report.values import BatchLine, CampaignReport, Measurement
from manyarms.campaigns.status import status, status_lines


def collect_report(campaign: Campaign, k: int = 20, optimum: float | None = None) -> CampaignReport:
    """Everything the page shows, from a model updated with every result recorded so far.

    Predictions that a learned model made before there was any result are left out, because they are not in
    the user's units.
    """
    results, seen = history(campaign), snapshot(campaign)
    if campaign.settings.learned:
        results = [
            each if each.predicted_lower is not None else replace(each, predicted=None) for each in results
        ]
    model, top, certificate = None, [], None
    if values_of(seen):
        run, units = current(campaign.model_input, seen)
        model, top = run.model, top_rows(campaign, seen, run, units, k)
        certificate = certificate_in_units(run, units, campaign.settings)
    shared = [each.name for each in fields(Measurement)]
    lines = [each.name for each in fields(BatchLine)]
    return CampaignReport(
        title=campaign.store.where.name,
        goal=campaign.settings.goal,
        facts=status_lines(status(campaign, model, certificate)),
        measurements=[Measurement(**{name: getattr(each, name) for name in shared}) for each in results],
        batches=[BatchLine(**{name: batch[name] for name in lines}) for batch in batches(campaign)],
        top=top,
        optimum=optimum,
    )

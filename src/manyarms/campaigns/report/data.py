"""The figures at the top of the report and of the page."""

from __future__ import annotations

import math
from dataclasses import dataclass

from manyarms.campaigns.report.values import CampaignReport
from manyarms.plots.data.progress import improvements, value_of


@dataclass(frozen=True)
class Headline:
    """One figure in large type, with a smaller note."""

    name: str
    figure: float | None
    note: str = ""


def headline_data(report: CampaignReport) -> list[Headline]:
    """The figures at the top of the page."""
    best = improvements(report.view())[-1:]
    failed = sum(value_of(m) is None for m in report.measurements)
    pulls = sum(batch.size for batch in report.batches)
    seconds = sum(batch.seconds for batch in report.batches if math.isfinite(batch.seconds))
    headlines = [Headline("Best measured", best[0][1] if best else None, best[0][0].id if best else "")]
    if report.top:
        headlines.append(Headline("Best by the model", report.top[0].mean, report.top[0].id))
    if report.gap is not None:
        headlines.append(Headline("Gap", report.gap, "at most, to the best candidate"))
    if report.expected and report.expected["gains"]:
        first = report.expected["gains"][0]
        note = f"from the next {first['measurements']} candidates"
        headlines.append(Headline("Expected gain", first["gain"], note))
    return [
        *headlines,
        Headline("Measurements", len(report.measurements)),
        Headline("Failed", failed),
        Headline("Batches", len(report.batches), f"{pulls:,} tickets" if report.batches else ""),
        Headline("Seconds of computing", seconds),
    ]

"""What the page of a campaign shows: the parts that come from its rows, and those that need its model.

The rows are there at once. The model can take seconds, so the page asks for its parts afterwards, and again
after every change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from manyarms.campaigns import queries
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.certify import certificate_in_units
from manyarms.campaigns.chart_view import batch_lines, measurements, model_in_units, present_best
from manyarms.campaigns.next_batch import values_of
from manyarms.campaigns.orders import Issued
from manyarms.campaigns.outlook import DEFAULT_SIZE
from manyarms.campaigns.preview import preview
from manyarms.campaigns.report.figures import (
    AGREEMENT,
    BATCHES,
    LEARNED,
    PROGRESS,
    agreement_figures,
    batch_figures,
    learned_figures,
    progress_figures,
)
from manyarms.campaigns.report.values import TopRow
from manyarms.campaigns.status import status, status_lines
from manyarms.campaigns.store.schema import OPEN, TICKETS
from manyarms.errors import ManyarmsError
from manyarms.plots.numbers import number
from manyarms.plots.plot import Plot
from manyarms.plots.view import RunView
from manyarms.plots.web import MissingFigure
from manyarms.run.certificate import CERTIFICATE
from manyarms.service.page.molecules import drawing

MOST_TICKETS, MOST_RESULTS, MOST_DRAWN = 200, 50, 60
MOST_PREVIEWED = 100


@dataclass(frozen=True)
class Candidate:
    """One line about a candidate: its id, its columns, and its drawing where it is a molecule."""

    id: str
    columns: dict[str, str]
    drawing: str | None


def rows_parts(campaign: Campaign, now: datetime | None = None) -> dict[str, Any]:
    """The parts that need no model: counts, open tickets, results, failures, batches and settings."""
    moment = now or datetime.now(UTC)
    found = status(campaign)
    history = queries.history(campaign)
    asked = {batch["number"]: batch for batch in queries.batches(campaign)}
    with campaign.store.reading() as connection:
        tickets = campaign.store.tickets(connection, TICKETS.c.state == OPEN)
    shown = campaign.reissued(tickets[:MOST_TICKETS])
    smiles = campaign.settings.source.smiles
    waiting = [
        {
            "code": ticket.code,
            "batch": ticket.batch,
            "age": age(asked[ticket.batch]["asked_at"], moment),
            "worker": ticket.worker,
            "predicted": said(issued),
            "reason": issued.reason,
            **vars(candidate(issued, smiles, place)),
        }
        for place, (ticket, issued) in enumerate(zip(tickets, shown, strict=False))
    ]
    open_batches = sorted({ticket.batch for ticket in tickets}, reverse=True)
    return {
        "status": found,
        "facts": status_lines(found),
        "tickets": waiting,
        "n_tickets": len(tickets),
        "open_batches": [
            {
                **asked[each],
                "age": age(asked[each]["asked_at"], moment),
                "open": sum(ticket.batch == each for ticket in tickets),
            }
            for each in open_batches
        ],
        "results": [
            asdict(row) | {"age": age(row.told_at, moment)} for row in history[: -MOST_RESULTS - 1 : -1]
        ],
        "n_results": len(history),
        "failures": [asdict(row) | {"age": age(row.told_at, moment)} for row in history if row.failed][::-1],
        "corrections": [asdict(row) for row in queries.corrections(campaign)][::-1],
        "excluded": campaign.excluded(),
        "last_size": max(1, min(next(reversed(asked.values()))["size"], MOST_PREVIEWED))
        if asked
        else DEFAULT_SIZE,
    }


def model_parts(campaign: Campaign, size: int) -> dict[str, Any]:
    """The parts that need the model: the charts, the best candidates, and the next batch of this size."""
    seen = queries.snapshot(campaign)
    campaign._keep_up(seen.n_arms)
    view = RunView(
        campaign.store.where.name, campaign.settings.goal, measurements(campaign), batch_lines(campaign)
    )
    top: list[TopRow] = []
    best, stop = None, stopping(None, None)
    if values_of(seen):
        run, units = campaign.current(seen)
        model, best = model_in_units(campaign, run, units), present_best(run, units)
        view = RunView(view.title, view.goal, view.measurements, view.batches, lambda: model, best)
        top = queries.top_rows(campaign, seen, run, units, 20)
        expected = queries.expected_gains(campaign, seen, run, units, size)
        stop = stopping(certificate_in_units(run, units, campaign.settings), expected)
    smiles = campaign.settings.source.smiles
    return {
        "figures": figures(view),
        "best": None if best is None else [number(each) for each in best],
        "best_id": top[0].id if top else None,
        "stop": stop,
        "top": [
            {**asdict(row), "mean": number(row.mean), "std": number(row.std), "average": number(row.average),
             "drawing": drawn(row.columns, smiles, place)}
            for place, row in enumerate(top)
        ],
        **next_batch(campaign, size),
    }  # fmt: skip


def stopping(certificate: dict[str, Any] | None, expected: dict[str, Any] | None) -> dict[str, Any]:
    """What helps to decide whether to go on: the gap, and what further measurements are expected to add."""
    gains = [] if expected is None else expected["gains"]
    return {
        "gap": None if certificate is None else number(certificate["gap"]),
        "confidence": None if certificate is None else f"{certificate['confidence']:.4g}",
        "proved": certificate is not None and certificate["kind"] == CERTIFICATE,
        "gains": [
            {
                "n": each["measurements"],
                "gain": number(each["gain"], 2),
                "error": number(each["std_error"], 1),
            }
            for each in gains
        ],
    }


def next_batch(campaign: Campaign, size: int) -> dict[str, Any]:
    """The preview of the next batch, or why there is none."""
    smiles = campaign.settings.source.smiles
    try:
        found = preview(campaign, size)
    except ManyarmsError as problem:
        return {"preview": [], "no_preview": str(problem)}
    lines = [
        {"predicted": said(each), "reason": each.reason, **vars(candidate(each, smiles, place))}
        for place, each in enumerate(found)
    ]
    return {"preview": lines, "no_preview": None}


def figures(view: RunView) -> dict[str, list[dict[str, Any]]]:
    """The charts of each section, as the page's script draws them."""
    sections = {
        PROGRESS: progress_figures(view),
        LEARNED: learned_figures(view),
        AGREEMENT: agreement_figures(view),
        BATCHES: batch_figures(view),
    }
    return {name: [_figure(item) for item in found] for name, found in sections.items()}


def _figure(item: Plot | MissingFigure) -> dict[str, Any]:
    if isinstance(item, MissingFigure):
        return {"title": item.title, "caption": item.why, "spec": None}
    return {"title": item.title, "caption": " ".join(item.caption), "spec": item.spec()}


def candidate(issued: Issued, smiles: str | None, place: int) -> Candidate:
    """The line about the candidate of a ticket."""
    return Candidate(issued.id, dict(issued.columns), drawn(issued.columns, smiles, place))


def drawn(columns: Any, smiles: str | None, place: int) -> str | None:
    """The drawing of a candidate, for the first ones of a list."""
    return None if smiles is None or place >= MOST_DRAWN else drawing(columns.get(smiles, ""))


def said(issued: Issued) -> str:
    """The prediction for a candidate in words."""
    if issued.lower is None or issued.upper is None:
        return "no prediction yet"
    return f"{number(issued.predicted)} ({number(issued.lower)} to {number(issued.upper)})"


def age(moment: str, now: datetime) -> str:
    """How long ago a stored moment is."""
    seconds = (now - datetime.fromisoformat(moment)).total_seconds()
    for length, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'s' if count > 1 else ''}"
    return "now"


def shown_columns(rows: Sequence[dict[str, Any]], most: int = 6) -> list[str]:
    """The user's columns that a table shows."""
    names = dict.fromkeys(name for row in rows for name in row["columns"])
    return list(names)[:most]

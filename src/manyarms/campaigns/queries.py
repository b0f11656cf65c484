"""Read a campaign: its history, its batches, its ticket counts, and the best candidates.

`status.py` summarises a campaign, `export.py` writes its history to a file, and `report/collect.py` gathers
the data of the report page; all three are built on these queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import func, select

from manyarms.campaigns.assumptions import Units, grouped
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.certify import certificate_in_units
from manyarms.campaigns.explaining import MOST_EXPLAINED, explanations
from manyarms.campaigns.next_batch import values_of
from manyarms.campaigns.outlook import DEFAULT_SIZE, outlook
from manyarms.campaigns.report.values import TopRow
from manyarms.campaigns.store.corrections import corrections as stored_corrections
from manyarms.campaigns.store.schema import ARMS, BATCHES, OPEN, RESULTS, TICKETS, same_batch, same_ticket
from manyarms.campaigns.store.store import Snapshot
from manyarms.campaigns.store.ticket_codes import ticket_code
from manyarms.errors import InvalidParameterError, NoResultsError
from manyarms.run.optimizer import Optimizer


@dataclass(frozen=True)
class HistoryRow:
    """One recorded result, in the user's units. Rows are numbered from 1 in the order of recording."""

    number: int
    ticket: int | None
    code: str | None  # the name of the ticket in files
    id: str
    value: float | None
    failed: bool
    note: str | None
    noise_std: float | None  # the noise of the value, if it was stated
    replicates: int | None  # the number of measurements it is the mean of; None: one
    predicted: float | None
    predicted_std: float | None
    predicted_lower: float | None  # lower and upper end of the 90 % prediction interval of a measured value
    predicted_upper: float | None
    batch: int | None
    reason: str | None  # why the candidate was chosen; None: without a ticket, or not recorded
    told_at: str


@dataclass(frozen=True)
class CorrectionRow:
    """One entry in the record of corrections. A value of None is a failed trial."""

    number: int
    action: str  # corrected or removed
    ticket: str | None
    id: str
    old_value: float | None
    new_value: float | None
    who: str
    why: str | None
    at: str
    old_noise_std: float | None = None
    old_replicates: int | None = None
    new_noise_std: float | None = None
    new_replicates: int | None = None


def history(campaign: Campaign) -> list[HistoryRow]:
    """Every recorded result, in the order of recording.

    Predictions that a learned model made before there was any result are left out, because they are not in
    the user's units.
    """
    same_arm = (ARMS.c.campaign == RESULTS.c.campaign) & (ARMS.c.arm == RESULTS.c.arm)
    wanted = (
        select(
            RESULTS.c.ticket, ARMS.c.name.label("id"), RESULTS.c.value, RESULTS.c.failed, RESULTS.c.note,
            RESULTS.c.noise_std, RESULTS.c.replicates,
            TICKETS.c.predicted, TICKETS.c.predicted_std, TICKETS.c.predicted_lower,
            TICKETS.c.predicted_upper, TICKETS.c.batch, TICKETS.c.reason, RESULTS.c.told_at,
            BATCHES.c.nonce,
        )
        .join(ARMS, same_arm).outerjoin(TICKETS, same_ticket()).outerjoin(BATCHES, same_batch())
        .where(RESULTS.c.campaign == campaign.store.id).order_by(RESULTS.c.sequence)
    )  # fmt: skip
    with campaign.store.reading() as connection:
        identity = campaign.store.identity(connection)
        rows = [dict(row) for row in connection.execute(wanted).mappings()]
    for row in rows:
        if campaign.settings.learned and row["predicted_lower"] is None:
            row["predicted"] = row["predicted_std"] = None
    return [
        HistoryRow(number, code=_code(identity, row.pop("nonce"), row["ticket"]), **row)
        for number, row in enumerate(rows, start=1)
    ]


def _code(identity: str, nonce: str | None, ticket: int | None) -> str | None:
    return None if ticket is None else ticket_code(identity, nonce, ticket)


def corrections(campaign: Campaign) -> list[CorrectionRow]:
    """Every correction and removal of a result, in the order in which they were made."""
    with campaign.store.reading() as connection:
        rows = stored_corrections(campaign.store, connection)
        codes = {each.ticket: each.code for each in campaign.store.tickets(connection)} if rows else {}
    shared = ("number", "action", "old_value", "new_value", "who", "why", "at",
              "old_noise_std", "old_replicates", "new_noise_std", "new_replicates")  # fmt: skip
    return [
        CorrectionRow(id=row["name"], ticket=codes.get(row["ticket"]), **{name: row[name] for name in shared})
        for row in rows
    ]


def batches(campaign: Campaign) -> list[dict[str, Any]]:
    """Every batch handed out, with the columns of its database row."""
    wanted = select(BATCHES).where(BATCHES.c.campaign == campaign.store.id).order_by(BATCHES.c.number)
    with campaign.store.reading() as connection:
        rows = connection.execute(wanted).mappings().all()
    internal = ("campaign", "nonce")
    return [{key: value for key, value in row.items() if key not in internal} for row in rows]


def ticket_counts(campaign: Campaign) -> dict[str, int]:
    """The number of open, answered, failed and forgotten tickets; `leased` counts open ones held by a run."""
    counted = (
        select(TICKETS.c.state, func.count(), func.count(TICKETS.c.lease_until))
        .where(TICKETS.c.campaign == campaign.store.id)
        .group_by(TICKETS.c.state)
    )
    with campaign.store.reading() as connection:
        rows = connection.execute(counted).all()
    counts = {"open": 0, "told": 0, "failed": 0, "forgotten": 0} | {row[0]: row[1] for row in rows}
    return counts | {"leased": sum(row[2] for row in rows if row[0] == OPEN)}


def budget_left(budget: int | None, counts: Mapping[str, int]) -> int | None:
    """The number of tickets that may still be handed out; forgotten ones do not count. None: no limit."""
    if budget is None:
        return None
    return max(0, budget - counts["open"] - counts["told"] - counts["failed"])


def ticket_costs(campaign: Campaign) -> list[tuple[str, float | None]]:
    """The state and the cost of every ticket that has a cost."""
    with campaign.store.reading() as connection:
        return campaign.store.ticket_costs(connection)


def snapshot(campaign: Campaign) -> Snapshot:
    """Everything the next ask depends on, at one moment."""
    with campaign.store.reading() as connection:
        return campaign.store.snapshot(connection)


def best_measured(results: list[HistoryRow], sign: float) -> dict[str, Any] | None:
    """The candidate with the best average of its own results.

    No model is involved, so a candidate with a single lucky measurement may come first.
    """
    values = grouped((each.id, each.value) for each in results)
    if not values:
        return None
    name = max(values, key=lambda id: sign * sum(values[id]) / len(values[id]))
    return {"id": name, "average": sum(values[name]) / len(values[name]), "pulls": len(values[name])}


def certificate(campaign: Campaign) -> dict[str, Any] | None:
    """The certificate from every result recorded so far, in the user's units; None without results."""
    return certificate_in_units(*campaign.current(snapshot(campaign)), campaign.settings)


def expected_gains(
    campaign: Campaign, seen: Snapshot, run: Optimizer, units: Units, size: int | None = None
) -> dict[str, Any] | None:
    """What further batches of a size are expected to add, by a run that has used every result.

    By default they are as large as the last one.
    """
    size = batch_size(batches(campaign)) if size is None else size
    mask = None
    if seen.excluded:
        mask = np.ones(run.pool.n_arms, dtype=bool)
        mask[list(seen.excluded)] = False
    return outlook(run, units, size, mask)


def batch_size(asked: Sequence[Mapping[str, Any]]) -> int:
    """The number of candidates that the next batch is taken to have: as many as the last one."""
    return int(asked[-1]["size"]) if asked else DEFAULT_SIZE


def judged(campaign: Campaign) -> dict[str, Any]:
    """The certificate and the expected gains from every result, as `status` takes them."""
    seen = snapshot(campaign)
    run, units = campaign.current(seen)
    return {
        "certificate": certificate_in_units(run, units, campaign.settings),
        "expected": expected_gains(campaign, seen, run, units),
    }


def explain(campaign: Campaign, ids: Sequence[str]) -> list[dict[str, Any]]:
    """Why these candidates, in this order: an explanation of each, from every result recorded so far."""
    if len(ids) > MOST_EXPLAINED:
        raise InvalidParameterError("ids", f"{len(ids)} candidates", f"at most {MOST_EXPLAINED}")
    seen = snapshot(campaign)
    campaign._keep_up(seen.n_arms)
    known = campaign._arms_by_id(ids)
    if not known:
        return []
    arms = [known[name] for name in dict.fromkeys(ids)]
    return explanations(campaign, *campaign.current(seen), _reasons(campaign, arms))


def _reasons(campaign: Campaign, arms: Sequence[int]) -> dict[int, str]:
    """What chose each of these arms when it was last handed out; an empty text if it never was."""
    with campaign.store.reading() as connection:
        asked = campaign.store.tickets(connection, TICKETS.c.arm.in_(arms))
    return dict.fromkeys(arms, "") | {each.arm: each.reason or "" for each in asked}


def best(campaign: Campaign, k: int = 20, everywhere: bool = False) -> list[TopRow]:
    """The k candidates with the best model mean among those measured or, with `everywhere`, in the pool."""
    seen = snapshot(campaign)
    if not values_of(seen):
        raise NoResultsError("the campaign has no results yet")
    return top_rows(campaign, seen, *campaign.current(seen), k, everywhere)


def top_rows(
    campaign: Campaign, seen: Snapshot, run: Optimizer, units: Units, k: int, everywhere: bool = False
) -> list[TopRow]:
    """The rows of `best`, from a model that has already been updated with every result."""
    mean, std = run.predict()
    arms = np.arange(campaign.pool.n_arms) if everywhere else run.history.arms
    top = arms[np.argsort(-mean[arms], kind="stable")[:k]].tolist()
    values = grouped((each.arm, each.value) for each in seen.results)
    columns = campaign.source.cells_of(top)
    return [
        TopRow(
            rank=rank,
            id=str(campaign.pool.id_of(arm)),
            mean=units.value(float(mean[arm])),
            std=units.spread(float(std[arm])),
            pulls=len(values[arm]),
            average=float(np.mean(values[arm])) if values[arm] else float("nan"),
            columns=own,
        )
        for rank, (arm, own) in enumerate(zip(top, columns, strict=True), start=1)
    ]

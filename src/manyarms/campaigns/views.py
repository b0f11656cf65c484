"""Looking at a campaign: its status, its history, the best candidates, and the data of the report page."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import func, select

from manyarms.campaigns.assumptions import Units, assumed_units, grouped
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.files import is_parquet, is_text_table, replacing
from manyarms.campaigns.model import current
from manyarms.campaigns.report import BatchLine, Measurement, Report, TopRow
from manyarms.campaigns.schema import ARMS, BATCHES, OPEN, RESULTS, TICKETS, same_ticket
from manyarms.errors import MissingExtraError, NoResultsError, OutputError
from manyarms.kernels.describe import from_description


@dataclass(frozen=True)
class Measured:
    """One result, in order of telling, in the user's units."""

    number: int
    ticket: int | None
    id: str
    value: float | None
    failed: bool
    note: str | None
    predicted: float | None
    predicted_std: float | None
    batch: int | None
    told_at: str


def history(campaign: Campaign) -> list[Measured]:
    """Everything that was ever told."""
    same_arm = (ARMS.c.campaign == RESULTS.c.campaign) & (ARMS.c.arm == RESULTS.c.arm)
    wanted = (
        select(
            RESULTS.c.ticket, ARMS.c.name.label("id"), RESULTS.c.value, RESULTS.c.failed, RESULTS.c.note,
            TICKETS.c.predicted, TICKETS.c.predicted_std, TICKETS.c.batch, RESULTS.c.told_at,
        )
        .join(ARMS, same_arm).outerjoin(TICKETS, same_ticket())
        .where(RESULTS.c.campaign == campaign.store.id).order_by(RESULTS.c.sequence)
    )  # fmt: skip
    with campaign.store.reading() as connection:
        rows = connection.execute(wanted).mappings().all()
    return [Measured(number, **row) for number, row in enumerate(rows, start=1)]


def batches(campaign: Campaign) -> list[dict[str, Any]]:
    """Every batch handed out, as the database keeps it."""
    wanted = select(BATCHES).where(BATCHES.c.campaign == campaign.store.id).order_by(BATCHES.c.number)
    with campaign.store.reading() as connection:
        rows = connection.execute(wanted).mappings().all()
    return [{key: value for key, value in row.items() if key != "campaign"} for row in rows]


def ticket_counts(campaign: Campaign) -> dict[str, int]:
    """How many tickets are open, told, failed and forgotten; `leased` are the open ones a run holds."""
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
    """Tickets that may still be handed out; those given up do not count. None: no end."""
    if budget is None:
        return None
    return max(0, budget - counts["open"] - counts["told"] - counts["failed"])


def status(campaign: Campaign) -> dict[str, Any]:
    """Settings and counts. Nothing is computed by the model, and the pool is not opened."""
    settings, told, asked = campaign.settings, history(campaign), batches(campaign)
    counts = ticket_counts(campaign)
    return {
        "campaign": str(campaign.store.where),
        "created_at": campaign.created_at,
        "goal": settings.goal,
        "pool": {
            "path": str(settings.source.path), "candidates": settings.source.n_arms,
            "id": settings.source.id, "digest": settings.source.digest,
        },
        "policy": {"name": settings.policy, **settings.options},
        "kernel": settings.kernel,
        "seed": settings.seed,
        "budget": settings.budget,
        "budget_left": budget_left(settings.budget, counts),
        "repeats": settings.repeats,
        "max_failures": settings.max_failures,
        "batches": len(asked),
        "tickets": counts,
        "results": {
            "values": sum(not each.failed for each in told), "failed": sum(each.failed for each in told),
            "unasked": sum(each.ticket is None for each in told),
            "candidates": len({each.id for each in told if not each.failed}),
        },
        "best_measured": best_measured(told, settings.sign),
        "last_batch": asked[-1] if asked else None,
        "assumptions": [*settings.assumptions, *_units(campaign, told).said],
    }  # fmt: skip


def _units(campaign: Campaign, told: list[Measured]) -> Units:
    """What the model takes mean, signal and noise to be, from everything told."""
    arms: dict[str, int] = defaultdict(lambda: len(arms))
    values = [(arms[each.id], each.value) for each in told if each.value is not None]
    given = campaign.settings
    return assumed_units(given.sign, given.noise, given.signal, given.mean, values)


def best_measured(told: list[Measured], sign: float) -> dict[str, Any] | None:
    """The candidate with the best average of its own results: no model, so a lucky single one may lead."""
    values = grouped((each.id, each.value) for each in told)
    if not values:
        return None
    name = max(values, key=lambda id: sign * sum(values[id]) / len(values[id]))
    return {"id": name, "average": sum(values[name]) / len(values[name]), "pulls": len(values[name])}


def best(campaign: Campaign, k: int = 20, everywhere: bool = False) -> list[TopRow]:
    """The k candidates with the best model mean among those measured, or, `everywhere`, in the whole pool."""
    with campaign.store.reading() as connection:
        seen = campaign.store.snapshot(connection)
    run, units = current(campaign.pool, campaign.settings, seen)
    if not len(run.history):
        raise NoResultsError("no result has been told yet")
    mean, std = run.predict()
    arms = np.arange(campaign.pool.n_arms) if everywhere else run.history.arms
    top = arms[np.argsort(-mean[arms], kind="stable")[:k]].tolist()
    values = grouped((each.arm, each.value) for each in seen.results)
    columns = campaign.source.columns(top)
    return [
        TopRow(
            rank, str(campaign.pool.id_of(arm)), units.value(float(mean[arm])), units.spread(float(std[arm])),
            len(values[arm]), float(np.mean(values[arm])) if values[arm] else float("nan"), own,
        )
        for rank, (arm, own) in enumerate(zip(top, columns, strict=True), start=1)
    ]  # fmt: skip


def report(campaign: Campaign, k: int = 20, optimum: float | None = None) -> Report:
    """All that the page shows."""
    told = history(campaign)
    shared = [each.name for each in fields(Measurement)]
    lines = [each.name for each in fields(BatchLine)]
    return Report(
        title=campaign.store.where.name,
        goal=campaign.settings.goal,
        facts=facts(status(campaign)),
        measurements=[Measurement(**{name: getattr(each, name) for name in shared}) for each in told],
        batches=[BatchLine(**{name: batch[name] for name in lines}) for batch in batches(campaign)],
        top=best(campaign, k) if any(not each.failed for each in told) else [],
        optimum=optimum,
        noise_std=_noise(campaign, told),
    )


def _noise(campaign: Campaign, told: list[Measured]) -> float:
    units = _units(campaign, told)
    return units.spread(units.noise_std)


def facts(found: dict[str, Any]) -> list[tuple[str, str]]:
    """A status as lines to read."""
    pool, tickets, results = found["pool"], found["tickets"], found["results"]
    policy = dict(found["policy"])
    lines = [
        ("campaign", found["campaign"]),
        ("created", found["created_at"]),
        ("goal", found["goal"]),
        ("pool", f"{pool['path']}: {pool['candidates']} candidates, ids in "
                 f"{'the row number' if pool['id'] is None else repr(pool['id'])}"),
        ("policy", _options(policy.pop("name"), policy)),
        ("kernel", repr(from_description(found["kernel"]))),
        ("seed", str(found["seed"])),
        ("repeats", str(found["repeats"])),
        ("budget", "none" if found["budget"] is None else f"{found['budget']}, {found['budget_left']} left"),
        ("batches", str(found["batches"])),
        ("tickets", ", ".join(f"{tickets[name]} {name}" for name in ("open", "told", "failed", "forgotten"))
                    + (f"; {tickets['leased']} open ones held by a run" if tickets["leased"] else "")),
        ("results", f"{results['values']} values of {results['candidates']} candidates, "
                    f"{results['failed']} failed, {results['unasked']} not asked for"),
    ]  # fmt: skip
    if found["best_measured"]:
        top = found["best_measured"]
        lines.append(("best measured", f"{top['id']}: {top['average']:.6g} on average of {top['pulls']}"))
    if found["last_batch"]:
        last = found["last_batch"]
        lines.append(("last batch", f"{last['size']} at {last['asked_at']}, ended because: "
                      f"{last['ended_because']}; {last['dictionary_size']} inducing arms, "
                      f"{last['seconds']:.2f} s"))  # fmt: skip
    return lines + [("assumed", sentence) for sentence in found["assumptions"]]


def _options(name: str, options: dict[str, Any]) -> str:
    return ", ".join([name, *(f"{key} = {value}" for key, value in options.items())])


def export(campaign: Campaign, path: Path) -> int:
    """Write the whole history as CSV, TSV or Parquet, by the file's ending; the number of rows."""
    told = history(campaign)
    names = [each.name for each in fields(Measured)]
    if is_parquet(path):
        _export_parquet(path, names, told)
    elif is_text_table(path) and path.suffix.lower() != ".gz":
        with replacing(path) as stream:
            writer = csv.writer(stream, delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
            writer.writerow(names)
            writer.writerows(
                ["" if cell is None else cell for cell in asdict(each).values()] for each in told
            )
    else:
        raise OutputError(f"{path}: cannot tell the format; known endings are .csv, .tsv, .parquet")
    return len(told)


def _export_parquet(path: Path, names: list[str], told: list[Measured]) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError("pyarrow", "parquet", "a Parquet file") from None
    kinds = [
        pa.int64(), pa.int64(), pa.string(), pa.float64(), pa.bool_(), pa.string(), pa.float64(),
        pa.float64(), pa.int64(), pa.string(),
    ]  # fmt: skip
    schema = pa.schema(list(zip(names, kinds, strict=True)))
    table = pa.Table.from_pylist([asdict(each) for each in told], schema=schema)
    with replacing(path, "wb") as stream:
        pq.write_table(table, stream)

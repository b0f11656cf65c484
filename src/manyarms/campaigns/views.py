"""Looking at a campaign: its status, its history, the best candidates, and the data of the report page."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import func, select

from manyarms.campaigns.assumptions import Units, assumed_units, grouped
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.model_summary import learned_facts, learned_lines
from manyarms.campaigns.next_batch import current, values_of
from manyarms.campaigns.pool_file.files import is_parquet, is_text_table, replacing
from manyarms.campaigns.report import BatchLine, Measurement, Report, TopRow
from manyarms.campaigns.settings import AUTO, Settings
from manyarms.campaigns.store.schema import ARMS, BATCHES, OPEN, RESULTS, TICKETS, same_ticket
from manyarms.campaigns.store.store import Snapshot
from manyarms.errors import MissingExtraError, NoResultsError, OutputError
from manyarms.kernels.describe import from_description
from manyarms.learning import LearnedModel
from manyarms.run.compact_state import CompactState
from manyarms.run.optimizer import Optimizer


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
    predicted_lower: float | None  # 90 % of measured values are expected in between
    predicted_upper: float | None
    batch: int | None
    told_at: str


def history(campaign: Campaign) -> list[Measured]:
    """Everything that was ever told."""
    same_arm = (ARMS.c.campaign == RESULTS.c.campaign) & (ARMS.c.arm == RESULTS.c.arm)
    wanted = (
        select(
            RESULTS.c.ticket, ARMS.c.name.label("id"), RESULTS.c.value, RESULTS.c.failed, RESULTS.c.note,
            TICKETS.c.predicted, TICKETS.c.predicted_std, TICKETS.c.predicted_lower,
            TICKETS.c.predicted_upper, TICKETS.c.batch, RESULTS.c.told_at,
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


def status(campaign: Campaign, model: LearnedModel | None = None) -> dict[str, Any]:
    """Settings, counts, and what was learned by the last ask, or the model given.

    Nothing is computed by the model, and the pool is not opened.
    """
    settings, told, asked = campaign.settings, history(campaign), batches(campaign)
    counts, seen = ticket_counts(campaign), _snapshot(campaign)
    if model is None and seen.state is not None:
        model = CompactState.from_bytes(seen.state).model
    rewards = [(arm, settings.sign * value) for arm, value in values_of(seen)]
    return {
        "campaign": str(campaign.store.where),
        "created_at": campaign.created_at,
        "goal": settings.goal,
        "pool": {
            "path": str(settings.source.path), "candidates": settings.source.n_arms,
            "id": settings.source.id, "digest": settings.source.digest,
        },
        "policy": {"name": settings.policy, **settings.options},
        "kernel": settings.kernel or AUTO,
        "model": None if model is None else learned_facts(model, settings.columns, rewards),
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
        "assumptions": _assumptions(settings, model, seen),
    }  # fmt: skip


def _snapshot(campaign: Campaign) -> Snapshot:
    with campaign.store.reading() as connection:
        return campaign.store.snapshot(connection)


def _assumptions(settings: Settings, model: LearnedModel | None, seen: Snapshot) -> list[str]:
    """What was settled at `new`, and what the model took for granted since, each once."""
    if settings.learned:
        said = () if model is None else model.assumptions
    else:
        given = settings.noise, settings.signal, settings.mean
        said = assumed_units(settings.sign, *given, values_of(seen)).said
    return list(dict.fromkeys((*settings.assumptions, *said)))


def best_measured(told: list[Measured], sign: float) -> dict[str, Any] | None:
    """The candidate with the best average of its own results: no model, so a lucky single one may lead."""
    values = grouped((each.id, each.value) for each in told)
    if not values:
        return None
    name = max(values, key=lambda id: sign * sum(values[id]) / len(values[id]))
    return {"id": name, "average": sum(values[name]) / len(values[name]), "pulls": len(values[name])}


def best(campaign: Campaign, k: int = 20, everywhere: bool = False) -> list[TopRow]:
    """The k candidates with the best model mean among those measured, or, `everywhere`, in the whole pool."""
    seen = _snapshot(campaign)
    if not values_of(seen):
        raise NoResultsError("no result has been told yet")
    return _top(campaign, seen, *current(campaign.ground, seen), k, everywhere)


def _top(
    campaign: Campaign, seen: Snapshot, run: Optimizer, units: Units, k: int, everywhere: bool = False
) -> list[TopRow]:
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
    """All that the page shows, by the model with every result told so far.

    What a learned model said before there was any result is left out: it did not know the units.
    """
    told, seen = history(campaign), _snapshot(campaign)
    if campaign.settings.learned:
        told = [each if each.predicted_lower is not None else replace(each, predicted=None) for each in told]
    model, top = None, []
    if values_of(seen):
        run, units = current(campaign.ground, seen)
        model, top = run.model, _top(campaign, seen, run, units, k)
    shared = [each.name for each in fields(Measurement)]
    lines = [each.name for each in fields(BatchLine)]
    return Report(
        title=campaign.store.where.name,
        goal=campaign.settings.goal,
        facts=facts(status(campaign, model)),
        measurements=[Measurement(**{name: getattr(each, name) for name in shared}) for each in told],
        batches=[BatchLine(**{name: batch[name] for name in lines}) for batch in batches(campaign)],
        top=top,
        optimum=optimum,
    )


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
        *(
            learned_lines(found["model"])
            if found["kernel"] == AUTO
            else [("kernel", repr(from_description(found["kernel"])))]
        ),
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
        pa.int64(), pa.int64(), pa.string(), pa.float64(), pa.bool_(), pa.string(),
        *4 * [pa.float64()], pa.int64(), pa.string(),
    ]  # fmt: skip
    schema = pa.schema(list(zip(names, kinds, strict=True)))
    table = pa.Table.from_pylist([asdict(each) for each in told], schema=schema)
    with replacing(path, "wb") as stream:
        pq.write_table(table, stream)

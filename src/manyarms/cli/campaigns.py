"""The commands of a campaign once it is there: ask, tell, status, best, history, forget, export, report."""

from __future__ import annotations

import math
import sys
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from manyarms.campaigns import views
from manyarms.campaigns.batch_file import batch_lines, write_batch
from manyarms.campaigns.campaign import Campaign, Issued
from manyarms.campaigns.pool_file.files import replacing
from manyarms.campaigns.report import render
from manyarms.cli.new import new
from manyarms.cli.output import (
    CampaignArgument,
    JsonOption,
    PoolOption,
    guarded,
    print_json,
    print_table,
    say,
)
from manyarms.cli.progress import bar

_SHOWN_COLUMNS = 6  # of the user's own, in tables for people


@guarded
def ask(
    campaign: CampaignArgument,
    n: Annotated[int | None, typer.Option("-n", min=1, help="Exactly so many. [default: the rule]")] = None,
    at_most: Annotated[int | None, typer.Option(min=1, help="The rule, but no more than this.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write a CSV or TSV file to fill in and tell; - prints.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Only show the open tickets once more.")] = False,
    lease: Annotated[
        float | None, typer.Option(min=1, help="Seconds until the tickets are given up.")
    ] = None,
    worker: Annotated[str | None, typer.Option(help="Who measures them.")] = None,
    pool: PoolOption = None,
    as_json: JsonOption = False,
) -> None:
    """Hand out the next candidates to measure."""
    if n is not None and at_most is not None:
        raise typer.BadParameter("-n and --at-most exclude each other")
    if as_json and str(out) == "-":
        raise typer.BadParameter("--out - and --json both print: choose one")
    if lease is not None and not math.isfinite(lease):
        raise typer.BadParameter("--lease is a number of seconds")
    with (
        bar("fingerprints", quiet=as_json) as progress,
        Campaign(campaign, pool=pool, progress=progress) as found,
    ):

        def deliver(issued: list[Issued]) -> None:
            delimiter = "\t" if out is not None and out.suffix == ".tsv" else ","
            with _opened(out) as stream:
                if stream is not None:
                    write_batch(stream, issued, found.id_column, delimiter)
            if as_json:
                print_json({"tickets": issued, "out": None if out is None else str(out)})
                sys.stdout.flush()

        if again:
            issued = found.open_tickets()
            deliver(issued)
        else:
            issued = found.ask(n, at_most=at_most, worker=worker, lease_seconds=lease, deliver=deliver)
        if not as_json:
            _show_batch(issued, found.id_column, out)


def _opened(out: Path | None) -> Any:
    if out is None:
        return nullcontext(None)
    return nullcontext(sys.stdout) if str(out) == "-" else replacing(out)


def _show_batch(issued: list[Issued], id_column: str, out: Path | None) -> None:
    if out is not None and str(out) != "-":
        say(f"{len(issued)} tickets in {out}; fill in its column 'value' and tell it")
    elif out is None:
        lines = batch_lines(issued, id_column)
        own = list(issued[0].columns)[:_SHOWN_COLUMNS] if issued else []
        header = ["ticket", id_column, *own, "predicted_mean", "predicted_sd", "reason"]
        print_table(header, [[line.get(name, line.get(f"pool.{name}")) for name in header] for line in lines])


@guarded
def tell(
    campaign: CampaignArgument,
    results: Annotated[
        Path,
        typer.Argument(
            help="CSV or TSV with 'ticket' and/or the id column, 'value', maybe 'failed'; - reads."
        ),
    ],
    pool: PoolOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take in results, all of the file or nothing. The same file twice changes nothing."""
    with Campaign(campaign, pool=pool) as found:
        if str(results) == "-":
            told = found.tell_bytes(sys.stdin.buffer.read(), "standard input")
        else:
            told = found.tell_file(results)
    if as_json:
        print_json(told)
    else:
        say(
            f"{told.new} results taken in ({told.failed} failed, {told.unasked} not asked for, "
            f"{told.late} late), {told.known} known already, {told.unmeasured} not measured yet"
        )


@guarded
def status(campaign: CampaignArgument, as_json: JsonOption = False) -> None:
    """Settings, counts, what was learned and what was assumed."""
    with Campaign(campaign) as found:
        current = views.status(found)
    if as_json:
        print_json(current)
    else:
        for label, text in views.facts(current):
            say(f"{label:<14} {text}")


@guarded
def best(
    campaign: CampaignArgument,
    k: Annotated[int, typer.Option("-k", min=1, help="How many.")] = 20,
    everywhere: Annotated[
        bool, typer.Option("--everywhere", help="Also candidates that were never measured.")
    ] = False,
    pool: PoolOption = None,
    as_json: JsonOption = False,
) -> None:
    """The candidates with the best model mean."""
    with (
        bar("fingerprints", quiet=as_json) as progress,
        Campaign(campaign, pool=pool, progress=progress) as found,
    ):
        top, id_column = views.best(found, k, everywhere), found.id_column
    if as_json:
        print_json({"best": top})
        return
    own = list(top[0].columns)[:_SHOWN_COLUMNS]
    header = ["rank", id_column, "mean", "sd", "measured", "average", *own]
    print_table(
        header,
        [[t.rank, t.id, t.mean, t.std, t.pulls, t.average, *(t.columns[name] for name in own)] for t in top],
    )


@guarded
def history(
    campaign: CampaignArgument,
    last: Annotated[int, typer.Option(min=1, help="How many of the latest.")] = 20,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    as_json: JsonOption = False,
) -> None:
    """What was told, in order."""
    with Campaign(campaign) as found:
        told = views.history(found)
    shown = told if everything else told[-last:]
    if as_json:
        print_json({"results": shown, "total": len(told)})
    elif not told:
        say("no result has been told yet")
    else:
        rows = [asdict(each) for each in shown]
        header = [name for name in rows[0] if any(row[name] is not None for row in rows)]
        print_table(header, [[row[name] for name in header] for row in rows])


@guarded
def forget(
    campaign: CampaignArgument,
    tickets: Annotated[list[int] | None, typer.Argument(help="Tickets to give up.")] = None,
    batch: Annotated[int | None, typer.Option(help="All open tickets of this batch.")] = None,
    all_open: Annotated[bool, typer.Option("--all-open", help="Every open ticket.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Give tickets up, so that their candidates may be asked again. Late results still count."""
    if not tickets and batch is None and not all_open:
        raise typer.BadParameter("say which: TICKETS, --batch or --all-open")
    with Campaign(campaign) as found:
        chosen = found.choose_open(tickets or [], batch, all_open)
        found.forget(chosen)
    if as_json:
        print_json({"forgotten": chosen})
    else:
        say(f"{len(chosen)} tickets given up")


@guarded
def export(
    campaign: CampaignArgument,
    out: Annotated[Path, typer.Argument(help="A .csv, .tsv or .parquet file.")],
    as_json: JsonOption = False,
) -> None:
    """Write the whole history to a file."""
    with Campaign(campaign) as found:
        rows = views.export(found, out)
    if as_json:
        print_json({"rows": rows, "out": str(out)})
    else:
        say(f"{rows} results in {out}")


@guarded
def report(
    campaign: CampaignArgument,
    html: Annotated[
        Path | None, typer.Option("--html", help="Where to write the page. [default: NAME.html]")
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Rows of the table of the best.")] = 20,
    optimum: Annotated[float | None, typer.Option(help="The best possible value, if it is known.")] = None,
    pool: PoolOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the report: one self-contained page."""
    with (
        bar("fingerprints", quiet=as_json) as progress,
        Campaign(campaign, pool=pool, progress=progress) as found,
    ):
        page, path = views.report(found, k, optimum), html or Path(f"{found.store.where.name}.html")
    with replacing(path) as stream:
        stream.write(render(page))
    if as_json:
        print_json({"out": str(path), "report": page})
    else:
        say(f"the report is in {path}")


def register(app: typer.Typer) -> None:
    """Add these commands, in the order a campaign uses them."""
    for command in (new, ask, tell, status, best, history, forget, export, report):
        app.command(command.__name__)(command)

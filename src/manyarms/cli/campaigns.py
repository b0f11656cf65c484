"""The short commands on an existing campaign: status, best, history, forget, export, report."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from manyarms.campaigns.export import export as write_export
from manyarms.campaigns.export import shown_row
from manyarms.campaigns.status import status_lines
from manyarms.campaigns.text import counted
from manyarms.cli.ask import ask
from manyarms.cli.candidates import add, exclude
from manyarms.cli.explanation import show_explanation
from manyarms.cli.new import new
from manyarms.cli.opening import is_url, opened
from manyarms.cli.output import (
    SHOWN_COLUMNS,
    CampaignArgument,
    EngineOption,
    ForceOption,
    JsonOption,
    PoolOption,
    guarded,
    print_json,
    print_table,
    say,
)
from manyarms.cli.progress import bar
from manyarms.cli.results import correct, tell, untell
from manyarms.plots.plot import altair_module
from manyarms.support.output_files import check_writable, replacing


@guarded
def status(
    campaign: CampaignArgument,
    certify: Annotated[
        bool,
        typer.Option(
            "--certify",
            help="Compute the certificate and the expected gain from all results instead of showing those of "
            "the last ask.",
        ),
    ] = False,
    pool: PoolOption = None,
    engine: EngineOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show settings, counts, the learned model, the certificate, the expected gain and the assumptions."""
    with opened(campaign, pool, engine=engine) as found:
        current = found.status(certify)
    if as_json:
        print_json(current)
    else:
        for label, text in status_lines(current):
            say(f"{label:<14} {text}")


@guarded
def best(
    campaign: CampaignArgument,
    k: Annotated[int, typer.Option("-k", min=1, help="Number of candidates to show.")] = 20,
    everywhere: Annotated[
        bool, typer.Option("--everywhere", help="Include candidates that have not been measured.")
    ] = False,
    pool: PoolOption = None,
    engine: EngineOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the measured candidates with the best model mean."""
    with (
        bar("fingerprints", quiet=as_json) as progress,
        opened(campaign, pool, progress, engine=engine) as found,
    ):
        top, id_column = found.best(k, everywhere), found.form.id_column
    if as_json:
        print_json({"best": top})
        return
    own = list(top[0].columns)[:SHOWN_COLUMNS]
    header = ["rank", id_column, "mean", "sd", "measurements", "average", *own]
    print_table(
        header,
        [[t.rank, t.id, t.mean, t.std, t.pulls, t.average, *(t.columns[name] for name in own)] for t in top],
    )


@guarded
def explain(
    campaign: CampaignArgument,
    id: Annotated[list[str], typer.Option("--id", help="Id of a candidate. Can be repeated.")],
    pool: PoolOption = None,
    engine: EngineOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say why: the prediction, the nearest measured candidates, and what each column contributes."""
    with (
        bar("fingerprints", quiet=as_json) as progress,
        opened(campaign, pool, progress, engine=engine) as found,
    ):
        explanations = found.explain(id)
    if as_json:
        print_json({"explanations": explanations})
        return
    for each in explanations:
        show_explanation(each)


@guarded
def history(
    campaign: CampaignArgument,
    last: Annotated[int, typer.Option(min=1, help="Number of latest results to show.")] = 20,
    everything: Annotated[bool, typer.Option("--all", help="Show all results.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the recorded results in the order of recording, and every correction."""
    with opened(campaign) as found:
        results, corrected = found.history(), found.corrections()
    rows = [shown_row(each) for each in (results if everything else results[-last:])]
    audit = [asdict(each) for each in corrected]
    if as_json:
        print_json({"results": rows, "total": len(results), "corrections": audit})
        return
    if not results:
        say("The campaign has no results yet.")
    _print_rows(rows)
    if audit:
        say(f"{counted(len(audit), 'correction')}, the latest last:")
        failed = {"old_value": "failed", "new_value": "failed"}
        _print_rows([
            {key: failed.get(key) if cell is None and row["action"] == "corrected" else cell
             for key, cell in row.items()}
            for row in audit
        ])  # fmt: skip


def _print_rows(rows: list[dict[str, Any]]) -> None:
    """Print a table without the columns that are empty."""
    if rows:
        header = [name for name in rows[0] if any(row[name] is not None for row in rows)]
        print_table(header, [[row[name] for name in header] for row in rows])


@guarded
def forget(
    campaign: CampaignArgument,
    tickets: Annotated[
        list[str] | None, typer.Argument(metavar="[TICKETS]...", help="Tickets to forget.")
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Forget all open tickets of this batch.")] = None,
    all_open: Annotated[bool, typer.Option("--all-open", help="Forget every open ticket.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Cancel open tickets so that their candidates may be asked for again.

    A result that arrives later for a forgotten ticket is still recorded.
    """
    if not tickets and batch is None and not all_open:
        raise typer.BadParameter("specify TICKETS, --batch or --all-open")
    with opened(campaign) as found:
        chosen = found.forget(tickets or [], batch, all_open)
    if as_json:
        print_json({"forgotten": chosen})
    else:
        say(f"Cancelled {counted(len(chosen), 'ticket')}.")


@guarded
def export(
    campaign: CampaignArgument,
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="Output file with the ending .csv, .tsv, .xlsx or .parquet.")
    ],
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write every recorded result to a file. The file can be told to a new campaign as it is."""
    with opened(campaign) as found:
        rows = write_export(found, out, force)
    if as_json:
        print_json({"rows": rows, "out": str(out)})
    else:
        say(f"Wrote {counted(rows, 'result')} to {out}.")


@guarded
def report(
    campaign: CampaignArgument,
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Output file.", show_default="NAME.html, after the campaign's name"),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Number of candidates in the table of the best.")] = 20,
    optimum: Annotated[
        float | None, typer.Option(help="Best possible value, if it is known; adds a regret chart.")
    ] = None,
    force: ForceOption = False,
    pool: PoolOption = None,
    engine: EngineOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the report as one self-contained HTML page."""
    if not is_url(campaign):
        altair_module()  # says at once what is missing
    with (
        bar("fingerprints", quiet=as_json) as progress,
        opened(campaign, pool, progress, engine=engine) as found,
    ):
        path, never = html or Path(f"{found.name}.html"), found.never_overwritten
        check_writable(path, force=force, never=never)
        page, contents = found.report(k, optimum)
    with replacing(path, force=force, never=never) as stream:
        stream.write(page)
    if as_json:
        print_json({"out": str(path), "report": contents})
    else:
        say(f"Wrote the report to {path}.")


def register(app: typer.Typer) -> None:
    """Register these commands in the order in which a campaign uses them."""
    commands = (
        new, ask, tell, correct, untell, status, best, explain, history, forget, add, exclude, export, report
    )  # fmt: skip
    for command in commands:
        app.command(command.__name__)(command)

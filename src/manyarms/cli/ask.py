"""`manyarms ask`: hand out the next batch of a campaign."""

from __future__ import annotations

import math
import shlex
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from manyarms.campaigns.batch_file import batch_lines, write_batch
from manyarms.campaigns.campaign import Campaign, Issued
from manyarms.campaigns.pool_file.files import replacing
from manyarms.campaigns.text import counted
from manyarms.cli.output import (
    SHOWN_COLUMNS,
    CampaignArgument,
    JsonOption,
    PoolOption,
    UntilGapOption,
    guarded,
    print_json,
    print_table,
    say,
)
from manyarms.cli.progress import bar
from manyarms.pool.excel import is_workbook

Size = Annotated[
    int | None,
    typer.Option(
        "-n",
        min=1,
        help="Ask for exactly N candidates.",
        metavar="N",
        show_default="the policy's stopping rule decides",
    ),
]
AtMost = Annotated[
    int | None,
    typer.Option(min=1, help="Let the stopping rule decide, but ask for at most this many candidates."),
]
Out = Annotated[
    Path | None,
    typer.Option(help="Write the batch to a CSV, TSV or Excel file to fill in; - writes to standard output."),
]
Again = Annotated[
    bool, typer.Option("--again", help="Show the open tickets again without asking for new ones.")
]
Lease = Annotated[
    float | None,
    typer.Option(
        min=1, help="Seconds after which tickets without a result are forgotten.", show_default="never"
    ),
]
Eligible = Annotated[
    str | None,
    typer.Option(help="Condition on the columns, such as \"price < 30 and solvent == 'water'\"."),
]
EligibleIds = Annotated[
    Path | None, typer.Option(help="File with the ids of the candidates to choose from, one per line.")
]
Worker = Annotated[str | None, typer.Option(help="Name of whoever measures the batch, stored with it.")]


@guarded
def ask(
    campaign: CampaignArgument,
    n: Size = None,
    at_most: AtMost = None,
    out: Out = None,
    again: Again = False,
    lease: Lease = None,
    worker: Worker = None,
    until_gap: UntilGapOption = None,
    eligible: Eligible = None,
    eligible_ids: EligibleIds = None,
    pool: PoolOption = None,
    as_json: JsonOption = False,
) -> None:
    """Choose the next candidates to measure and hand out a ticket for each."""
    if n is not None and at_most is not None:
        raise typer.BadParameter("-n and --at-most cannot be combined")
    if as_json and str(out) == "-":
        raise typer.BadParameter("--out - and --json both write to standard output and cannot be combined")
    if lease is not None and not math.isfinite(lease):
        raise typer.BadParameter("--lease must be a finite number of seconds")
    with (
        bar("fingerprints", quiet=as_json) as progress,
        Campaign(campaign, pool=pool, progress=progress) as found,
    ):

        def deliver(issued: list[Issued]) -> None:
            delimiter: str | None = "\t" if out is not None and out.suffix == ".tsv" else ","
            delimiter = None if out is not None and is_workbook(out) else delimiter
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
            allowed = found.eligible(eligible, eligible_ids)
            issued = found.ask(
                n,
                at_most=at_most,
                worker=worker,
                lease_seconds=lease,
                until_gap=until_gap,
                deliver=deliver,
                eligible=allowed,
            )
        if not as_json:
            _show_batch(issued, campaign, found.id_column, out)


def _opened(out: Path | None) -> Any:
    if out is None:
        return nullcontext(None)
    return nullcontext(sys.stdout) if str(out) == "-" else replacing(out, "wb" if is_workbook(out) else "w")


def _show_batch(issued: list[Issued], campaign: str, id_column: str, out: Path | None) -> None:
    if out is not None and str(out) != "-":
        tell_it = shlex.join(["manyarms", "tell", campaign, str(out)])
        say(
            f"Wrote {counted(len(issued), 'ticket')} to {out}. "
            f"Fill in the column 'value', then run: {tell_it}"
        )
    elif out is None:
        lines = batch_lines(issued, id_column)
        own = list(issued[0].columns)[:SHOWN_COLUMNS] if issued else []
        header = ["ticket", id_column, *own, "predicted_mean", "predicted_sd", "reason"]
        print_table(header, [[line.get(name, line.get(f"pool.{name}")) for name in header] for line in lines])

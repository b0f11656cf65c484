"""`manyarms ask`: hand out the next batch of a campaign."""

from __future__ import annotations

import math
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from manyarms.campaigns.access import CampaignAccess, Eligible
from manyarms.campaigns.batch_file import EXPLAINED, batch_lines, write_batch
from manyarms.campaigns.eligible import ids_in_file
from manyarms.campaigns.orders import COST_COLUMNS, Issued
from manyarms.campaigns.text import counted, masked, one_line
from manyarms.cli.opening import opened
from manyarms.cli.output import (
    SHOWN_COLUMNS,
    CampaignArgument,
    EngineOption,
    ForceOption,
    JsonOption,
    PoolOption,
    UntilGainOption,
    UntilGapOption,
    guarded,
    print_json,
    print_table,
    say,
)
from manyarms.cli.progress import bar
from manyarms.pool.excel import is_workbook
from manyarms.support.output_files import OutputFile

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
    list[str] | None,
    typer.Option(
        help="Let the stopping rule decide, but ask for at most this many candidates (a number); or, as "
        "COLUMN=N, let at most N candidates of the batch have the same value in a column. Can be repeated.",
        metavar="N|COLUMN=N",
    ),
]
Same = Annotated[
    str | None,
    typer.Option(help="Choose candidates that all have the same value in this column.", metavar="COLUMN"),
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
Condition = Annotated[
    str | None,
    typer.Option(help="Condition on the columns, such as \"price < 30 and solvent == 'water'\"."),
]
EligibleIds = Annotated[
    Path | None, typer.Option(help="File with the ids of the candidates to choose from, one per line.")
]
Explain = Annotated[
    bool,
    typer.Option(
        "--explain",
        help="Say for each candidate which measured ones are nearest, and which columns speak for it; "
        "also in the file and in JSON.",
    ),
]
MaxCost = Annotated[
    float | None,
    typer.Option(help="What this batch may cost at most, in a campaign with costs.", show_default="no limit"),
]
PerCost = Annotated[
    bool | None,
    typer.Option(
        "--per-cost/--by-bounds",
        help="Choose this batch by expected improvement per unit of cost, or by upper bounds.",
        show_default="as the campaign was created",
    ),
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
    until_gain: UntilGainOption = None,
    explain: Explain = False,
    eligible: Condition = None,
    eligible_ids: EligibleIds = None,
    same: Same = None,
    max_cost: MaxCost = None,
    per_cost: PerCost = None,
    force: ForceOption = False,
    pool: PoolOption = None,
    engine: EngineOption = None,
    as_json: JsonOption = False,
) -> None:
    """Choose the next candidates to measure and hand out a ticket for each."""
    most, most_each = _limits(at_most or [])
    if n is not None and most is not None:
        raise typer.BadParameter("-n and --at-most N cannot be combined")
    if as_json and str(out) == "-":
        raise typer.BadParameter("--out - and --json both write to standard output and cannot be combined")
    if lease is not None and not math.isfinite(lease):
        raise typer.BadParameter("--lease must be a finite number of seconds")
    with (
        bar("fingerprints", quiet=as_json) as progress,
        opened(campaign, pool, progress, engine=engine) as found,
    ):
        delivery = _Delivery(found, out, force, as_json)
        if again:
            issued = found.open_tickets()
            delivery(issued)
        else:
            listed = None if eligible_ids is None else ids_in_file(eligible_ids, found.form.id_column)
            limits = Eligible(eligible, listed, same, most_each, max_cost, per_cost)
            try:
                issued = found.ask(
                    n,
                    at_most=most,
                    worker=worker,
                    lease_seconds=lease,
                    until_gap=until_gap,
                    until_gain=until_gain,
                    explain=explain,
                    deliver=delivery,
                    eligible=None if limits == Eligible() else limits,
                )
            except BaseException:  # the batch was not handed out, so its file must not remain
                delivery.withdraw()
                raise
        delivery.settle()
        if not as_json:
            _show_batch(issued, masked(campaign), found.form.id_column, out)
            for warning in found.status()["warnings"]:
                print(f"manyarms: {one_line(warning)}", file=sys.stderr)


def _limits(given: list[str]) -> tuple[int | None, tuple[tuple[str, int], ...]]:
    """The values of --at-most: the largest size of the batch, and the limits for columns."""
    sizes, columns = list[int](), dict[str, int]()
    for text in given:
        column, equals, number = text.rpartition("=")
        if not number.isdecimal() or int(number) < 1 or (equals and not column):
            raise typer.BadParameter(f"--at-most {text}: write a number, or COLUMN=NUMBER, from 1 upwards")
        if column in columns or (not equals and sizes):
            raise typer.BadParameter(f"--at-most {text}: there are two limits of this kind")
        if equals:
            columns[column] = int(number)
        else:
            sizes.append(int(number))
    return (sizes[0] if sizes else None), tuple(columns.items())


class _Delivery:
    """Writes a batch where the user wants it, and takes the file back if the batch is not handed out."""

    def __init__(self, campaign: CampaignAccess, out: Path | None, force: bool, as_json: bool) -> None:
        self._campaign, self._out, self._as_json = campaign, out, as_json
        named = out is not None and str(out) != "-"
        self._file = OutputFile(out, force, campaign.never_overwritten) if out and named else None
        if self._file is not None:
            self._file.check()

    def __call__(self, issued: list[Issued]) -> None:
        """Write the batch to the file or to standard output."""
        id_column, out = self._campaign.form.id_column, self._out
        if self._file is not None:
            path = self._file.path
            delimiter = None if is_workbook(path) else "\t" if path.suffix == ".tsv" else ","
            with self._file.writing("wb" if delimiter is None else "w") as stream:
                write_batch(stream, issued, id_column, delimiter)
        elif out is not None:
            write_batch(sys.stdout, issued, id_column)
        if self._as_json:
            print_json({"tickets": list(map(_plain, issued)), "out": None if out is None else str(out)})
            sys.stdout.flush()

    def settle(self) -> None:
        """The batch was handed out."""
        if self._file is not None:
            self._file.settle()

    def withdraw(self) -> None:
        """The batch was not handed out."""
        if self._file is not None:
            self._file.withdraw()


def _plain(issued: Issued) -> dict[str, Any]:
    """The ticket by its name, as in a batch file, and its number apart."""
    plain = asdict(issued)
    if issued.explanation is None:
        del plain["explanation"]
    if issued.cost is None:
        del plain["cost"], plain["gain"]
    else:
        plain["gain_per_cost"] = issued.gain_per_cost
    return {"ticket": plain.pop("code"), "number": plain.pop("ticket"), **plain}


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
        if any(each.explanation for each in issued):
            own = [name for name in EXPLAINED if any(line[name] for line in lines)]
        costs = [name for name in COST_COLUMNS if any(each.cost for each in issued)]
        header = ["ticket", id_column, *own, "predicted_mean", "predicted_sd", *costs, "reason"]
        print_table(header, [[line.get(name, line.get(f"pool.{name}")) for name in header] for line in lines])

"""`manyarms tell`, `correct` and `untell`: record results, correct them, and remove them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from manyarms.campaigns.access import CampaignAccess
from manyarms.campaigns.correction_file import read_corrections
from manyarms.campaigns.file_versions import Mode
from manyarms.campaigns.import_plan import ImportSummary
from manyarms.campaigns.results_file import ReportedResult, checked_value, read_file, ticket_row
from manyarms.campaigns.store.corrections import Change
from manyarms.campaigns.text import counted
from manyarms.cli.opening import opened
from manyarms.cli.output import CampaignArgument, JsonOption, PoolOption, guarded, print_json, say

Ticket = Annotated[str | None, typer.Option("--ticket", help="Ticket of the result, such as 7-k3f5m.")]
Id = Annotated[str | None, typer.Option("--id", help="Id of the candidate, instead of a ticket.")]
Was = Annotated[
    str | None,
    typer.Option("--was", help="Present value (or failed), if the candidate has several results."),
]
Why = Annotated[str | None, typer.Option("--why", help="Reason, kept in the record of corrections.")]
Who = Annotated[
    str | None,
    typer.Option("--who", help="Who makes the change.", show_default="the user and the machine"),
]


@guarded
def tell(
    campaign: CampaignArgument,
    results: Annotated[
        Path,
        typer.Argument(
            metavar="RESULTS",
            help="CSV or TSV file with a column 'value', a column 'ticket' or the id column (or both), and "
            "optionally columns 'failed', 'noise_std' and 'replicates'; - reads standard input.",
        ),
    ],
    correct: Annotated[
        bool,
        typer.Option("--correct", help="The file replaces its earlier version: correct what has changed."),
    ] = False,
    replicates: Annotated[
        bool, typer.Option("--replicates", help="Rows that differ are further measurements.")
    ] = False,
    as_new: Annotated[
        bool, typer.Option("--as-new", help="Every row without a ticket is a further measurement.")
    ] = False,
    pool: PoolOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import a results file atomically; importing it again changes nothing.

    If the rows without a ticket differ from an earlier version of the file, you are asked what they mean.
    """
    given = {Mode.CORRECT: correct, Mode.REPLICATES: replicates, Mode.AS_NEW: as_new}
    chosen = [mode for mode, wanted in given.items() if wanted]
    if len(chosen) > 1:
        raise typer.BadParameter("specify only one of --correct, --replicates and --as-new")
    mode = chosen[0] if chosen else Mode.ASK
    with opened(campaign, pool) as found:
        if str(results) == "-":
            summary = found.tell_bytes(sys.stdin.buffer.read(), "standard input", mode)
        else:
            summary = found.tell_bytes(read_file(results), str(results), mode)
    if as_json:
        print_json(summary)
    else:
        _show_import(summary)


def _show_import(summary: ImportSummary) -> None:
    say(
        f"Imported {counted(summary.new, 'new result')} ({summary.failed} failed, "
        f"{summary.unasked} without a ticket, {summary.late} late). "
        f"Skipped {counted(summary.known, 'recorded result')} "
        f"and {counted(summary.unmeasured, 'row')} without a value."
    )
    if summary.corrected or summary.removed:
        say(
            f"Corrected {counted(summary.corrected, 'result')} and removed {summary.removed}; "
            f"`manyarms history` shows the old values."
        )
    if summary.untold:
        say(f"Skipped {counted(summary.untold, 'row')} whose result was removed with `manyarms untell`.")
    if summary.missing:
        say(
            f"{counted(summary.missing, 'result')} of the earlier version of the file stayed recorded; "
            f"use --correct to remove what the file no longer has, or `manyarms untell`."
        )


@guarded
def correct(
    campaign: CampaignArgument,
    results: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="CSV or TSV file with a column 'ticket' or the id column, the right 'value', and optionally "
            "'failed', the noise, and the present value as 'was'; instead of --ticket or --id.",
        ),
    ] = None,
    ticket: Ticket = None,
    id: Id = None,
    value: Annotated[str | None, typer.Option("--value", help="Right value (or failed).")] = None,
    was: Was = None,
    why: Why = None,
    who: Who = None,
    as_json: JsonOption = False,
) -> None:
    """Correct recorded results. The old values stay in the record that `history` shows.

    The next ask computes the model anew from the corrected results.
    """
    if results is None and value is None:
        raise typer.BadParameter("specify FILE or --value")
    with opened(campaign) as found:
        rows, before = _rows(found, results, ticket, id, value, was, remove=False)
        changes = found.correct(rows, before, why=why, who=who)
    same = len(rows) - len(changes)
    if as_json:
        print_json({"corrected": len(changes), "unchanged": same})
        return
    for change in changes[:5]:
        say(f"{_subject(change)}: {_shown(change.result.value)} is now {_shown(change.value)}")
    say(f"Corrected {counted(len(changes), 'result')}; {same} had the right value already.")


@guarded
def untell(
    campaign: CampaignArgument,
    results: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="Results file whose results are removed, as it was imported; instead of --ticket or --id.",
        ),
    ] = None,
    ticket: Ticket = None,
    id: Id = None,
    was: Was = None,
    why: Why = None,
    who: Who = None,
    as_json: JsonOption = False,
) -> None:
    """Remove recorded results. `history` still shows them, and their tickets are open again.

    The next ask computes the model anew from the other results.
    """
    with opened(campaign) as found:
        rows, before = _rows(found, results, ticket, id, None, was, remove=True)
        changes = found.correct(rows, before, why=why, who=who, remove=True)
    reopened = sum(change.result.ticket is not None for change in changes)
    if as_json:
        print_json({"removed": len(changes), "tickets": reopened})
        return
    for change in changes[:5]:
        say(f"{_subject(change)}: removed {_shown(change.result.value)}")
    say(
        f"Removed {counted(len(changes), 'result')}, {reopened} of them with a ticket, which is open again "
        f"unless it was forgotten before."
    )


def _rows(
    campaign: CampaignAccess,
    file: Path | None,
    ticket: str | None,
    id: str | None,
    value: str | None,
    was: str | None,
    *,
    remove: bool,
) -> tuple[list[ReportedResult], list[float | str | None]]:
    """The results to change and their present values, from a file or from the options."""
    if (file is None) == (ticket is None and id is None):
        raise typer.BadParameter("specify either FILE, or --ticket or --id")
    if file is not None:
        return read_corrections(campaign.form, file, remove=remove)
    new = None if value is None or value == "failed" else checked_value("--value", value)
    before = was if was is None or was == "failed" else checked_value("--was", was)
    return [ticket_row("--ticket: ", ticket or "", id, new)], [before]


def _subject(change: Change) -> str:
    return change.result.name if change.result.ticket is None else f"ticket {change.result.ticket}"


def _shown(value: float | None) -> str:
    return "failed" if value is None else f"{value:g}"

"""`manyarms agents join`, `measure` and `tell`: what an organisation that was invited does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from manyarms.campaigns.text import counted
from manyarms.cli.agents_options import Command, Function, Pattern, Timeout, Workers
from manyarms.cli.output import JsonOption, guarded, print_json, say
from manyarms.cli.progress import bar

if TYPE_CHECKING:
    from manyarms.federation.http_carrier import HttpCarrier
    from manyarms.federation.member import Member
    from manyarms.federation.table import CandidateTable
    from manyarms.federation.working import Measurer, Progress

_MOST_LISTED = 20  # candidates in a text; JSON has all of them
Offline = Annotated[
    bool, typer.Option("--offline", help="Exchange nothing now; another process carries the packets.")
]
AgentArgument = Annotated[
    Path, typer.Argument(metavar="AGENT", help="File of the agent that `agents join` has made.")
]


@guarded
def join(
    invitation: Annotated[Path, typer.Argument(metavar="INVITATION", help="The invitation you received.")],
    pool: Annotated[Path, typer.Option("--pool", help="Your copy of the table of candidates.")],
    agent: Annotated[
        Path | None,
        typer.Option("--file", help="File of the agent.", show_default="beside the invitation"),
    ] = None,
    command: Command = None,
    value_pattern: Pattern = None,
    python: Function = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Batch file for the open trials, to fill in by hand."),
    ] = None,
    workers: Workers = 1,
    timeout: Timeout = None,
    certificate: Annotated[
        Path | None, typer.Option(help="Your client certificate (PEM), if the service asks for one.")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="The key of your certificate (PEM).")] = None,
    poll: Annotated[
        float, typer.Option(min=0.05, help="Longest pause between two looks, in seconds.")
    ] = 30.0,
    offline: Offline = False,
    as_json: JsonOption = False,
) -> None:
    """Join a run, or continue: with --command or --python until the run is over, otherwise once.

    After Ctrl-C or a crash, run the same command again. A trial that has a value is never measured again.
    """
    _check_measuring(command, value_pattern, python)
    from manyarms.federation.http_carrier import HttpCarrier
    from manyarms.federation.invitation import Invitation
    from manyarms.federation.member import Member
    from manyarms.federation.table import CandidateTable

    given = Invitation.read(invitation)
    table = CandidateTable.of_run(given.description, pool)
    carrier = None if offline else HttpCarrier(given, certificate, key)
    member = Member.join(agent or invitation.with_suffix(".agent"), given, table.pool)
    try:
        with member.file.in_use():
            if command is None and python is None:
                _exchange_once(member, carrier)
            else:
                measurers = _measurers(member, table, command, value_pattern, python, workers, timeout)
                _work(member, carrier, measurers, poll, quiet=as_json)
        _report(member, table, output, as_json)
    finally:
        _close(member, carrier)


@guarded
def measure(
    agent: AgentArgument,
    pool: Annotated[Path, typer.Option("--pool", help="Your copy of the table of candidates.")],
    command: Command = None,
    value_pattern: Pattern = None,
    python: Function = None,
    workers: Workers = 1,
    timeout: Timeout = None,
    poll: Annotated[float, typer.Option(min=0.05, help="Longest pause between looks, seconds.")] = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Measure the trials of an agent whose packets another process carries, such as a Flower SuperNode."""
    _check_measuring(command, value_pattern, python)
    if command is None and python is None:
        raise typer.BadParameter("specify --command or --python")
    from manyarms.federation.agent_file import AgentFile
    from manyarms.federation.member import Member
    from manyarms.federation.table import CandidateTable

    file = AgentFile(agent)
    table = CandidateTable.of_run(file.invitation.description, pool)
    member = Member(file, table.pool)
    try:
        with file.in_use():
            measurers = _measurers(member, table, command, value_pattern, python, workers, timeout)
            _work(member, None, measurers, poll, quiet=as_json)
        _report(member, table, None, as_json)
    finally:
        member.close()


@guarded
def tell(
    agent: AgentArgument,
    results: Annotated[Path, typer.Argument(metavar="FILE", help="Completed batch file: CSV, TSV or Excel.")],
    pool: Annotated[Path, typer.Option("--pool", help="Your copy of the table of candidates.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Batch file for the next open trials.")
    ] = None,
    certificate: Annotated[Path | None, typer.Option(help="Your client certificate (PEM).")] = None,
    key: Annotated[Path | None, typer.Option(help="The key of your certificate (PEM).")] = None,
    offline: Offline = False,
    as_json: JsonOption = False,
) -> None:
    """Record values that were measured by hand, and exchange messages with the server.

    The values are safe in the file of the agent even if the server cannot be reached; then run `agents join`
    or this command again later.
    """
    from manyarms.federation.agent_file import AgentFile
    from manyarms.federation.http_carrier import HttpCarrier
    from manyarms.federation.measuring import read_values
    from manyarms.federation.member import Member
    from manyarms.federation.table import CandidateTable

    file = AgentFile(agent)
    table = CandidateTable.of_run(file.invitation.description, pool)
    member = Member(file, table.pool)
    carrier = None if offline else HttpCarrier(file.invitation, certificate, key)
    try:
        with file.in_use():
            new = _tell(member, read_values(member, table, results))
            if not as_json:
                say(f"{counted(new, 'new value')} in {results}." if new else f"No new value in {results}.")
            _exchange_once(member, carrier)
        _report(member, table, output, as_json)
    finally:
        _close(member, carrier)


def register(app: typer.Typer) -> None:
    """Add these commands to the group."""
    for command in (join, measure, tell):
        app.command(command.__name__)(command)


# ------------------------------------------------------------------ shared steps


def _check_measuring(command: str | None, pattern: str | None, python: str | None) -> None:
    if command is not None and python is not None:
        raise typer.BadParameter("specify either --command or --python")
    if pattern is not None and command is None:
        raise typer.BadParameter("--value-pattern needs --command")


def _ids_left(member: Member, table: CandidateTable) -> list[str] | None:
    """The candidates that may still be the best, if the algorithm removes the others."""
    arms = member.arms_left
    return None if arms is None else [str(id) for id in table.pool.ids_of(arms)]


def _tell(member: Member, values: dict[int, float]) -> int:
    """Record the values; return how many of them are new."""
    before = _n_told(member)
    member.tell(values)
    return _n_told(member) - before


def _n_told(member: Member) -> int:
    return sum(row.value is not None for row in member.file.trials())


def _exchange_once(member: Member, carrier: HttpCarrier | None) -> None:
    from manyarms.federation.working import once

    if carrier is not None:
        once(member, carrier.exchange)


def _close(member: Member, carrier: HttpCarrier | None) -> None:
    if carrier is not None:
        carrier.close()
    member.close()


def _measurers(
    member: Member, table: CandidateTable, command: str | None, pattern: str | None, python: str | None,
    workers: int, timeout: float | None,
) -> list[Measurer]:  # fmt: skip
    from manyarms.federation.measuring import TableTrial, command_trials, python_trials

    if command is not None:
        make = command_trials(table, command, pattern)
    else:
        assert python is not None
        make = python_trials(table, python)
    return [TableTrial(member, table, make(), timeout) for _ in range(workers)]


def _work(
    member: Member, carrier: HttpCarrier | None, measurers: list[Measurer], poll: float, quiet: bool
) -> None:
    from manyarms.federation.working import WorkPlan, work

    plan = WorkPlan(shortest_poll=min(0.2, poll), longest_poll=poll)
    total = int(member.description.settings["horizon"])
    with bar("trials", quiet=quiet) as move:

        def show(now: Progress) -> None:
            move(now.told, total, text=now.text or ("waiting for the others" if not now.open else ""))

        work(member, None if carrier is None else carrier.exchange, measurers, plan, show)


def _report(member: Member, table: CandidateTable, output: Path | None, as_json: bool) -> None:
    """Say what is open, and write it to the batch file."""
    from manyarms.federation.measuring import write_open_trials

    pulls = member.open_trials()
    n_open = 0 if pulls is None else len(pulls)
    if output is not None and n_open:
        write_open_trials(member, table, output)
    told = _n_told(member)
    if as_json:
        print_json({
            "agent": member.number, "told": told, "open": n_open, "done": member.done, "over": member.over,
            "left": _ids_left(member, table),
        })  # fmt: skip
        return
    say(f"Agent {member.number} has made {told} of {member.description.settings['horizon']} trials.")
    trials = f"{counted(n_open, 'trial')} {'is' if n_open == 1 else 'are'} open"
    if n_open and output is not None:
        say(f"{trials}: fill in the column `value` of {output}, then `manyarms agents tell`.")
    elif n_open:
        say(f"{trials}; write them to a file with --output.")
    elif member.over or member.done:
        say("The run is over." if member.over else "This agent is done; the run is not over yet.")
    else:
        say("No trial is open now: the server waits for other agents. Run `agents join` again later.")
    left = _ids_left(member, table)
    if member.over and left is not None:
        more = f" and {len(left) - _MOST_LISTED} more" if len(left) > _MOST_LISTED else ""
        named = ", ".join(left[:_MOST_LISTED]) + more
        say(f"{counted(len(left), 'candidate')} may still be the best: {named}.")

"""`manyarms run`: measure the candidates of a campaign with a program or a Python function."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import Annotated, Any

import typer

from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.text import counted
from manyarms.campaigns.workers.command_trials import CommandTemplate, CommandTrial, Trial
from manyarms.campaigns.workers.command_trials import value_pattern as compiled_pattern
from manyarms.campaigns.workers.python_trials import PythonTrial
from manyarms.campaigns.workers.running import RunPlan, Tally
from manyarms.campaigns.workers.running import run as run_campaign
from manyarms.cli.output import (
    CampaignArgument,
    JsonOption,
    PoolOption,
    UntilGapOption,
    guarded,
    print_json,
    say,
)
from manyarms.cli.progress import bar

Command = Annotated[
    str | None,
    typer.Option(
        help="Program to run, such as './measure {id} {x1}'. The value is the last number it prints, or "
        "that of a line of JSON with a key 'value'. No shell is involved."
    ),
]
Pattern = Annotated[
    str | None,
    typer.Option(
        help="With --command: regular expression whose only group matches the value; the last match counts.",
        show_default="the last number",
    ),
]
Function = Annotated[
    str | None,
    typer.Option(
        help="Function to call, as module:function. Its argument has the attributes id, index, ticket "
        "and row; it returns the value."
    ),
]
Workers = Annotated[int, typer.Option(min=1, help="Number of trials to run in parallel.")]
BatchSize = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Work in rounds of this many candidates, each measured completely before the next ask.",
        show_default="no rounds: a free worker never waits",
    ),
]
Trials = Annotated[
    int | None, typer.Option(min=1, help="Stop after this many trials.", show_default="no limit")
]
Target = Annotated[
    float | None, typer.Option(help="Stop when a value reaches this target.", show_default="no target")
]
Timeout = Annotated[
    float | None,
    typer.Option(help="Seconds after which a trial counts as failed.", show_default="no limit"),
]
Retries = Annotated[
    int, typer.Option(min=0, help="Number of further attempts before a trial counts as failed.")
]
Lease = Annotated[
    float,
    typer.Option(
        min=1,
        help="Seconds after which another run may take over the tickets of a run that has died. A "
        "living run renews its lease.",
    ),
]


@guarded
def run(
    campaign: CampaignArgument,
    command: Command = None,
    value_pattern: Pattern = None,
    python: Function = None,
    workers: Workers = 1,
    batch: BatchSize = None,
    trials: Trials = None,
    until: Target = None,
    until_gap: UntilGapOption = None,
    timeout: Timeout = None,
    retries: Retries = 1,
    lease: Lease = 300.0,
    pool: PoolOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask, measure and record results until the budget, a limit given here or Ctrl-C ends the run.

    After Ctrl-C or a crash, run the same command again to continue: interrupted trials are repeated first.
    """
    _check_options(command, python, value_pattern)
    plan = RunPlan(
        workers=workers,
        batch=batch,
        trials=trials,
        until=until,
        until_gap=until_gap,
        timeout=timeout,
        retries=retries,
        lease_seconds=lease,
    )
    signal.signal(signal.SIGTERM, _interrupt)
    with bar("trials", quiet=as_json) as move, Campaign(campaign, pool=pool) as found:
        total = trials or found.settings.budget
        tally = run_campaign(
            found,
            _maker(found, command, python, value_pattern),
            plan,
            lambda tally: _show(move, tally, total),
        )
    if as_json:
        print_json(tally)
        return
    say(
        f"Measured {counted(tally.measured, 'value')}, {counted(tally.failed, 'failure')}, in "
        f"{counted(tally.rounds, 'ask')}. "
        f"Stopped because: {tally.stopped_because}."
    )
    for note in tally.notes:
        say(f"failed  {note}")


def _check_options(command: str | None, python: str | None, value_pattern: str | None) -> None:
    if (command is None) == (python is None):
        raise typer.BadParameter("specify either --command or --python")
    if value_pattern is not None and command is None:
        raise typer.BadParameter("--value-pattern needs --command")


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _show(move: Callable[..., Any], tally: Tally, total: int | None) -> None:
    best = "" if tally.best is None else f"best {tally.best:.6g}"
    move(tally.measured + tally.failed, total, text=f"{best} {tally.failed} failed".strip())


def _maker(
    campaign: Campaign, command: str | None, python: str | None, value_pattern: str | None
) -> Callable[[], Trial]:
    """The factory of one `Trial` per worker; an unusable command or function is an error before any ask."""
    source, id_column = campaign.source, campaign.id_column
    if command is not None:
        template = CommandTemplate(command, source.column_names(), source.id)
        pattern = compiled_pattern(value_pattern)
        return lambda: CommandTrial(template, id_column, pattern)
    assert python is not None
    function, numeric = python, source.feature_columns()
    first = PythonTrial(function, numeric, id_column)
    first.check()
    spare = [first]
    return lambda: spare.pop() if spare else PythonTrial(function, numeric, id_column)

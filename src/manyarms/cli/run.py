"""`manyarms run` and `manyarms work`: measure candidates with a program or a Python function."""

from __future__ import annotations

import os
import secrets
import signal
import socket
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Annotated, Any

import typer

from manyarms.campaigns.access import CampaignAccess
from manyarms.campaigns.text import counted
from manyarms.campaigns.workers.command_trials import CommandTemplate, CommandTrial, Trial
from manyarms.campaigns.workers.command_trials import value_pattern as compiled_pattern
from manyarms.campaigns.workers.python_trials import PythonTrial
from manyarms.campaigns.workers.running import RunPlan, Tally
from manyarms.campaigns.workers.running import run as run_campaign
from manyarms.cli.opening import is_url, opened
from manyarms.cli.output import (
    CampaignArgument,
    EngineOption,
    JsonOption,
    PoolOption,
    UntilGainOption,
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
WorkerLease = Annotated[
    float,
    typer.Option(
        min=1,
        help="Seconds after which the service gives the candidates of a dead worker to others. A living "
        "worker renews its lease.",
    ),
]
_PATIENCE = 3600.0


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
    until_gain: UntilGainOption = None,
    timeout: Timeout = None,
    retries: Retries = 1,
    lease: Lease = 300.0,
    pool: PoolOption = None,
    engine: EngineOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask, measure and record results until the budget, a limit given here or Ctrl-C ends the run.

    After Ctrl-C or a crash, run the same command again to continue: interrupted trials are repeated first.
    """
    plan = RunPlan(
        workers=workers,
        batch=batch,
        trials=trials,
        until=until,
        until_gap=until_gap,
        until_gain=until_gain,
        timeout=timeout,
        retries=retries,
        lease_seconds=lease,
    )
    if is_url(campaign):
        plan = replace(plan, one_each=batch is None, name=_worker_name())
    opening = {"pool": pool, "engine": engine, "patience": _PATIENCE}
    _measure(campaign, plan, command, python, value_pattern, opening, as_json)


@guarded
def work(
    campaign: Annotated[
        str, typer.Argument(metavar="URL", help="Campaign of a service, such as https://host/screen.")
    ],
    command: Command = None,
    value_pattern: Pattern = None,
    python: Function = None,
    workers: Workers = 1,
    trials: Trials = None,
    until: Target = None,
    until_gap: UntilGapOption = None,
    until_gain: UntilGainOption = None,
    timeout: Timeout = None,
    retries: Retries = 1,
    lease: WorkerLease = 300.0,
    name: Annotated[
        str | None, typer.Option(help="Name of this worker.", show_default="the machine and the process")
    ] = None,
    patience: Annotated[
        float,
        typer.Option(min=0, help="Seconds to wait for a service that cannot be reached, before giving up."),
    ] = _PATIENCE,
    as_json: JsonOption = False,
) -> None:
    """Measure candidates of a service: ask for one per free worker, measure it, and record the result.

    The token is read from the environment, MANYARMS_TOKEN or the file that MANYARMS_TOKEN_FILE names. While
    the service is restarted, results are kept and sent again.
    """
    if not is_url(campaign):
        raise typer.BadParameter("the campaign must be a URL; use `manyarms run` for a file or a database")
    plan = RunPlan(
        workers=workers,
        trials=trials,
        until=until,
        until_gap=until_gap,
        until_gain=until_gain,
        timeout=timeout,
        retries=retries,
        lease_seconds=lease,
        one_each=True,
        name=name or _worker_name(),
    )
    _measure(campaign, plan, command, python, value_pattern, {"patience": patience}, as_json)


def _worker_name() -> str:
    """A name that no other worker has. It does not say that the process is one of the service's machine."""
    return f"{socket.gethostname()}/{os.getpid()}-{secrets.token_hex(3)}"


def _measure(
    campaign: str,
    plan: RunPlan,
    command: str | None,
    python: str | None,
    value_pattern: str | None,
    opening: dict[str, Any],
    as_json: bool,
) -> None:
    """Measure until the run ends, and say how it went; `opening` are arguments of `opened`."""
    _check_options(command, python, value_pattern)
    signal.signal(signal.SIGTERM, _interrupt)
    with bar("trials", quiet=as_json) as move, opened(campaign, **opening) as found:
        total = plan.trials or found.form.budget
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
    campaign: CampaignAccess, command: str | None, python: str | None, value_pattern: str | None
) -> Callable[[], Trial]:
    """The factory of one `Trial` per worker; an unusable command or function is an error before any ask."""
    form, id_column = campaign.form, campaign.form.id_column
    if command is not None:
        template = CommandTemplate(command, form.columns, form.id)
        pattern = compiled_pattern(value_pattern)
        return lambda: CommandTrial(template, id_column, pattern)
    assert python is not None
    function, numeric = python, form.numeric
    first = PythonTrial(function, numeric, id_column)
    first.check()
    spare = [first]
    return lambda: spare.pop() if spare else PythonTrial(function, numeric, id_column)

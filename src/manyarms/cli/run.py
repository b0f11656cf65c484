"""`manyarms run`: measure a campaign's candidates by a program or a Python function."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import Annotated, Any

import typer

from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.pool_file.files import column_names
from manyarms.campaigns.workers.command_trials import CommandTemplate, CommandTrial, Trial
from manyarms.campaigns.workers.python_trials import PythonTrial
from manyarms.campaigns.workers.running import Plan, Tally
from manyarms.campaigns.workers.running import run as run_campaign
from manyarms.cli.output import CampaignArgument, JsonOption, PoolOption, guarded, print_json, say
from manyarms.cli.progress import bar


@guarded
def run(
    campaign: CampaignArgument,
    command: Annotated[
        str | None, typer.Option(help="A program: './measure {id} {x1}'. Never passed through a shell.")
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(help="module:function, called with an object that has id, index, ticket, row."),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Trials at the same time.")] = 1,
    batch: Annotated[
        int | None,
        typer.Option(min=1, help="Exactly so many a round. [default: the rule, one a worker at least]"),
    ] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="Stop after so many trials.")] = None,
    until: Annotated[float | None, typer.Option(help="Stop when a value reaches this.")] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds a trial may take.")] = None,
    retries: Annotated[int, typer.Option(min=0, help="New attempts before a trial has failed.")] = 1,
    lease: Annotated[
        float,
        typer.Option(
            min=1, help="Seconds after which the tickets of a lost run are free; renewed meanwhile."
        ),
    ] = 300.0,
    pool: PoolOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask, measure and tell until the budget, --trials, --until or Ctrl-C ends it.

    The value is the last number the program prints. Run the same command again to go on after Ctrl-C or a
    crash: tickets that were being measured are measured first.
    """
    if (command is None) == (python is None):
        raise typer.BadParameter("give --command or --python, one of them")
    plan = Plan(workers, batch, trials, until, timeout, retries, lease)
    signal.signal(signal.SIGTERM, _interrupt)
    with bar("trials", quiet=as_json) as move, Campaign(campaign, pool=pool) as found:
        total = trials or found.settings.budget
        tally = run_campaign(
            found, _maker(found, command, python), plan, lambda tally: _show(move, tally, total)
        )
    if as_json:
        print_json(tally)
        return
    counts = f"{tally.measured} values and {tally.failed} failures in {tally.rounds} rounds"
    say(f"{counts}; stopped: {tally.stopped_because}")
    for note in tally.notes:
        say(f"failed  {note}")


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _show(move: Callable[..., Any], tally: Tally, total: int | None) -> None:
    best = "" if tally.best is None else f"best {tally.best:.6g}"
    move(tally.measured + tally.failed, total, text=f"{best} {tally.failed} failed".strip())


def _maker(campaign: Campaign, command: str | None, python: str | None) -> Callable[[], Trial]:
    """How a worker gets its way of measuring; what cannot work is refused before anything is asked."""
    source, id_column = campaign.source, campaign.id_column
    if command is not None:
        template = CommandTemplate(command, column_names(source.path), source.id)
        return lambda: CommandTrial(template, id_column)
    assert python is not None
    function, numeric = python, source.feature_columns()
    first = PythonTrial(function, numeric, id_column)
    first.check()
    spare = [first]
    return lambda: spare.pop() if spare else PythonTrial(function, numeric, id_column)

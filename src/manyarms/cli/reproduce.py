"""`manyarms reproduce NAME`: run the experiment behind a figure of a paper, and draw it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from manyarms.cli.output import JsonOption, guarded, print_json, print_table, say
from manyarms.reproduce.experiment import Mode
from manyarms.reproduce.registry import EXPERIMENTS, named
from manyarms.reproduce.runner import ReproductionReport
from manyarms.reproduce.runner import reproduce as run_experiment


@guarded
def reproduce(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(EXPERIMENTS)}.")],
    smoke: Annotated[bool, typer.Option("--smoke", help="Seconds: tiny sizes, generated data.")] = False,
    full: Annotated[bool, typer.Option("--full", help="As long and as often as in the paper.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for results. [default: reproduction/NAME]")] = None,
    data_home: Annotated[
        Path | None, typer.Option(envvar="MANYARMS_DATA", help="Folder with the real data files.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes. [default: one per core]")] = None,
    as_json: JsonOption = False,
) -> None:
    """Redraw a figure of a paper: raw data, PNG and SVG, a summary and a manifest.

    Run the same command again to go on after Ctrl-C or a crash; finished runs are not repeated.
    """
    if smoke and full:
        raise typer.BadParameter("--smoke and --full exclude each other")
    mode: Mode = "smoke" if smoke else "full" if full else "default"
    experiment = named(name)
    with ExitStack() as shown:
        report = run_experiment(
            experiment, mode, out, data_home=data_home, workers=workers, progress=_bar(shown)
        )
    if as_json:
        print_json(_plain(report))
    else:
        _print(experiment.shows, report)


def _bar(shown: ExitStack) -> Callable[[int, int, str], None]:
    """A progress bar that appears with the first report and goes with `shown`."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    bar = Progress(*columns, console=Console(stderr=True))
    task = bar.add_task("runs")

    def follow(done: int, total: int, key: str) -> None:
        if not bar.live.is_started:
            shown.enter_context(bar)
        bar.update(task, completed=done, total=total, description=key or "runs")

    return follow


def _files(report: ReproductionReport) -> list[str]:
    return [str(path) for path in (*report.figures, report.summary, report.manifest)]


def _plain(report: ReproductionReport) -> dict[str, object]:
    return {
        "files": _files(report),
        "digest": report.digest,
        "ran": report.ran,
        "reused": report.reused,
        "generated_stand_in": report.stand_in,
        "rows": report.rows,
    }


def _print(shows: str, report: ReproductionReport) -> None:
    say(shows)
    if report.stand_in:
        say("generated stand-in data, not the real pool; --data-home DIR uses the real one")
    print_table(list(report.rows[0]), [list(row.values()) for row in report.rows])
    say(f"{report.ran} runs made, {report.reused} found; digest of the numbers {report.digest}")
    for path in _files(report):
        say(path)

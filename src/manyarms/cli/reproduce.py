"""`manyarms reproduce NAME`: run the experiment behind a figure of a paper and draw it, or all of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from manyarms.cli.output import JsonOption, guarded, print_json, print_table, say
from manyarms.errors import MissingDataError
from manyarms.reproduce.everything import EverythingReport, missing_data, reproduce_all
from manyarms.reproduce.experiment import Mode
from manyarms.reproduce.registry import EXPERIMENTS, named
from manyarms.reproduce.runner import ReproductionReport
from manyarms.reproduce.runner import reproduce as run_experiment

ALL = "all"


@guarded
def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help=f"Name of the figure, or {ALL} for every one: {', '.join(EXPERIMENTS)}."
        ),
    ],
    smoke: Annotated[
        bool, typer.Option("--smoke", help="Quick run on tiny problems with generated data.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Use the length and the number of repetitions of the paper.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help=f"Output folder; with {ALL}, each figure has a folder in it.",
            show_default="reproduction/NAME",
        ),
    ] = None,
    data_home: Annotated[
        Path | None, typer.Option(envvar="MANYARMS_DATA", help="Folder with the real data sets.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of worker processes.", show_default="one per core")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Reproduce a figure of a paper: raw data, PNG and SVG files, a summary and a manifest.

    After Ctrl-C or a crash, run the same command again to continue; finished runs are not repeated.
    """
    if smoke and full:
        raise typer.BadParameter("--smoke and --full cannot be combined")
    mode: Mode = "smoke" if smoke else "full" if full else "default"
    if name == ALL:
        _everything(mode, out, data_home, workers, as_json)
        return
    experiment = named(name)
    with ExitStack() as shown:
        report = run_experiment(
            experiment, mode, out, data_home=data_home, workers=workers, progress=_bar(shown)
        )
    if as_json:
        print_json(_plain(report))
    else:
        _print(experiment.shows, report)


def _everything(
    mode: Mode, out: Path | None, data_home: Path | None, workers: int | None, as_json: bool
) -> None:
    """Run every experiment that has its data; the error at the end names those that do not."""
    missing = missing_data(EXPERIMENTS, mode, data_home)
    for experiment, reason in missing.items():
        typer.echo(f"{experiment} is left out: {reason}", err=True)
    with ExitStack() as shown:
        bar = _bar(shown)
        report = reproduce_all(
            EXPERIMENTS, mode, out, data_home=data_home, workers=workers, missing=missing,
            progress=lambda figure, done, total, key: bar(done, total, f"{figure}: {key}" if key else figure),
        )  # fmt: skip
    if as_json:
        print_json({"digests": str(report.digests), "missing": dict(report.missing)} | _digests(report))
    else:
        rows = [
            [name, len(own.digests), own.ran, own.cpu_seconds, own.digest]
            for name, own in report.reports.items()
        ]
        print_table(["figure", "runs", "ran now", "CPU s", "digest"], rows)
        say(str(report.digests))
    if report.missing:
        raise MissingDataError(
            f"{', '.join(report.missing)} did not run, because their data is missing (see above); "
            "run the same command again with --data-home"
        )


def _digests(report: EverythingReport) -> dict[str, object]:
    return {"experiments": {name: _plain(own) for name, own in report.reports.items()}}


def _bar(shown: ExitStack) -> Callable[[int, int, str], None]:
    """A progress bar that appears at the first update and is removed when `shown` closes."""
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
        say("This run used generated stand-in data; use --data-home DIR for the real data.")
    print_table(list(report.rows[0]), [list(row.values()) for row in report.rows])
    say(f"{report.ran} runs executed, {report.reused} reused; digest of the results: {report.digest}")
    for path in _files(report):
        say(path)

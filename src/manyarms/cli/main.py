"""The command's root: global options, the table of subcommands, and how errors become exit codes."""

from __future__ import annotations

import os
from typing import Annotated

import typer

import manyarms
from manyarms.cli import campaigns
from manyarms.cli.output import DEBUG
from manyarms.cli.reproduce import reproduce
from manyarms.cli.run import run

app = typer.Typer(
    name="manyarms",
    help="Choose well among very many candidates when each trial is noisy and costly.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    epilog="Exit codes: 0 done, 1 unexpected, 2 usage, 3 bad input, 4 campaign or database, "
    "5 nothing to ask or show, 6 trials keep failing, 130 interrupted.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"manyarms {manyarms.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")] = False,
) -> None:
    """Choose well among very many candidates when each trial is noisy and costly."""
    if debug:
        os.environ[DEBUG] = "1"


campaigns.register(app)
app.command("run")(run)
app.command("reproduce")(reproduce)


def main() -> None:
    """What the `manyarms` script runs."""
    app()

"""The root of the command: global options and the list of subcommands."""

from __future__ import annotations

import os
from typing import Annotated

import typer

import manyarms
from manyarms.cli import agents_member, campaigns
from manyarms.cli.agents import agents_app
from manyarms.cli.demo import demo
from manyarms.cli.output import DEBUG
from manyarms.cli.reproduce import reproduce
from manyarms.cli.run import run, work
from manyarms.cli.service import serve, token_app

app = typer.Typer(
    name="manyarms",
    help="Choose well among very many candidates when each trial is noisy and costly.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    epilog="Exit codes: 0 success, 1 unexpected error, 2 usage error, 3 invalid input, 4 campaign or "
    "database error, 5 nothing to ask or show, 6 too many failed trials, 130 interrupted.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"manyarms {manyarms.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Choose well among very many candidates when each trial is noisy and costly."""
    if debug:
        os.environ[DEBUG] = "1"


campaigns.register(app)
app.command("run")(run)
app.command("work")(work)
app.command("serve")(serve)
app.add_typer(token_app)
app.command("demo")(demo)
app.command("reproduce")(reproduce)
agents_member.register(agents_app)
app.add_typer(agents_app)


def main() -> None:
    """Run the command; the `manyarms` script and `python -m manyarms` both call this."""
    app(prog_name="manyarms")

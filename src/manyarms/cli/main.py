"""The command's root: global options, the table of subcommands, and how errors become exit codes."""

from __future__ import annotations

from typing import Annotated

import typer

import manyarms

app = typer.Typer(
    name="manyarms",
    help="Choose well among very many candidates when each trial is noisy and costly.",
    no_args_is_help=True,
    add_completion=False,
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
) -> None:
    """Choose well among very many candidates when each trial is noisy and costly."""


def main() -> None:
    """What the `manyarms` script runs."""
    app()

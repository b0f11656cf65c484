"""Output of the command: text, JSON with `--json`, and one line with an exit code for an error."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn, ParamSpec

import typer

from manyarms import errors
from manyarms.campaigns.text import masked, one_line
from manyarms.support.plain_data import plain_data

USAGE_ERROR, BAD_INPUT, BAD_CAMPAIGN, NOTHING_TO_DO, FAILING, INTERRUPTED = 2, 3, 4, 5, 6, 130
DEBUG = "MANYARMS_DEBUG"
SHOWN_COLUMNS = 6  # how many of the user's own columns the printed tables show
_WIDE = 160  # characters per line of a table written to a file or a pipe

# The first matching class decides.
_CODES: list[tuple[type[BaseException], int]] = [
    (errors.TrialsFailingError, FAILING),
    (errors.BudgetSpentError, NOTHING_TO_DO),
    (errors.NothingToAskError, NOTHING_TO_DO),
    (errors.GapReachedError, NOTHING_TO_DO),
    (errors.GainReachedError, NOTHING_TO_DO),
    (errors.NoResultsError, NOTHING_TO_DO),
    (errors.CampaignError, BAD_CAMPAIGN),
    (errors.CheckpointError, BAD_CAMPAIGN),
    (errors.ManyarmsError, BAD_INPUT),
    (KeyboardInterrupt, INTERRUPTED),
]

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
CampaignArgument = Annotated[
    str,
    typer.Argument(
        metavar="CAMPAIGN",
        help="Campaign file, postgresql://user@host/database#name, or URL of a service such as https://host/screen.",
    ),
]
PoolOption = Annotated[
    Path | None, typer.Option("--pool", help="Path of the table of candidates, if the file has moved.")
]
EngineOption = Annotated[
    str | None,
    typer.Option(
        "--engine",
        help="Compute on another engine this time: local, memory, disk, recompute, or the address of a Dask "
        "scheduler.",
        show_default="that of the campaign",
    ),
]
ForceOption = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Replace the output file if it exists; never the table of candidates or a database.",
    ),
]

UntilGapOption = Annotated[
    float | None,
    typer.Option(
        "--until-gap",
        min=0,
        help="Stop when the recommended candidate is at most this much worse than the best one, according to "
        "the certificate that `status` shows (an estimate if the model is learned).",
        show_default="never",
    ),
]

UntilGainOption = Annotated[
    float | None,
    typer.Option(
        "--until-gain",
        min=0,
        help="Stop when the next batch is expected to improve the best candidate by at most this, an "
        "estimate by the model.",
        show_default="never",
    ),
]

P = ParamSpec("P")


def guarded(command: Callable[P, None]) -> Callable[P, None]:
    """Turn the errors of a command into one line on standard error and an exit code."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            with _printing():
                command(*args, **kwargs)
        except (errors.ManyarmsError, KeyboardInterrupt) as problem:
            if os.environ.get(DEBUG):
                raise
            fail(problem, as_json=bool(kwargs.get("as_json")))

    return wrapped


@contextmanager
def _printing() -> Iterator[None]:
    """Escape characters that the terminal cannot show, and report output that cannot be written."""
    if isinstance(sys.stdout, io.TextIOWrapper) and not _is_utf8():
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        yield
        sys.stdout.flush()
    except (BrokenPipeError, errors.ManyarmsError):  # a closed pipe is no error; other errors name their file
        raise
    except OSError as problem:
        _drop_output()
        raise errors.OutputError(f"standard output: {problem.strerror or problem}") from problem


def _is_utf8() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def _drop_output() -> None:
    """Redirect standard output to nowhere; flushing it at exit would fail a second time."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fail(problem: BaseException, as_json: bool) -> NoReturn:
    """Print the error and exit with its code."""
    code = next(code for kind, code in _CODES if isinstance(problem, kind))
    message = "interrupted" if isinstance(problem, KeyboardInterrupt) else one_line(masked(str(problem)))
    if as_json:
        print_json({"error": message, "kind": type(problem).__name__, "exit_code": code})
    print(f"manyarms: {message}", file=sys.stderr)
    raise typer.Exit(code)


def print_json(data: Any) -> None:
    """Print one JSON document: dataclasses become objects, NaN and infinities become null."""
    print(json.dumps(plain_data(data), ensure_ascii=not _is_utf8()))


def print_table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print aligned columns; the text of a cell is never interpreted as markup."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE, show_edge=False, pad_edge=False)
    for place, name in enumerate(header):
        numeric = all(isinstance(row[place], int | float | None) for row in rows)
        table.add_column(Text(one_line(name)), justify="right" if numeric and rows else "left")
    for row in rows:
        table.add_row(*(Text(one_line(cell_text(cell))) for cell in row))
    console = Console()
    (console if console.is_terminal else Console(width=_WIDE)).print(table)


def cell_text(cell: Any) -> str:
    """The text of a cell: six significant digits for a number, nothing for None or NaN."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)


def say(text: str) -> None:
    """Print one line of text."""
    print(one_line(text))

"""A progress bar on standard error, shown only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def bar(description: str, quiet: bool = False) -> Iterator[Callable[..., Any]]:
    """A function `(done, total, text="")` that advances a bar, which appears at the first call."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    if quiet or not sys.stderr.isatty():
        yield lambda *_args, **_settings: None
        return
    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(),
        TimeElapsedColumn(), TextColumn("{task.fields[text]}", markup=False),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True)) as progress:
        tasks: list[Any] = []

        def move(done: int, total: int | None, text: str = "") -> None:
            if not tasks:
                tasks.append(progress.add_task(description, total=total, text=text))
            progress.update(tasks[0], completed=done, total=total, text=text)

        yield move

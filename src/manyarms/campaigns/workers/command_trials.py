"""Measuring one candidate by a program that can be stopped, and what any way of measuring has to offer.

A program's arguments are split first and filled in one by one afterwards, and no shell ever sees them, so an
id such as `; rm -rf` is only a strange id.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import shutil
import signal
import string
import subprocess
import threading
from collections.abc import Sequence
from typing import Any, Protocol

from manyarms.campaigns.campaign import Issued
from manyarms.campaigns.results_file import LARGEST_VALUE
from manyarms.errors import SettingsError, shown

_SEPARATORS = re.compile(r"[\s,;:=()\[\]{}\"']+")
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")
LONGEST_NOTE = 300


class TrialFailedError(Exception):
    """A trial that gave no usable value; the message says why."""


class StoppedError(Exception):
    """The run is being stopped, so the trial was cut off; it neither succeeded nor failed."""


class Trial(Protocol):
    """One worker's way to measure. Each worker has its own, used by one thread."""

    def measure(self, job: Issued, timeout: float | None) -> float:
        """The value of a candidate; raises `TrialFailedError` when there is none."""

    def close(self) -> None:
        """Stop whatever is still running."""


def last_number(text: str) -> float:
    """The last number printed, standing free; not finite, none at all, or a decimal comma is a failure."""
    for piece in reversed(text.split()):
        if _DECIMAL_COMMA.fullmatch(piece.rstrip(".")):
            raise TrialFailedError(f"{piece} may be one number or two: print a decimal point")
        for word in reversed(_SEPARATORS.split(piece)):
            value = _plain_number(word.removesuffix("."))
            if value is not None:
                return usable(value)
    raise TrialFailedError("no number was printed")


def _plain_number(word: str) -> float | None:
    try:
        return None if "_" in word else float(word)
    except ValueError:
        return None


def usable(value: float) -> float:
    """A value that can be told."""
    if not math.isfinite(value) or abs(value) > LARGEST_VALUE:
        raise TrialFailedError(f"the value {value} is not a usable number")
    return value


# ------------------------------------------------------------------ a program


class CommandTemplate:
    """A command line with `{column}` in its arguments; also `{id}`, `{ticket}` and `{index}`."""

    def __init__(self, command: str, columns: Sequence[str], id_column: str | None = None) -> None:
        try:
            arguments = shlex.split(command)
        except ValueError as problem:
            raise SettingsError(f"the command cannot be split into arguments: {problem}") from None
        if not arguments:
            raise SettingsError("the command is empty")
        self._arguments = [_parsed(argument) for argument in arguments]
        known = {"id", "ticket", "index", *columns}
        twofold = ({"ticket", "index"} | ({"id"} - {id_column})) & {*columns}
        for _, name in (part for argument in self._arguments for part in argument):
            if name is not None and name not in known:
                raise SettingsError(
                    f"the command names {{{name}}}, which is no column; there are {sorted(known)}"
                )
            if name in twofold:
                raise SettingsError(f"{{{name}}} may be our own or the table's: rename that column")
        program = self._arguments[0]
        if all(name is None for _, name in program):
            text = "".join(literal for literal, _ in program)
            if shutil.which(text) is None:
                raise SettingsError(f"{shown(text)} is not a program that can be run")

    def filled(self, job: Issued, id_column: str) -> list[str]:
        """The arguments for one candidate; whatever a cell holds stays one argument."""
        cells = {
            **job.columns, id_column: job.id, "id": job.id, "ticket": str(job.ticket), "index": str(job.arm)
        }  # fmt: skip
        return [
            "".join(literal + ("" if name is None else cells[name]) for literal, name in argument)
            for argument in self._arguments
        ]


def _parsed(argument: str) -> list[tuple[str, str | None]]:
    """Literal text and column names in turns; `{{` and `}}` are braces."""
    try:
        parts = list(string.Formatter().parse(argument))
    except ValueError as problem:
        raise SettingsError(f"{shown(argument)}: {problem}") from None
    for _, name, form, conversion in parts:
        if name is not None and (form or conversion or not name):
            raise SettingsError(f"{shown(argument)}: braces hold the name of a column and nothing else")
    return [(literal, name) for literal, name, _, _ in parts]


class CommandTrial:
    """Runs a program for every candidate; the value is the last number it prints."""

    def __init__(self, template: CommandTemplate, id_column: str) -> None:
        self._template, self._id_column = template, id_column
        self._process: subprocess.Popen[str] | None = None
        self._lock, self._closed = threading.Lock(), False

    def measure(self, job: Issued, timeout: float | None) -> float:
        """Run it, wait for it, read what it printed."""
        arguments = self._template.filled(job, self._id_column)
        with self._lock:
            if self._closed:
                raise StoppedError
            process = self._process = _started(arguments, stdin=subprocess.DEVNULL)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            kill(process)
            _let_go(process)
            raise TrialFailedError(f"no result within {timeout:g} s") from None
        if self._closed:
            raise StoppedError
        if process.returncode:
            last = (err.strip().splitlines() or out.strip().splitlines() or [""])[-1]
            raise TrialFailedError(f"exit code {process.returncode}: {last}"[:LONGEST_NOTE])
        return last_number(out)

    def close(self) -> None:
        """Kill the program, with whatever it started."""
        with self._lock:
            self._closed = True
        if self._process is not None:
            kill(self._process)


def _started(arguments: Sequence[str], **streams: Any) -> subprocess.Popen[str]:
    """A process in a session of its own, so that it can be ended with all its children."""
    try:
        return subprocess.Popen(
            arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
            start_new_session=True, **streams,
        )  # fmt: skip
    except (OSError, ValueError) as problem:  # ValueError: a NUL byte in an argument
        raise TrialFailedError(f"cannot be started: {problem}") from None


def _let_go(process: subprocess.Popen[str]) -> None:
    """Reap a killed process; its pipes may still be held open by a descendant that left its session."""
    try:
        process.communicate(timeout=1.0)
    except subprocess.TimeoutExpired:
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        process.wait()


def kill(process: subprocess.Popen[Any]) -> None:
    """End a process and everything it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()

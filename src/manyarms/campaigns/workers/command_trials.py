"""Measure a candidate with a program, and the protocol that every way of measuring implements.

The command line is first split into arguments, and placeholders are then filled in within each argument. No
shell is involved, so an id such as `; rm -rf` is harmless.
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
    """A trial without a usable value; the message gives the reason."""


class StoppedError(Exception):
    """The trial was interrupted because the run is stopping; it neither succeeded nor failed."""


class Trial(Protocol):
    """A way to measure candidates. Each worker has its own instance, used by one thread."""

    def measure(self, job: Issued, timeout: float | None) -> float:
        """The value of a candidate; raises `TrialFailedError` if there is none."""

    def close(self) -> None:
        """Stop any running trial."""


def last_number(text: str) -> float:
    """The last separate number in the output. No number, a decimal comma or an infinity is a failure."""
    for piece in reversed(text.split()):
        if _DECIMAL_COMMA.fullmatch(piece.rstrip(".")):
            raise TrialFailedError(f"{piece} is ambiguous, one number or two: print a decimal point")
        for word in reversed(_SEPARATORS.split(piece)):
            value = _plain_number(word.removesuffix("."))
            if value is not None:
                return usable(value)
    raise TrialFailedError("the program printed no number")


def _plain_number(word: str) -> float | None:
    try:
        return None if "_" in word else float(word)
    except ValueError:
        return None


def usable(value: float) -> float:
    """The value, if it can be recorded."""
    if not math.isfinite(value) or abs(value) > LARGEST_VALUE:
        raise TrialFailedError(f"the value {value} is not a usable number")
    return value


# ------------------------------------------------------------------ a program


class CommandTemplate:
    """A command line with placeholders: `{column}`, `{id}`, `{ticket}` and `{index}`."""

    def __init__(self, command: str, columns: Sequence[str], id_column: str | None = None) -> None:
        try:
            arguments = shlex.split(command)
        except ValueError as problem:
            raise SettingsError(f"the command cannot be split into arguments: {problem}") from None
        if not arguments:
            raise SettingsError("the command is empty")
        self._arguments = [_parsed(argument) for argument in arguments]
        known = {"id", "ticket", "index", *columns}
        ambiguous = ({"ticket", "index"} | ({"id"} - {id_column})) & {*columns}
        for _, name in (part for argument in self._arguments for part in argument):
            if name is not None and name not in known:
                raise SettingsError(
                    f"the command contains {{{name}}}, which is not a column; the columns are {sorted(known)}"
                )
            if name in ambiguous:
                raise SettingsError(
                    f"{{{name}}} is ambiguous, because the table has a column of that name: rename the column"
                )
        program = self._arguments[0]
        if all(name is None for _, name in program):
            text = "".join(literal for literal, _ in program)
            if shutil.which(text) is None:
                raise SettingsError(f"{shown(text)} is not an executable program")

    def filled(self, job: Issued, id_column: str) -> list[str]:
        """The arguments for one candidate; the text of a cell never becomes more than one argument."""
        cells = {
            **job.columns, id_column: job.id, "id": job.id, "ticket": str(job.ticket), "index": str(job.arm)
        }  # fmt: skip
        return [
            "".join(literal + ("" if name is None else cells[name]) for literal, name in argument)
            for argument in self._arguments
        ]


def _parsed(argument: str) -> list[tuple[str, str | None]]:
    """Pairs of literal text and column name; `{{` and `}}` stand for braces."""
    try:
        parts = list(string.Formatter().parse(argument))
    except ValueError as problem:
        raise SettingsError(f"{shown(argument)}: {problem}") from None
    for _, name, form, conversion in parts:
        if name is not None and (form or conversion or not name):
            raise SettingsError(f"{shown(argument)}: braces must contain a column name and nothing else")
    return [(literal, name) for literal, name, _, _ in parts]


class CommandTrial:
    """Run a program for every candidate; the value is the last number it prints."""

    def __init__(self, template: CommandTemplate, id_column: str) -> None:
        self._template, self._id_column = template, id_column
        self._process: subprocess.Popen[str] | None = None
        self._lock, self._closed = threading.Lock(), False

    def measure(self, job: Issued, timeout: float | None) -> float:
        """Run the program, wait for it and read its output."""
        arguments = self._template.filled(job, self._id_column)
        with self._lock:
            if self._closed:
                raise StoppedError
            process = self._process = _started(arguments, stdin=subprocess.DEVNULL)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            kill(process)
            _reap(process)
            raise TrialFailedError(f"no result within {timeout:g} s") from None
        if self._closed:
            raise StoppedError
        if process.returncode:
            last = (err.strip().splitlines() or out.strip().splitlines() or [""])[-1]
            raise TrialFailedError(f"exit code {process.returncode}: {last}"[:LONGEST_NOTE])
        return last_number(out)

    def close(self) -> None:
        """Kill the program and all its child processes."""
        with self._lock:
            self._closed = True
        if self._process is not None:
            kill(self._process)


def _started(arguments: Sequence[str], **streams: Any) -> subprocess.Popen[str]:
    """Start a process in a new session, so that it can be killed together with its children."""
    try:
        return subprocess.Popen(
            arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
            start_new_session=True, **streams,
        )  # fmt: skip
    except (OSError, ValueError) as problem:  # ValueError: a NUL byte in an argument
        raise TrialFailedError(f"the program cannot be started: {problem}") from None


def _reap(process: subprocess.Popen[str]) -> None:
    """Reap a killed process; a descendant that left the session may still hold its pipes open."""
    try:
        process.communicate(timeout=1.0)
    except subprocess.TimeoutExpired:
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        process.wait()


def kill(process: subprocess.Popen[Any]) -> None:
    """Kill a process and all its child processes."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()

"""Measure a candidate with a program, and the protocol that every way of measuring implements.

The command line is first split into arguments, and placeholders are then filled in within each argument. No
shell is involved, so an id such as `; rm -rf` is harmless.
"""

from __future__ import annotations

import json
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

from manyarms.campaigns.orders import Issued
from manyarms.campaigns.results_file import LARGEST_VALUE
from manyarms.errors import SettingsError, shown

_SEPARATORS = re.compile(r"[\s,;:=()\[\]{}\"']+")
_AMBIGUOUS = re.compile(r"\d[,']\d")  # a decimal comma, thousands, or two numbers
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


def printed_value(text: str, pattern: re.Pattern[str] | None = None) -> float:
    """The value in the output of a program.

    This is what the group of `pattern` matches last; or the value of the last line that is a JSON object with
    a key "value"; or the last separate number.
    """
    if pattern is not None:
        return _matched_number(text, pattern)
    for line in reversed(text.splitlines()):
        found = _json_value(line)
        if found is not None:
            return found
    return last_number(text)


def value_pattern(text: str | None) -> re.Pattern[str] | None:
    """The regular expression of `--value-pattern`, which must have one group."""
    if text is None:
        return None
    try:
        pattern = re.compile(text, re.MULTILINE)
    except re.error as problem:
        raise SettingsError(f"the pattern {shown(text)} is not a regular expression: {problem}") from None
    if pattern.groups != 1:
        raise SettingsError(f"the pattern {shown(text)} must have one group, which matches the value")
    return pattern


def _matched_number(text: str, pattern: re.Pattern[str]) -> float:
    found = [match[1] for match in pattern.finditer(text)]
    if not found or found[-1] is None:
        raise TrialFailedError(f"the output does not match the pattern {shown(pattern.pattern)}")
    value = _plain_number(found[-1].strip())
    if value is None:
        raise TrialFailedError(f"{shown(found[-1])} is not a number: the pattern must match a plain number")
    return usable(value)


def _json_value(line: str) -> float | None:
    """The value of a line of JSON such as {"value": 1.5}; None if the line is something else."""
    try:
        found = json.loads(line) if line.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or "value" not in found:
        return None
    value = found["value"]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TrialFailedError(f"the value {shown(value)} in the line of JSON is not a number")
    return usable(value)


def last_number(text: str) -> float:
    """The last separate number in the output; digits with a comma between them are a failure."""
    for line in reversed(text.splitlines()):
        for piece in reversed(line.split()):
            for word in reversed(_SEPARATORS.split(piece)):
                value = _plain_number(word.removesuffix("."))
                if value is None:
                    continue
                if ambiguous := _AMBIGUOUS.search(line):
                    raise TrialFailedError(
                        f"{shown(line.strip())} is ambiguous at {shown(ambiguous[0])}, one number or two: "
                        f'print a decimal point and no thousands separator, or a line like {{"value": 1.5}}'
                    )
                return usable(value)
    raise TrialFailedError("the program printed no number")


def _plain_number(word: str) -> float | None:
    try:
        return None if "_" in word else float(word)
    except ValueError:
        return None


def usable(value: float) -> float:
    """The value, if it can be recorded."""
    if abs(value) > LARGEST_VALUE or not math.isfinite(
        value
    ):  # in this order: an int may be too large to convert
        raise TrialFailedError(f"the value {shown(value)} is not a usable number")
    return float(value)


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
    """Run a program for every candidate and read the value from its output (`printed_value`)."""

    def __init__(
        self, template: CommandTemplate, id_column: str, pattern: re.Pattern[str] | None = None
    ) -> None:
        self._template, self._id_column, self._pattern = template, id_column, pattern
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
        return printed_value(out, self._pattern)

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

"""Measure candidates with a Python function, in a separate process that can be killed and replaced."""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from manyarms.campaigns.orders import Issued
from manyarms.campaigns.workers import python_worker
from manyarms.campaigns.workers.command_trials import (
    LONGEST_NOTE,
    StoppedError,
    TrialFailedError,
    kill,
    usable,
)
from manyarms.errors import SettingsError, shown


class PythonTrial:
    """Call the function in one process, which is replaced if it hangs or dies."""

    def __init__(self, function: str, numeric: Sequence[str], id_column: str) -> None:
        if not re.fullmatch(r"[\w.]+:[\w.]+", function):
            raise SettingsError(f"{shown(function)} does not have the form module:function")
        self._function, self._numeric, self._id_column = function, set(numeric), id_column
        self._process: subprocess.Popen[bytes] | None = None
        self._unread = b""
        self._lock, self._closed = threading.Lock(), False

    def check(self) -> None:
        """Start the process, so that an import error is reported before the first ask."""
        try:
            self._child()
        except TrialFailedError as problem:
            raise SettingsError(str(problem)) from None

    def measure(self, job: Issued, timeout: float | None) -> float:
        """Send the candidate to the process and wait for the answer."""
        process = self._child()
        row = {name: _number(cell) if name in self._numeric else cell for name, cell in job.columns.items()}
        question = {
            "id": job.id,
            "index": job.arm,
            "ticket": job.ticket,
            "row": {**row, self._id_column: job.id},
        }
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(question).encode() + b"\n")
            process.stdin.flush()
            answer = self._answer(process, timeout)
        except (BrokenPipeError, EOFError):
            self._drop()
            raise TrialFailedError("the worker process of the function ended") from None
        if "error" in answer:
            raise TrialFailedError(str(answer["error"])[:LONGEST_NOTE])
        return usable(float(answer["value"]))

    def close(self) -> None:
        """Kill the process."""
        with self._lock:
            self._closed = True
        self._drop()

    def _child(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._closed:
                raise StoppedError
            if self._process is not None:
                return self._process
            command = [sys.executable, "-P", str(Path(python_worker.__file__)), self._function]
            process = self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
            )
            self._unread = b""
        try:
            hello = self._answer(process, None)
        except EOFError:
            hello = {"error": "the worker process of the function ended during start-up"}
        if "error" in hello:
            self._drop()
            raise TrialFailedError(f"{self._function}: {hello['error']}")
        return process

    def _answer(self, process: subprocess.Popen[bytes], timeout: float | None) -> dict[str, Any]:
        """The next line that the process writes."""
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            deadline = None if timeout is None else time.monotonic() + timeout
            while b"\n" not in self._unread:
                if not selector.select(None if deadline is None else max(0.0, deadline - time.monotonic())):
                    self._drop()
                    raise TrialFailedError(f"no result within {timeout:g} s")
                piece = os.read(process.stdout.fileno(), 1 << 16)
                if not piece:
                    if self._closed:
                        raise StoppedError
                    raise EOFError
                self._unread += piece
        line, _, self._unread = self._unread.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _drop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            kill(process)
            process.wait()
            for stream in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):  # data may be unflushed after the process has ended
                    if stream is not None:
                        stream.close()


def _number(cell: str) -> float | str:
    try:
        return float(cell)
    except ValueError:
        return cell

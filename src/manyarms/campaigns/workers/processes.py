"""Names for processes that hold tickets, and whether such a process has ended."""

from __future__ import annotations

import os
import socket
from pathlib import Path

_STATE, _START = 0, 19  # fields of /proc/PID/stat, counted after the name of the program


def own_name() -> str:
    """The name of this process: host/pid@start, without the start time if /proc is not available."""
    found = _stat(os.getpid())
    started = f"@{found[_START]}" if found else ""
    return f"{socket.gethostname()}/{os.getpid()}{started}"


def is_gone(worker: str | None) -> bool:
    """Whether this is a process of this machine that has ended; False for processes of other machines.

    A killed process keeps its pid until its parent reaps it (state Z), and pids are reused after a while;
    the start time distinguishes processes with the same pid.
    """
    host, _, process = (worker or "").rpartition("/")
    number, _, started = process.partition("@")
    if host != socket.gethostname() or not number.isdecimal() or len(number) > 9:
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # it exists and belongs to another user
        pass
    found = _stat(int(number))
    return bool(found) and (found[_STATE] in "ZX" or (started != "" and started != found[_START]))


def _stat(number: int) -> list[str]:
    """The fields of /proc/PID/stat; empty if there are none."""
    try:
        text = Path(f"/proc/{number}/stat").read_text(errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()  # the name of the program may contain brackets

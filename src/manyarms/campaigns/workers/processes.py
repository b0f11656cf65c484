"""Who holds a ticket: a process of this machine by its number and its start, and whether it is gone."""

from __future__ import annotations

import os
import socket
from pathlib import Path

_STATE, _START = 0, 19  # of /proc/PID/stat, counted after the program's name


def own_name() -> str:
    """This process, as others see it: host/number@start, without the start where /proc does not tell it."""
    found = _stat(os.getpid())
    started = f"@{found[_START]}" if found else ""
    return f"{socket.gethostname()}/{os.getpid()}{started}"


def is_gone(worker: str | None) -> bool:
    """Whether this was a process of this machine that no longer works; of others nothing is known.

    A killed process keeps its number until its parent asks for it (state Z), and a number is given out
    again after a while; the time of the start tells the two apart.
    """
    host, _, process = (worker or "").rpartition("/")
    number, _, started = process.partition("@")
    if host != socket.gethostname() or not number.isdecimal() or len(number) > 9:
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # it lives, and belongs to somebody else
        pass
    found = _stat(int(number))
    return bool(found) and (found[_STATE] in "ZX" or (started != "" and started != found[_START]))


def _stat(number: int) -> list[str]:
    """What Linux tells about a process; nothing elsewhere."""
    try:
        text = Path(f"/proc/{number}/stat").read_text(errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()  # the name before it may hold anything, brackets too

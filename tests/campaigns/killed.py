"""A process that starts the command again and again and kills it at given moments.

It imports everything once and then forks, so that a start costs milliseconds and the kills fall into the
work, not into the imports. Each line of its input is a JSON object with `arguments`, `seconds` (null: let
it end by itself) and `window` (kill it between the rename of its output file and the commit); each line of
its output is an exit status, negative when a signal ended the command.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import psycopg  # noqa: F401  (imported here, not by every child)

from manyarms.campaigns import next_batch  # noqa: F401
from manyarms.cli.main import app
from manyarms.support import output_files


def die_in_the_window() -> None:
    """Let this process kill itself when its output file has its name, before the commit."""
    place = output_files.place_new

    def killed(partial: Path, path: Path) -> None:
        place(partial, path)
        os.kill(os.getpid(), signal.SIGKILL)

    output_files.place_new = killed


def started(arguments: list[str], window: bool = False) -> int:
    """A process that runs the command."""
    process = os.fork()
    if process:
        return process
    code = 70
    try:
        if window:
            die_in_the_window()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        app(arguments)
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else 0
    finally:
        os._exit(code)


def ended(process: int, seconds: float | None) -> int:
    """Let it end, or kill it after so many seconds; dead, it keeps its number like any unreaped child."""
    if seconds is not None:
        time.sleep(seconds)
        os.kill(process, signal.SIGKILL)
    end = os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
    assert end is not None
    return end.si_status if end.si_code == os.CLD_EXITED else -end.si_status


def main() -> None:
    """Answer every line with a status; a child is reaped when the one after it has ended."""
    before = None
    for line in sys.stdin:
        order = json.loads(line)
        process = started(order["arguments"], order["window"])
        print(ended(process, order["seconds"]), flush=True)
        if before is not None:
            os.waitpid(before, 0)
        before = process


if __name__ == "__main__":
    main()

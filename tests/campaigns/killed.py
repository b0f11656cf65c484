"""A process that starts the command again and again and kills it at given moments.

It imports everything once and then forks, so that a start costs milliseconds and the kills fall into the
work, not into the imports. Each line of its input is a JSON object with `arguments` and `seconds` (null: let
it end by itself); each line of its output is an exit status, negative when a signal ended the command.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

from manyarms.campaigns import model  # noqa: F401  (imported here, not by every child)
from manyarms.cli.main import app


def started(arguments: list[str]) -> int:
    """A process that runs the command."""
    process = os.fork()
    if process:
        return process
    code = 70
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        app(arguments)
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else 0
    finally:
        os._exit(code)


def ended(process: int, seconds: float | None) -> int:
    """Wait for it, or kill it after so many seconds."""
    if seconds is not None:
        time.sleep(seconds)
        os.kill(process, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def main() -> None:
    """Answer every line with a status."""
    for line in sys.stdin:
        order = json.loads(line)
        print(ended(started(order["arguments"]), order["seconds"]), flush=True)


if __name__ == "__main__":
    main()

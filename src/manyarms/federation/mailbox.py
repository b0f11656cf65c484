"""The runs of a folder, found by their identity: what the mailbox of a service serves."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from manyarms.errors import ManyarmsError, RunFileError, UnknownRunError, shown
from manyarms.federation.hub import Hub
from manyarms.federation.run_file import ENDING, RunFile
from manyarms.federation.table import CandidateTable

TABLE_PATH = "table path"  # the fact of a run file that says where the hub's copy of the table is


def open_hub(path: Path, pool: Path | None = None, clock: Callable[[], float] = time.time) -> Hub:
    """The hub of a run file whose candidates are in a table."""
    file = RunFile(path)
    try:
        given = file.fact(TABLE_PATH)
        table = CandidateTable.of_run(file.description, pool or (None if given is None else Path(given)))
    finally:
        file.close()
    return Hub(path, table.pool, clock)


class Mailbox:
    """All run files of a folder. A hub is opened at its first use and stays open."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._clock = folder, clock
        self._hubs: dict[str, tuple[str, Hub]] = {}
        self._lock = threading.Lock()

    def hub(self, run: str) -> Hub:
        """The hub of a run; the text is compared with the runs that exist and never becomes a path."""
        return self._opened(run)[1]

    def name(self, run: str) -> str:
        """The name of a run: that of its file."""
        return self._opened(run)[0]

    def _opened(self, run: str) -> tuple[str, Hub]:
        with self._lock:
            if run not in self._hubs:
                for path in self._files():
                    if _run_of(path) == run:
                        self._hubs[run] = path.stem, open_hub(path, clock=self._clock)
                        break
                else:
                    raise UnknownRunError(f"the service has no run {shown(run)} of agents")
            return self._hubs[run]

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob(f"*{ENDING}"))

    def count(self) -> int:
        """The number of run files; none of them is opened."""
        return len(self._files())

    def runs(self) -> list[dict[str, Any]]:
        """The status of every run that can be read, with its name."""
        found = []
        for path in self._files():
            run = _run_of(path)
            try:
                if run is not None:
                    found.append({"name": path.stem, **self.hub(run).status()})
            except ManyarmsError as problem:
                found.append({"name": path.stem, "run": run, "error": str(problem)})
        return found

    def close(self) -> None:
        """Close every hub."""
        with self._lock:
            hubs, self._hubs = self._hubs, {}
        for _, hub in hubs.values():
            hub.close()


def _run_of(path: Path) -> str | None:
    try:
        file = RunFile(path)
    except RunFileError:
        return None
    try:
        return file.description.run
    except RunFileError:
        return None
    finally:
        file.close()

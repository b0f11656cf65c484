"""A service in this process without a socket, or as a real process on a free port."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from manyarms.service.app import create_app
from manyarms.service.connections import protocol
from manyarms.service.limits import Limits
from manyarms.service.places import Folder, Place
from tests.campaigns.support import made

COMMAND = [sys.executable, "-m", "manyarms"]


def new_token(folder: Path, name: str = "tester", campaign: str = "*", scopes: str = "read,ask,tell") -> str:
    with contextlib.closing(Folder(folder).tokens()) as tokens:
        return tokens.make(name, campaign, scopes.split(","))[1]


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@contextlib.contextmanager
def in_process(
    where: Path | Place, idle_seconds: int = 5, port: int = 0, **settings: Any
) -> Iterator[httpx.Client]:
    """The application on a folder or a database, in a thread of this process, behind a real socket.

    A connection that is idle for so many seconds after an answer is closed.
    """
    app = create_app(Folder(where) if isinstance(where, Path) else where, **settings)
    limits = settings.get("limits") or Limits()
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            port=0,
            log_level="warning",
            http=protocol(limits.head_seconds),
            ws="none",
            timeout_keep_alive=idle_seconds,
        )
    )
    listener = socket.create_server(("127.0.0.1", port))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=60) as client:
            yield client
    finally:
        app.state.watch.close()
        server.should_exit = True
        thread.join(30)
        listener.close()
        assert not thread.is_alive()


def campaign_in(folder: Path, name: str = "screen.db", **changes: Any) -> Path:
    """A small campaign in a folder."""
    made(folder, name, **changes).close()
    return folder / name


class Service:
    """`manyarms serve` as a real process, which can be killed and started again at the same port."""

    def __init__(self, place: object, *options: str, port: int = 0) -> None:
        self._place, self._options, self.port = str(place), options, port
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "serve", self._place, "--port", str(self.port), "--json", *self._options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": ""},
        )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the service did not start: {self.process.communicate()[1]}"
        self.address = json.loads(line)["address"]
        self.port = int(self.address.rpartition(":")[2])

    def kill(self) -> None:
        """Kill it without any chance to clean up."""
        self.process.send_signal(signal.SIGKILL)
        self._end()

    def stop(self) -> str:
        """End it as Ctrl-C does; returns what it has said."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self._end()

    def _end(self) -> str:
        out, err = self.process.communicate(timeout=60)
        return out + err


@contextlib.contextmanager
def running(place: object, *options: str) -> Iterator[Service]:
    service = Service(place, *options)
    try:
        yield service
    finally:
        service.stop()

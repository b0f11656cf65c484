"""Real processes on this machine: `manyarms serve`, and `manyarms agents join` for each agent."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tests.federation.support import Problem

ROOT = Path(__file__).resolve().parents[2]
ENV = {
    **os.environ, "OPENBLAS_NUM_THREADS": "1",
    "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
}  # fmt: skip
PYTHON = "tests.federation.trial_function:measure"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Processes:
    """Started processes, ended by their own ids."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.all = folder, list[subprocess.Popen[bytes]]()

    def start(self, name: str, *arguments: str, module: str = "manyarms") -> subprocess.Popen[bytes]:
        with open(self.folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments], env=ENV, cwd=ROOT, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        self.all.append(process)
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """As a power cut: no signal that could be handled."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(120)

    def serve(self, port: int, *options: str) -> subprocess.Popen[bytes]:
        """`manyarms serve`, when it listens."""
        return self._listening(
            self.start("serve", "serve", str(self.folder), "--port", str(port), *options), port
        )

    def serve_with_a_clock(self, port: int) -> subprocess.Popen[bytes]:
        """The same application, with a clock that the test moves."""
        module = "tests.federation.clocked_server"
        return self._listening(self.start("serve", str(self.folder), str(port), module=module), port)

    def _listening(self, process: subprocess.Popen[bytes], port: int) -> subprocess.Popen[bytes]:
        until = time.monotonic() + 180
        while time.monotonic() < until:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
                return process
            assert process.poll() is None, self.logs()
            time.sleep(0.1)
        raise AssertionError(self.logs())

    def join(self, problem: Problem, number: int, *options: str) -> subprocess.Popen[bytes]:
        return self.start(
            f"agent{number}", "agents", "join", str(problem.invitation_file(number)),
            "--pool", str(problem.table_file), "--python", PYTHON, "--poll", "0.5", "--json", *options,
        )  # fmt: skip

    def finished(self, processes: list[subprocess.Popen[bytes]], seconds: float = 240.0) -> None:
        until = time.monotonic() + seconds
        for process in processes:
            try:
                code = process.wait(max(1.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise AssertionError(f"not finished in {seconds} s\n{self.logs()}") from None
            assert code == 0, self.logs()

    def logs(self) -> str:
        return "\n".join(
            f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}"
            for path in sorted(self.folder.glob("*.log"))
        )


@contextlib.contextmanager
def processes(folder: Path) -> Iterator[Processes]:
    started = Processes(folder)
    try:
        yield started
    finally:
        for process in reversed(started.all):
            started.kill(process)


class Wiretap:
    """A proxy that passes every byte on and keeps a copy of each direction of each connection."""

    def __init__(self, target: int) -> None:
        self._target, self.connections = target, list[tuple[bytearray, bytearray]]()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
                up, down = bytearray(), bytearray()
                self.connections.append((up, down))
                self._sockets += [near, far]
                for source, sink, copy in ((near, far, up), (far, near, down)):
                    threading.Thread(target=self._pass_on, args=(source, sink, copy), daemon=True).start()

    @staticmethod
    def _pass_on(source: socket.socket, sink: socket.socket, copy: bytearray) -> None:
        try:
            while data := source.recv(1 << 16):
                copy += data
                sink.sendall(data)
        except OSError:
            return
        finally:
            with contextlib.suppress(OSError):
                sink.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        for each in (self._listener, *self._sockets):
            each.close()


def http_bodies(stream: bytes) -> list[bytes]:
    """The bodies of the messages on one direction of a connection, all with a Content-Length."""
    bodies, position = [], 0
    while position < len(stream):
        end = stream.index(b"\r\n\r\n", position) + 4
        head = stream[position:end].lower()
        length = int(head.split(b"content-length:")[1].split(b"\r\n")[0]) if b"content-length:" in head else 0
        bodies.append(bytes(stream[end : end + length]))
        position = end + length
    return bodies

"""Headless Chromium over the DevTools protocol's pipe: no driver, no library, no open port."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--hide-scrollbars", "--remote-debugging-pipe",
]  # fmt: skip
# Chromium reads commands from descriptor 3 and writes to 4; only a process of its own can have them there.
LAUNCHER = """
import os, sys
from fcntl import F_DUPFD_CLOEXEC, fcntl
reader, writer = (fcntl(int(descriptor), F_DUPFD_CLOEXEC, 10) for descriptor in sys.argv[1:3])
os.dup2(reader, 3)
os.dup2(writer, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def executable() -> str:
    """Chromium's path; its absence fails the test, for a page nobody looked at is not tested."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    assert found, f"none of {', '.join(NAMES)} is installed; on Debian: apt-get install chromium"
    return found


class Browser:
    """One page in a running Chromium. Everything it reports is kept in `events`."""

    def __init__(self, commands: BinaryIO, replies: BinaryIO) -> None:
        self._commands, self._replies = commands, replies
        self._rest, self._sent, self._session = b"", 0, {}
        self.events: list[dict[str, Any]] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._session = {"sessionId": session}
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command, and the reply to it."""
        self._sent += 1
        message = {"id": self._sent, "method": method, "params": parameters, **self._session}
        self._commands.write(json.dumps(message).encode() + b"\0")
        while (reply := self._receive()).get("id") != self._sent:
            self.events.append(reply)
        assert "error" not in reply, f"{method}: {reply['error']}"
        return reply["result"]

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            chunk = self._replies.read(1 << 16)
            assert chunk, "Chromium ended"
            self._rest += chunk
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)

    def open(self, page: Path, width: int, height: int = 900, scheme: str = "light") -> None:
        """Load a file in a window of this width, and wait until it is there."""
        self.events.clear()
        window = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.send("Emulation.setDeviceMetricsOverride", **window)
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.send("Page.navigate", url=page.as_uri())
        while not self.named("Page.loadEventFired"):
            self.events.append(self._receive())
        self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def named(self, method: str) -> list[dict[str, Any]]:
        """What has been reported under this name since the page was opened."""
        return [event["params"] for event in self.events if event.get("method") == method]

    def value(self, script: str) -> Any:
        """What a script in the page gives."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def screenshot(self, path: Path, whole: bool = True) -> None:
        """The page as a picture."""
        picture = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(picture))


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser with a profile of its own, gone at the end."""
    command_reader, command_writer = os.pipe()
    reply_reader, reply_writer = os.pipe()
    theirs = (command_reader, reply_writer)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [executable(), *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        process = subprocess.Popen(
            [sys.executable, "-c", LAUNCHER, *map(str, theirs), *command],
            pass_fds=theirs, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        for descriptor in theirs:
            os.close(descriptor)
        try:
            with (
                os.fdopen(command_writer, "wb", buffering=0) as commands,
                os.fdopen(reply_reader, "rb", buffering=0) as replies,
            ):
                yield Browser(commands, replies)
        finally:  # Chromium ends when its pipe does
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

"""Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, Error, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--hide-scrollbars",
]  # fmt: skip


def executable() -> str:
    """Chromium's path; its absence fails the test, for a page nobody looked at is not tested."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    assert found, f"none of {', '.join(NAMES)} is installed; on Debian: apt-get install chromium"
    return found


@dataclass
class Watched:
    """A page, with everything that it complained about and every address that it asked for."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requested: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", lambda said: self.complaints.append(f"{said.type}: {said.text}"))
        self.page.on("pageerror", lambda problem: self.complaints.append(f"error: {problem}"))
        self.page.on("request", lambda request: self.requested.append(request.url))

    def open(self, address: str | Path) -> None:
        """Load a file or an address, and wait until its charts are drawn."""
        self.page.goto(address.as_uri() if isinstance(address, Path) else address)
        self.drawn()

    def drawn(self) -> None:
        """Wait until every chart is drawn."""
        self.until("[...document.querySelectorAll('[data-chart]')].every(chart => chart.dataset.drawn)")

    def until(self, script: str, seconds: float = 240.0) -> None:
        """Wait until a script gives true. (The page's policy forbids Playwright's own way to do this.)"""
        end = time.monotonic() + seconds
        while not self._holds(script):
            assert time.monotonic() < end, f"still false: {script}"
            self.page.wait_for_timeout(50)

    def _holds(self, script: str) -> bool:
        try:
            return bool(self.page.evaluate(script))
        except Error as problem:
            # The page is just being left, or the next one has no body yet.
            if "context was destroyed" in str(problem) or "properties of null" in str(problem):
                return False
            raise


@contextmanager
def chromium() -> Iterator[Browser]:
    """A running browser."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def watched(browser: Browser, width: int, height: int = 900, scheme: str = "light") -> Iterator[Watched]:
    """A page in a window of this width, with cookies and storage of its own."""
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=scheme,
        accept_downloads=True,  # type: ignore[arg-type]
    )
    try:
        yield Watched(context.new_page())
    finally:
        context.close()

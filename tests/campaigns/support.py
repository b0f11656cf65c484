"""A small table with known values, and ways to call the command: in this process, or as a real one."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

from manyarms.campaigns.campaign import Campaign, Issued
from manyarms.campaigns.settings import Request
from manyarms.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "manyarms"]
SMALL = {"kernel": "rbf", "lengthscale": 0.3, "noise": 0.1, "signal": 1.0, "mean": 0.0, "repeats": "allow"}
LEARNED = dict.fromkeys(("kernel", "lengthscale", "noise", "signal", "mean"), "auto") | {"repeats": "forbid"}


def value_of(x1: float, x2: float, ticket: int) -> float:
    """A smooth hill with its top at (0.3, 0.6), and noise that belongs to the ticket."""
    noise = np.random.default_rng((7, ticket)).normal()
    return float(np.exp(-8 * ((x1 - 0.3) ** 2 + (x2 - 0.6) ** 2)) + 0.05 * noise)


def write_pool(folder: Path, n_arms: int = 120, names: Iterable[str] | None = None) -> Path:
    """A CSV file with an id, two features and a remark of the user's."""
    points = np.random.default_rng(0).random((n_arms, 2)).round(6).tolist()
    path = folder / "pool.csv"
    with open(path, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["name", "x1", "x2", "remark"])
        for i, (name, point) in enumerate(
            zip(names or (f"arm {j}" for j in range(n_arms)), points, strict=True)
        ):
            writer.writerow([name, *point, f"shelf {i % 7}"])
    return path


def request(pool: Path, **changes: Any) -> Request:
    return Request(**{"pool": str(pool), "id": "name", "features": ("x1", "x2"), **SMALL, **changes})


def made(folder: Path, name: str = "c.db", **changes: Any) -> Campaign:
    """A campaign on a small pool, in a folder or at an address."""
    pool = folder / "pool.csv"
    place: Any = name if "://" in name else folder / name
    return Campaign.new(place, request(pool if pool.exists() else write_pool(folder), **changes))


def results(issued: Iterable[Issued], sign: float = 1.0) -> str:
    """A results file for these tickets."""
    values = {i.code: value_of(float(i.columns["x1"]), float(i.columns["x2"]), i.ticket) for i in issued}
    return "\n".join(["ticket,value", *(f"{ticket},{sign * v!r}" for ticket, v in values.items())]) + "\n"


def coded(campaign: Campaign, text: str) -> str:
    """The text of a results file whose first column has numbers of tickets, with the names of the tickets."""
    with campaign.store.reading() as connection:
        codes = {str(each.ticket): each.code for each in campaign.store.tickets(connection)}
    header, *lines = text.split("\n")
    if not header.startswith("ticket,"):
        return text
    cells = (line.partition(",") for line in lines)
    return "\n".join([header, *(codes.get(ticket, ticket) + comma + rest for ticket, comma, rest in cells)])


def step(campaign: Campaign, n: int | None = None) -> list[int]:
    """Ask and tell once; the arms."""
    issued = campaign.ask(n)
    campaign.tell_bytes(results(issued).encode(), "results.csv")
    return [each.arm for each in issued]


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def cli(*arguments: object, text: str | None = None) -> Done:
    """The command in this process."""
    done = CliRunner().invoke(app, [str(a) for a in arguments], input=text, catch_exceptions=False)
    return Done(done.exit_code, done.stdout, done.stderr)


def command(*arguments: object, cwd: Path | None = None, text: str | None = None, **more: Any) -> Done:
    """The command as a real process, which may keep compiled modules like any installed program.

    Not where `preexec_fn` limits what it can write: Python does not notice that a compiled module was cut
    off, and every later import of it fails.
    """
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    if "preexec_fn" in more:
        inherited["PYTHONDONTWRITEBYTECODE"] = "1"
    done = subprocess.run(
        [*COMMAND, *(str(a) for a in arguments)],
        cwd=cwd, input=text, capture_output=True, text=True, check=False, timeout=120,
        env={**inherited, "PYTHONWARNINGS": "error"}, **more,
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


def wait_until(condition: Callable[[], bool], seconds: float = 240.0) -> None:
    """Look again and again; it is a failure when it never becomes true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.02)

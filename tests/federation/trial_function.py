"""The trial of the tests: Branin plus noise that depends on the candidate and the step alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from manyarms.problems import branin

PROBLEM = branin()


def value(row: tuple[float, float], index: int, step: int) -> float:
    noise = np.random.default_rng([17, index, step]).standard_normal()
    return float(PROBLEM(np.array([row]))[0] + 0.2 * noise)


def measure(candidate: Any) -> float:
    """For `--python tests.federation.trial_function:measure`."""
    ticket = SimpleNamespace(**vars(candidate)) if hasattr(candidate, "__dict__") else candidate
    row = ticket.row
    return value((float(row["x1"]), float(row["x2"])), int(ticket.index), int(ticket.ticket))

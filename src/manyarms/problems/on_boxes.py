"""Functions on boxes with known minima, on which Bayesian optimisation is usually compared.

They are to be minimised, in the form and on the box in which they are usually published (Surjanovic and
Bingham, "Virtual Library of Simulation Experiments"). The box of Ackley is the exception: the usual one has
the minimum at its centre, where a method that divides boxes looks first, so it is shifted by 10.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyarms.support.validation import Floats


@dataclass(frozen=True)
class BoxProblem:
    """A function to be minimised, the corners of its box and its smallest value there."""

    name: str
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    function: Callable[[Floats], Floats]
    minimum: float

    def __call__(self, points: Any) -> Floats:
        """The values of the function at the rows of `points`."""
        return np.asarray(self.function(np.atleast_2d(np.asarray(points, dtype=np.float64))))

    def regret(self, points: Any) -> Floats:
        """How much larger than the minimum the function is at the rows of `points`."""
        return np.asarray(self(points) - self.minimum)


def _branin(X: Floats) -> Floats:
    u, v = X.T
    quadratic = v - 5.1 / (4 * math.pi**2) * u**2 + 5.0 / math.pi * u - 6.0
    return np.asarray(quadratic**2 + 10.0 * (1.0 - 1.0 / (8.0 * math.pi)) * np.cos(u) + 10.0)


_HEIGHTS = np.array([1.0, 1.2, 3.0, 3.2])
_STEEPNESS = np.array(
    [
        [10.0, 3.0, 17.0, 3.5, 1.7, 8.0],
        [0.05, 10.0, 17.0, 0.1, 8.0, 14.0],
        [3.0, 3.5, 1.7, 10.0, 17.0, 8.0],
        [17.0, 8.0, 0.05, 10.0, 0.1, 14.0],
    ]
)
_CENTRES = 1e-4 * np.array(
    [
        [1312.0, 1696.0, 5569.0, 124.0, 8283.0, 5886.0],
        [2329.0, 4135.0, 8307.0, 3736.0, 1004.0, 9991.0],
        [2348.0, 1451.0, 3522.0, 2883.0, 3047.0, 6650.0],
        [4047.0, 8828.0, 8732.0, 5743.0, 1091.0, 381.0],
    ]
)


def _hartmann(X: Floats) -> Floats:
    d = X.shape[1]
    squares = (X[:, None, :] - _CENTRES[:, :d]) ** 2
    return np.asarray(-np.exp(-np.einsum("nij,ij->ni", squares, _STEEPNESS[:, :d])) @ _HEIGHTS)


def _ackley(X: Floats) -> Floats:
    distance = np.sqrt((X**2).mean(axis=1))
    waves = np.cos(2.0 * math.pi * X).mean(axis=1)
    return np.asarray(20.0 * -np.expm1(-0.2 * distance) + math.e - np.exp(waves))


def _levy(X: Floats) -> Floats:
    W = 1.0 + (X - 1.0) / 4.0
    inner, last = W[:, :-1], W[:, -1]
    terms = (inner - 1.0) ** 2 * (1.0 + 10.0 * np.sin(math.pi * inner + 1.0) ** 2)
    end = (last - 1.0) ** 2 * (1.0 + np.sin(2.0 * math.pi * last) ** 2)
    return np.asarray(np.sin(math.pi * W[:, 0]) ** 2 + terms.sum(axis=1) + end)


def _cube(d: int, lower: float, upper: float) -> dict[str, tuple[float, ...]]:
    return {"lower": (lower,) * d, "upper": (upper,) * d}


BOX_PROBLEMS: dict[str, BoxProblem] = {
    problem.name: problem
    for problem in (
        BoxProblem("Branin", (-5.0, 0.0), (10.0, 15.0), _branin, 10.0 / (8.0 * math.pi)),
        BoxProblem("Hartmann-4", **_cube(4, 0.0, 1.0), function=_hartmann, minimum=-3.7298405844855917),
        BoxProblem("Hartmann-6", **_cube(6, 0.0, 1.0), function=_hartmann, minimum=-3.3223680114155125),
        BoxProblem("Ackley-5", **_cube(5, -22.768, 42.768), function=_ackley, minimum=0.0),
        BoxProblem("Levy-8", **_cube(8, -10.0, 10.0), function=_levy, minimum=0.0),
    )
}

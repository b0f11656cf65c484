"""Ada-BKB in its plainest form: an exact Gaussian process and cells in a list (theory §13.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import product

import numpy as np


@dataclass(eq=False)
class Cell:
    low: np.ndarray
    high: np.ndarray
    centre: np.ndarray
    parent: Cell | None
    depth: int = 0


@dataclass
class PlainAdaBKB:
    """Maximise on [0, 1]ᵈ with k(x, y) = exp(−Σ (x − y)²/(2l²)) and every centroid as it is."""

    d: int
    lengthscale: float
    ridge: float
    noise_std: float
    norm_bound: float
    delta: float
    max_splits: int = 30
    prunes: bool = True
    X: list[np.ndarray] = field(default_factory=list)
    y: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.leaves = [Cell(np.zeros(self.d), np.ones(self.d), np.full(self.d, 0.5), None)]

    def k(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        squares = ((np.atleast_2d(a)[:, None, :] - np.atleast_2d(b)[None, :, :]) ** 2).sum(axis=2)
        return np.exp(-squares / (2 * self.lengthscale**2))

    def posterior(self, x: np.ndarray) -> tuple[float, float]:
        """Mean and standard deviation."""
        if not self.X:
            return 0.0, 1.0
        X = np.array(self.X)
        inverse = np.linalg.inv(self.k(X, X) + self.ridge * np.eye(len(X)))
        at = self.k(X, x)[:, 0]
        return float(at @ inverse @ np.array(self.y)), math.sqrt(max(1.0 - at @ inverse @ at, 0.0))

    def beta(self) -> float:
        """The width of an exact posterior, in standard deviations (theory §4.2)."""
        log_det = 0.0
        if self.X:
            K = self.k(np.array(self.X), np.array(self.X))
            log_det = float(np.linalg.slogdet(K / self.ridge + np.eye(len(K)))[1])
        noise = self.noise_std * math.sqrt(log_det + 2 * math.log(1 / self.delta))
        return self.norm_bound + noise / math.sqrt(self.ridge)

    def variation(self, cell: Cell) -> float:
        """F · the largest distance to a corner."""
        corners = [
            np.where(np.array(choice), cell.high, cell.low) for choice in product((0, 1), repeat=self.d)
        ]
        largest = max(2.0 - 2.0 * float(self.k(cell.centre, corner)[0, 0]) for corner in corners)
        return self.norm_bound * math.sqrt(max(largest, 0.0))

    def upper(self, x: np.ndarray) -> float:
        mean, std = self.posterior(x)
        return mean + self.beta() * std

    def index(self, cell: Cell) -> float:
        above = math.inf
        if cell.parent is not None:
            above = self.upper(cell.parent.centre) + self.variation(cell.parent)
        return min(self.upper(cell.centre), above) + self.variation(cell)

    def next_point(self) -> np.ndarray:
        if self.prunes and self.X:
            best = max(2 * self.posterior(x)[0] - self.upper(x) for x in self.X)
            self.leaves = [cell for cell in self.leaves if not self.index(cell) < best]
        for splits in range(self.max_splits + 1):
            indices = [self.index(cell) for cell in self.leaves]
            ties = [i for i in indices if i >= max(indices) - 1e-9 * (1 + abs(max(indices)))]
            top = self.leaves[indices.index(ties[0])]
            known = self.beta() * self.posterior(top.centre)[1] <= self.variation(top)
            if not known or splits == self.max_splits:
                return top.centre
            self.leaves.remove(top)
            self.leaves += self.thirds(top)
        raise AssertionError

    def thirds(self, cell: Cell) -> list[Cell]:
        axis = int(np.argmax(np.round(cell.high - cell.low, 9)))
        side = (cell.high[axis] - cell.low[axis]) / 3
        children = []
        for i in range(3):
            low, high, centre = cell.low.copy(), cell.high.copy(), cell.centre.copy()
            low[axis], high[axis] = cell.low[axis] + i * side, cell.low[axis] + (i + 1) * side
            centre[axis] += (i - 1) * side
            children.append(Cell(low, high, centre, cell, cell.depth + 1))
        return children

    def tell(self, x: np.ndarray, reward: float) -> None:
        self.X.append(x)
        self.y.append(reward)

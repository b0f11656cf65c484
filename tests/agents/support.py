"""Small problems for the tests of agents, and a link that records every message of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import manyarms as ma
from manyarms.agents import Coins
from manyarms.agents.protocol.messages import Inducing, Message, Solution
from manyarms.agents.protocol.wire import decode
from manyarms.problems import Noisy, branin

KERNEL = ma.RBF(lengthscale=0.2)
PROBLEM = branin()
NOISE = 0.2


def small_pool(n_arms: int = 300, seed: int = 0) -> ma.Pool:
    """Random points of the unit square."""
    return PROBLEM.pool(n_arms, seed)


def coins(seed: int, n_agents: int = 4) -> Coins:
    """The coins of a simulation."""
    return Coins.from_seed(seed, n_agents)


def rewards(seed: int) -> Noisy:
    """Branin with noise, from a separate random stream per agent."""
    return Noisy(PROBLEM, NOISE, seed)


@dataclass
class Witness:
    """A perfect link that records every message as (direction, agent, message, bytes)."""

    seen: list[tuple[str, int, Message, int]] = field(default_factory=list)

    def __call__(self, direction: str, agent: int, data: bytes) -> list[bytes]:
        self.seen.append((direction, agent, decode(data), len(data)))
        return [data]

    def down(self, kind: type[Message]) -> dict[int, Any]:
        """One message of this kind per epoch, as sent by the server."""
        return {m.epoch: m for direction, _, m, _ in self.seen if direction == "down" and type(m) is kind}

    @property
    def inducing(self) -> dict[int, Inducing]:
        return self.down(Inducing)

    @property
    def solutions(self) -> dict[int, Solution]:
        return self.down(Solution)


@dataclass(frozen=True)
class Expansion:
    """A function f = Σ a_i k(x_i, ·) with known RKHS norm."""

    kernel: Any
    centres: np.ndarray
    weights: np.ndarray

    @classmethod
    def random(
        cls, kernel: Any, norm: float, seed: int, n_features: int = 2, n_centres: int = 6
    ) -> Expansion:
        rng = np.random.default_rng(seed)
        centres, weights = rng.random((n_centres, n_features)), rng.standard_normal(n_centres)
        weights *= norm / np.sqrt(weights @ kernel.matrix(centres, centres) @ weights)
        return cls(kernel, centres, weights)

    def __call__(self, points: Any) -> np.ndarray:
        return np.asarray(self.kernel.matrix(np.asarray(points), self.centres) @ self.weights)


def by_epoch(values: np.ndarray, lengths: tuple[int, ...]) -> list[np.ndarray]:
    """The T values of an agent, split into epochs."""
    return np.split(values, np.cumsum(lengths)[:-1])

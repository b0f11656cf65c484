"""An unreliable network, and runs in which every posterior is checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from manyarms import agents
from manyarms.agents.protocol import messages as m
from manyarms.agents.protocol.wire import decode
from tests.agents.oracle import exact_posterior, sparse_posterior
from tests.agents.support import KERNEL, NOISE, Witness, rewards, small_pool

POOL = small_pool(120)
N, HORIZON = 4, 11


def duets(horizon: int = 60, **changes: Any) -> agents.DUETS:
    return agents.DUETS(KERNEL, 0.2, N, horizon, width=0.5, noise_std=NOISE, **changes)


DOMAINS = {"pool": POOL, "box": agents.Box([0, 0], [1, 1], n_probes=300)}
ALGORITHMS: dict[str, Callable[[], Any]] = {
    "duets": duets,
    "dis": lambda: agents.DisKernelUCB(KERNEL, 0.2, N, HORIZON, sync_threshold=5.0),
    "approx": lambda: agents.ApproxDisKernelUCB(KERNEL, 0.2, N, HORIZON, sync_threshold=8.0),
}


@dataclass
class Faults:
    """A link that loses, repeats, delays and damages messages at random, and can cut off agents."""

    seed: int
    lose: float = 0.0
    repeat: float = 0.0
    delay: float = 0.0
    damage: float = 0.0
    dead: Callable[[str, int, m.Message], bool] = lambda direction, agent, message: False
    held: dict[tuple[str, int], list[bytes]] = field(default_factory=dict)
    witness: Witness = field(default_factory=Witness)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    def __call__(self, direction: str, agent: int, data: bytes) -> list[bytes]:
        self.witness(direction, agent, data)
        if self.dead(direction, agent, decode(data)) or self.rng.random() < self.lose:
            return []
        late = self.held.pop((direction, agent), [])
        if self.rng.random() < self.delay:  # delivered with the next message to or from this agent
            self.held[direction, agent] = [data]
            return late
        if self.rng.random() < self.damage:
            position = int(self.rng.integers(len(data)))
            data = data[:position] + bytes([data[position] ^ 0x5A]) + data[position + 1 :]
        return [data, *late, data] if self.rng.random() < self.repeat else [data, *late]


@dataclass
class Recorded:
    """An evaluation function that records arms and rewards by agent and epoch."""

    settings: agents.DUETS
    noisy: Any
    epochs: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    def __call__(self, pulls: agents.Pulls) -> np.ndarray:
        values = self.noisy(pulls)
        starts = np.cumsum([0, *self.settings.lengths]).tolist()
        self.epochs[pulls.agent, starts.index(pulls.step) + 1] = (pulls.arms, values)
        return values


def faulty_run(settings: agents.DUETS, faults: Faults, seed: int, watch: Any = None) -> agents.RunResult:
    """A run in which every Solution is checked against the agents recorded as present."""
    recorded = Recorded(settings, rewards(seed))
    result = agents.run(settings, POOL, recorded, seed=seed, link=faults, before_sending=watch)
    witness = faults.witness
    for record in result.server.records:
        if record.epoch not in witness.solutions or not record.present:
            continue
        arms, values = (
            np.concatenate(column)
            for column in zip(*(recorded.epochs[n, record.epoch] for n in record.present), strict=True)
        )
        solution, inducing = witness.solutions[record.epoch], POOL.take(witness.inducing[record.epoch].points)
        mean, _ = sparse_posterior(KERNEL, inducing, POOL.take(arms), values, 0.2, POOL.features)
        found = KERNEL.matrix(POOL.features, inducing) @ solution.weights
        assert np.abs(found - mean).max() < 1e-9, f"epoch {record.epoch}: wrong posterior"
        _, leverage = exact_posterior(KERNEL, POOL.take(arms), values, 0.2, POOL.features)
        assert solution.sigma_max <= np.sqrt(0.2 * leverage.max()) * (1 + 1e-6)
    assert result.server.done
    return result

"""Runs that the tests of the engines compare."""

from __future__ import annotations

import numpy as np

import manyarms as ma

BLOCK = 512  # arms; the pools of these tests have so little memory that no pass takes larger blocks
N_ARMS = 17 * BLOCK + 100
POLICIES = {
    "BKB": (ma.BKB, {}),
    "BBKB global": (ma.BBKB, {}),
    "BBKB local": (ma.BBKB, {"local": True}),
    "GPBUCB": (ma.GPBUCB, {}),
    "SGPTS": (ma.SGPTS, {"prior_size": 60}),
    "learned": (None, {}),
    "per cost": (ma.BBKB, {"batch_ratio": 3.0}),
    "failing": (None, {}),
}


class Search:
    """A pool with known values; half of the rows occur twice, so that ties cross the borders of shards."""

    def __init__(self, seed: int, n_arms: int = N_ARMS, max_memory: int = 2**16) -> None:
        rng = np.random.default_rng(seed)
        features = rng.random((n_arms, 3))
        features[-(n_arms // 2) :] = features[: n_arms // 2]
        self.seed, self.pool = seed, ma.Pool(features, max_memory=max_memory)
        self.values = np.sin(5 * features[:, 0]) + features[:, 1] * features[:, 2]
        self.prices = rng.lognormal(size=n_arms)
        self.noise = 0.1 * np.random.default_rng((seed, 1)).normal(size=10_000)

    def policy(self, name: str) -> ma.Policy | None:
        kind, settings = POLICIES[name]
        return kind and kind(kernel=ma.RBF(0.4), noise_std=0.1, **settings)

    def start(self, name: str, engine: object) -> ma.Optimizer:
        costs = ma.Costs(self.prices, budget=60.0, per_cost=True) if name == "per cost" else None
        return ma.Optimizer(self.pool, self.policy(name), seed=self.seed, engine=engine, costs=costs)

    def step(self, opt: ma.Optimizer, size: int, fails: bool = False) -> list[int]:
        """A batch of this size for a learned model; other policies may end it by their rule."""
        batch = opt.ask(size) if opt.model is not None or not opt.history.pulls else opt.ask(at_most=size)
        lost = (fails & (self.pool.features[batch.arms, 2] > 0.6)).tolist()
        opt.tell(batch, self.values[batch.arms] + self.noise[batch.tickets], failed=lost)
        return batch.arms.tolist()

    def arms(self, name: str, engine: object, sizes: tuple[int, ...] = (4, 6, 25, 1, 1, 2)) -> list[int]:
        opt = self.start(name, engine)
        return [arm for size in sizes for arm in self.step(opt, size, name == "failing")]

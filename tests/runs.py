"""Small problems and loops that several test files use."""

from __future__ import annotations

import numpy as np

import manyarms as ma


class Problem:
    """A pool with known values drawn from the model; noise belongs to a ticket, not to the call order."""

    def __init__(
        self, seed: int, n_arms: int = 300, n_features: int = 2, kernel=None, noise_std: float = 0.1
    ):
        rng = np.random.default_rng(seed)
        self.kernel = kernel or ma.RBF(0.3 * np.sqrt(n_features))
        self.noise_std, self.seed = noise_std, seed
        features = rng.random((n_arms, n_features))
        features[n_arms // 2 : n_arms // 2 + 10] = features[:10]  # equal rows
        self.pool = ma.Pool(features)
        centres = features[rng.choice(n_arms, 30, replace=False)]
        weights = rng.normal(size=30)
        gram = self.kernel.matrix(centres, centres)
        weights /= np.sqrt(weights @ gram @ weights)  # ‖f‖ = 1
        self.truth = self.kernel.matrix(features, centres) @ weights
        self._noise = np.random.default_rng((seed, 99)).normal(size=20_000)

    def settings(self, **changes):
        given = {
            "kernel": self.kernel,
            "noise_std": self.noise_std,
            "ridge": 0.2,
            "norm_bound": 1.0,
            "delta": 1e-2,
        }
        return given | changes

    def rewards(self, batch: ma.Batch) -> np.ndarray:
        return self.truth[batch.arms] + self.noise_std * self._noise[batch.tickets]

    def run(self, opt: ma.Optimizer, pulls: int, **ask) -> list[int]:
        """Ask and tell until this many pulls are in; the arms in order."""
        arms: list[int] = []
        while len(arms) < pulls:
            batch = opt.ask(**ask) if "n" in ask else opt.ask(at_most=pulls - len(arms), **ask)
            opt.tell(batch, self.rewards(batch))
            arms += batch.arms.tolist()
        return arms

    def regret(self, arms: list[int]) -> np.ndarray:
        return np.cumsum(self.truth.max() - self.truth[arms])

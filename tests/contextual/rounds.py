"""Small contextual problems, and loops over their rounds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import manyarms as ma


class Stream:
    """Rounds of new candidates whose expected rewards are a function from the model, ‖f‖ = 1."""

    def __init__(self, seed: int, n_features: int = 2, candidates: int = 10, noise_std: float = 0.1) -> None:
        rng = np.random.default_rng((seed, 5))
        self.kernel, self.noise_std = ma.RBF(0.3 * np.sqrt(n_features)), noise_std
        self.centres = rng.random((20, n_features))
        weights = rng.normal(size=20)
        self.weights = weights / np.sqrt(weights @ self.kernel.matrix(self.centres, self.centres) @ weights)
        self._rng, self._size = rng, (candidates, n_features)

    def truth(self, rows: np.ndarray) -> np.ndarray:
        return self.kernel.matrix(rows, self.centres) @ self.weights

    def rounds(self, n: int) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
        """Rows, their expected rewards, and the noise of the round."""
        for _ in range(n):
            rows = self._rng.random(self._size)
            yield rows, self.truth(rows), float(self.noise_std * self._rng.normal())


def play(bandit: ma.ContextualBandit, stream: Stream, n: int) -> np.ndarray:
    """The regret of each round, with rewards told at once."""
    regret = np.empty(n)
    for t, (rows, truth, noise) in enumerate(stream.rounds(n)):
        pick = bandit.ask(rows)
        bandit.tell(pick.ticket, truth[pick.index] + noise)
        regret[t] = truth.max() - truth[pick.index]
    return regret

"""Nothing builds A × A or A × t, and results do not depend on the block size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import manyarms as ma
from manyarms.posterior.hallucination import Hallucination
from tests.oracle import Ledger, assert_agrees, sparse

N_ARMS, RIDGE = 3000, 0.3
SMALL, LARGE = 2**16, 2**30


class Recording(ma.RBF):
    """An RBF kernel that writes down every shape it is asked for."""

    def __init__(self) -> None:
        super().__init__(1.0)
        object.__setattr__(self, "shapes", [])

    def matrix(self, X: Any, Y: Any) -> np.ndarray:
        self.shapes.append((len(X), len(Y)))
        return super().matrix(X, Y)


def busy_posterior(max_memory: int) -> tuple[ma.Posterior, Recording, Ledger]:
    """Every operation, with many pulls of few arms."""
    rng, kernel = np.random.default_rng(0), Recording()
    features = rng.normal(size=(N_ARMS, 3))
    posterior = ma.Posterior(ma.Pool(features[:2500], max_memory=max_memory), kernel, RIDGE)
    ledger = Ledger(N_ARMS)
    favourites = rng.choice(2500, size=40, replace=False)
    for _ in range(30):
        arms = rng.choice(favourites, size=20)
        rewards = rng.normal(size=20)
        posterior.update(arms[:2], arms, rewards)
        ledger.pull(arms, rewards)
    posterior.extend(posterior.pool.extended(features[2500:]))
    posterior.rebuild(favourites[::2])
    posterior.append(favourites[1::2][:8])
    posterior.refit(favourites[:3], ledger.sums[favourites[:3]])
    imagined = Hallucination(posterior)
    imagined.pull(5)
    imagined.leverage()
    return posterior, kernel, ledger


def test_no_call_asks_for_more_than_a_block() -> None:
    """Each kernel matrix fits `max_memory`, and one of its sides is inducing or pulled arms."""
    posterior, kernel, ledger = busy_posterior(SMALL)
    few = max(len(ledger.pulled), posterior.state.sketch_size)
    assert few < 60
    for rows, columns in kernel.shapes:
        assert 8 * rows * columns <= SMALL, (rows, columns)
        assert min(rows, columns) <= few, (rows, columns)
    assert max(max(shape) for shape in kernel.shapes) < N_ARMS / 2, "the pool was meant to be cut in blocks"
    assert posterior.state.pulls == 600


def test_nothing_kept_grows_with_the_number_of_pulls() -> None:
    """Once arms repeat, what is kept has the size of the arms pulled, not of the pulls."""
    posterior, _, ledger = busy_posterior(LARGE)
    sizes = []
    for _ in range(3):
        for _ in range(50):
            posterior.condition(ledger.pulled, np.zeros(len(ledger.pulled)))
        sizes.append(
            {name: np.size(value) for name, value in posterior.process.to_plain(posterior.state).items()}
        )
    assert sizes[0] == sizes[1] == sizes[2]


def test_results_do_not_depend_on_the_block_size() -> None:
    (small, _, ledger), (large, kernel, _) = busy_posterior(SMALL), busy_posterior(LARGE)
    assert np.array_equal(small.inducing, large.inducing)
    assert small.mean == pytest.approx(large.mean, rel=1e-12, abs=1e-12)
    assert small.leverage == pytest.approx(large.leverage, rel=1e-12)
    expected = sparse(kernel, large.pool.features, RIDGE, large.inducing, ledger)
    assert_agrees(small, expected)
    assert_agrees(large, expected)

"""The initial design is spread out, the subset to fit on covers the pulled arms, and both are seeded."""

from __future__ import annotations

import time

import numpy as np
import pytest

from manyarms.errors import InvalidParameterError
from manyarms.kernels import RBF
from manyarms.learning import design_size, initial_design, prepare
from manyarms.learning.fit_subset import choose_subset, greedy_cover
from manyarms.pool.pool import Pool


def nearest(points: np.ndarray) -> float:
    """The smallest distance between two points."""
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    return float(distances[np.triu_indices(len(points), 1)].min())


def test_a_design_is_more_spread_out_than_chance() -> None:
    """One-sided sign test over 20 seeds: at least 15 wins has probability 0.02 under chance."""
    X = np.random.default_rng(0).random((3000, 2))
    prepared = prepare(Pool(X))
    wins = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        design = initial_design(prepared, 12, rng)
        assert len(set(design.tolist())) == 12
        wins += nearest(X[design]) > nearest(X[rng.choice(3000, 12, replace=False)])
    assert wins >= 15, wins


def test_a_design_follows_its_seed() -> None:
    prepared = prepare(Pool(np.random.default_rng(0).random((3000, 2))))
    first, again, other = (initial_design(prepared, 8, np.random.default_rng(s)) for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert set(first.tolist()) != set(other.tolist())


@pytest.mark.parametrize("features", [np.zeros((30, 2)), np.repeat(np.eye(3), 10, axis=0), np.arange(4)])
def test_a_design_on_few_different_arms(features: np.ndarray) -> None:
    size = min(20, len(features))
    design = initial_design(prepare(Pool(features)), size, np.random.default_rng(0))
    assert len(set(design.tolist())) == size


def test_a_design_cannot_be_larger_than_the_pool() -> None:
    with pytest.raises(InvalidParameterError, match="at most 4"):
        initial_design(prepare(Pool(np.arange(4))), 5, np.random.default_rng(0))


def test_the_size_follows_the_features_the_budget_and_the_pool() -> None:
    def size(n_features: int, n_arms: int = 1000, budget: int | None = None) -> int:
        return design_size(prepare(Pool(np.random.default_rng(0).random((n_arms, n_features)))), budget)

    assert size(1) == 20
    assert size(12) == 26
    assert size(100) == 30
    assert size(8, n_arms=6) == 6
    assert size(8, budget=20) == 4
    assert size(8, budget=2) == 1


@pytest.mark.slow
def test_a_million_arms_take_seconds() -> None:
    pool = Pool(np.random.default_rng(0).random((1_000_000, 8), dtype=np.float32))
    started = time.process_time()
    prepared = prepare(pool)
    initial_design(prepared, 20, np.random.default_rng(0))
    assert time.process_time() - started < 10
    assert prepared.pool is pool


def test_few_arms_are_all_used() -> None:
    pool = Pool(np.arange(50.0))
    places = choose_subset(pool, RBF(), np.arange(50), np.zeros(50), np.random.default_rng(0), size=50)
    np.testing.assert_array_equal(places, np.arange(50))


def test_a_subset_has_the_best_arms_and_reaches_everywhere() -> None:
    rng = np.random.default_rng(1)
    X = np.concatenate(
        [rng.normal(0, 0.01, size=980), np.linspace(5, 50, 20)]
    )  # a cluster and 20 isolated arms
    means = rng.normal(size=1000)
    places = choose_subset(Pool(X), RBF(), np.arange(1000), means, rng, size=100)
    assert len(places) == len(set(places.tolist())) == 100
    assert set(np.argsort(-means)[:10].tolist()) <= set(places.tolist())
    assert set(range(980, 1000)) <= set(places.tolist())
    assert (places < 980).sum() > 50, "near arms are included too"


def test_the_cover_takes_the_arm_least_explained_and_stops_at_full_rank() -> None:
    X = np.array([[0.0], [0.1], [10.0], [10.0], [5.0]])
    kernel, pool = RBF(1.0), Pool(X)
    places = greedy_cover(pool, kernel, np.arange(5), 5)
    assert set(places[:3].tolist()) in ({0, 2, 4}, {0, 3, 4})
    assert len(places) == 4, "the second copy of an arm adds no rank"

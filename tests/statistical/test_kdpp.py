"""k-DPP samplers draw a set with probability ∝ det K_S: chi-square tests at α = 1e-3, fixed seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import chisquare

import manyarms as ma
from manyarms.errors import InvalidParameterError
from manyarms.sketch.inducing import KDPP, Candidates
from manyarms.sketch.kdpp import greedy, sample_chain, sample_exact

ALPHA, DRAWS = 1e-3, 2000
N, SIZE = 7, 3
Sampler = Callable[[np.ndarray, int, np.random.Generator], np.ndarray]


def covariance(lengthscale: float) -> np.ndarray:
    points = np.random.default_rng(3).normal(size=(N, 2))
    return np.asarray(ma.RBF(lengthscale).matrix(points, points))


def probabilities(K: np.ndarray, size: int) -> dict[tuple[int, ...], float]:
    """det K_S of every set, normalised: the definition."""
    sets = list(combinations(range(len(K)), size))
    weights = np.array([np.linalg.det(K[np.ix_(s, s)]) for s in sets])
    return dict(zip(sets, np.maximum(weights, 0) / np.maximum(weights, 0).sum(), strict=True))


def p_value(K: np.ndarray, size: int, sampler: Sampler, seed: int) -> float:
    """Chi-square of drawn sets; sets expected fewer than five times are counted together."""
    rng, chances = np.random.default_rng(seed), probabilities(K, size)
    drawn = Counter(tuple(sampler(K, size, rng).tolist()) for _ in range(DRAWS))
    assert set(drawn) <= set(chances), "sorted, without repetition"
    common = [s for s, p in chances.items() if p * DRAWS >= 5]
    observed = [drawn[s] for s in common]
    expected = [chances[s] * DRAWS for s in common]
    if len(common) < len(chances):
        observed.append(DRAWS - sum(observed))
        expected.append(DRAWS - sum(expected))
    return float(chisquare(observed, expected).pvalue)


@pytest.mark.parametrize(
    ("sampler", "lengthscale", "size"),
    [
        (sample_exact, 0.5, SIZE),
        (sample_exact, 1.5, 2),
        pytest.param(sample_chain, 0.5, SIZE, marks=pytest.mark.slow),
        (sample_chain, 1.5, 2),
    ],
)
def test_sets_are_drawn_by_their_determinant(sampler: Sampler, lengthscale: float, size: int) -> None:
    """The chain with its default number of swaps is close enough not to be told apart by 2000 draws."""
    found = p_value(covariance(lengthscale), size, sampler, seed=8)
    assert found > ALPHA, f"p-value {found:.2e}"


def test_the_test_can_tell_a_wrong_sampler() -> None:
    """Uniform sets, and a chain that never leaves its greedy start, are found out."""

    def uniform(K: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
        return np.sort(rng.choice(len(K), size=k, replace=False))

    def stuck(K: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
        return sample_chain(K, k, rng, steps=1)

    for wrong in (uniform, stuck):
        assert p_value(covariance(0.8), SIZE, wrong, seed=9) < 1e-6


@pytest.mark.parametrize("sampler", [sample_exact, sample_chain])
def test_twins_are_never_drawn_together(sampler: Sampler) -> None:
    points = np.array([0.0, 0.0, 1.0, 2.0, 2.0, 3.0])[:, None]
    K, rng = ma.RBF(1.0).matrix(points, points), np.random.default_rng(4)
    for _ in range(300):
        drawn = set(sampler(K, 3, rng).tolist())
        assert not {0, 1} <= drawn
        assert not {3, 4} <= drawn


@pytest.mark.parametrize("sampler", [sample_exact, sample_chain])
def test_more_points_than_the_rank_is_an_error_that_names_it(sampler: Sampler) -> None:
    X = np.random.default_rng(0).normal(size=(8, 2))
    with pytest.raises(InvalidParameterError, match="at most 2"):
        sampler(X @ X.T, 3, np.random.default_rng(0))


def test_greedy_takes_the_largest_conditional_variance_each_time() -> None:
    K = covariance(0.7) * np.outer(np.arange(1, N + 1), np.arange(1, N + 1))
    chosen: list[int] = []
    for _ in range(4):
        inner, cross = K[np.ix_(chosen, chosen)], K[:, chosen]
        left = (
            np.diag(K) - np.einsum("ij,ji->i", cross, np.linalg.solve(inner, cross.T))
            if chosen
            else np.diag(K)
        )
        chosen.append(int(np.argmax(left)))
    assert greedy(K, 4).tolist() == chosen


@pytest.mark.parametrize("method", ["auto", "exact", "chain"])
def test_the_rule_draws_arms_and_takes_all_while_there_are_few(method: str) -> None:
    K, arms = covariance(1.0), np.arange(50, 50 + N)
    candidates = Candidates(arms, np.ones(N), np.ones(N), np.full(N, -1.0), lambda: K)
    rng = np.random.default_rng(6)
    drawn = KDPP(SIZE, method).draw(candidates, rng)  # type: ignore[arg-type]
    assert len(set(drawn.arms.tolist()) & set(arms.tolist())) == SIZE
    assert np.array_equal(KDPP(N, method).draw(candidates, rng).arms, arms)  # type: ignore[arg-type]

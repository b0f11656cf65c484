"""Kernels of a large part of a pool: as exact as those of few arms, whatever the pieces."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import manyarms as ma
from manyarms.kernels import tanimoto
from manyarms.kernels.distances import squared_distances
from manyarms.support.column_store import BLOCK_ROWS

KERNELS = [ma.RBF(0.8), ma.Matern(0.6, nu=0.5), ma.Matern(0.6, nu=2.5), ma.Matern(1.1, nu=1.1)]


def plain_distances(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    return np.array([((X - y) ** 2).sum(axis=1) for y in Y]).T


@pytest.mark.parametrize("features", [1, 8, 40, 90])
def test_distances_of_many_pairs(features, rng) -> None:
    X = rng.normal(size=(BLOCK_ROWS + 1500, features)) + 3.0
    Y = X[rng.choice(len(X), size=50, replace=False)]
    expected = plain_distances(X, Y)
    for found in (squared_distances(X, Y, 1.0), squared_distances(Y, X, 1.0).T):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-14 * features)
        assert (found[expected == 0.0] == 0.0).all()
        assert (found >= 0).all()


@pytest.mark.parametrize("gap", [1e-3, 1e-6, 1e-9])
def test_near_duplicates_among_many_pairs(gap, rng) -> None:
    """A product of features alone would give them a distance of 0 or of a rounding error."""
    X = rng.normal(size=(3000, 6))
    Y = X[:40] + gap * rng.normal(size=(40, 6))
    found, expected = squared_distances(X, Y, 1.0), plain_distances(X, Y)
    near = expected < 100 * gap**2
    assert near.sum() >= 40
    np.testing.assert_allclose(found[near], expected[near], rtol=1e-6)


def test_an_arm_far_away_does_not_spoil_the_others(rng) -> None:
    X = rng.normal(size=(2000, 5))
    X[7] = 1e6
    Y = X[rng.choice(len(X), size=30, replace=False)]
    np.testing.assert_allclose(ma.RBF().matrix(X, Y), np.exp(-0.5 * plain_distances(X, Y)), atol=1e-13)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("points", [1, 3, 20])
def test_values_do_not_depend_on_the_division(kernel, points, rng) -> None:
    """At multiples of a block the bits are the same, for few points wherever the cut is."""
    X = rng.normal(size=(3 * BLOCK_ROWS + 100, 7))
    Y = X[rng.choice(len(X), size=points, replace=False)]
    whole = kernel.matrix(Y, X)
    np.testing.assert_array_equal(whole, kernel.matrix(X, Y).T)
    cuts = [BLOCK_ROWS, 3 * BLOCK_ROWS] if points > 3 else [5, 1001, BLOCK_ROWS + 3]
    parts = [kernel.matrix(Y, part) for part in np.split(X, cuts)]
    np.testing.assert_array_equal(np.hstack(parts), whole)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_many_and_few_arms_agree(kernel, rng) -> None:
    X, Y = rng.normal(size=(1500, 4)), rng.normal(size=(33, 4))
    expected = np.hstack([kernel.matrix(X, y[None]) for y in Y])
    np.testing.assert_allclose(kernel.matrix(X, Y), expected, rtol=1e-11, atol=1e-13)


# ------------------------------------------------------------------ Tanimoto


def exact_similarity(x: np.ndarray, y: np.ndarray) -> float:
    either = int(np.bitwise_count(x | y).sum())
    return float(Fraction(int(np.bitwise_count(x & y).sum()), either)) if either else 1.0


@pytest.mark.parametrize("compiled", [False, True])
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.tuples(st.integers(0, 30), st.integers(0, 30)),
    width=st.integers(1, 40),
    density=st.sampled_from([0, 1, 4]),
)
def test_tanimoto_is_exact(compiled, seed, rows, width, density) -> None:
    rng = np.random.default_rng(seed)
    X, Y = (
        np.packbits(rng.random((n, 8 * width)) < density / 8, axis=1) for n in rows
    )  # with density 0 all rows are empty
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tanimoto, "worthwhile_now", lambda much: compiled)
        found = ma.Tanimoto().matrix(X, Y)
    expected = np.array([exact_similarity(x, y) for x in X for y in Y]).reshape(rows)
    np.testing.assert_array_equal(found, expected)


def test_tanimoto_of_many_rows_is_the_same_compiled_or_not(monkeypatch, rng) -> None:
    X = np.packbits(rng.random((9001, 200)) < 0.2, axis=1)
    X[[3, 8000]] = 0
    found = []
    for compiled in (False, True):
        monkeypatch.setattr(tanimoto, "worthwhile_now", lambda much, compiled=compiled: compiled)
        found.append(ma.Tanimoto().matrix(X, X[:11]))
    np.testing.assert_array_equal(*found)
    assert found[0][8000, 3] == 1.0
    assert found[0][8000, 4] == 0.0

"""Triangular systems with many right-hand sides."""

from __future__ import annotations

import numpy as np
import pytest

import manyarms as ma
from manyarms.embeddings import Nystrom
from manyarms.embeddings.nystrom import independent_subset
from manyarms.support.linalg import forward, forward_over, times_transposed
from manyarms.support.triangles import LowerTriangle


@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 200])
@pytest.mark.parametrize("columns", [0, 1, 50])
def test_solutions_and_squares(size, columns, rng) -> None:
    matrix = rng.normal(size=(size, size)) / max(size, 1) + np.diag(1 + rng.random(size))
    right = rng.normal(size=(size, columns))
    before = right.copy()
    triangle = LowerTriangle(matrix)
    np.testing.assert_allclose(triangle.solve(right), np.linalg.solve(np.tril(matrix), right), atol=1e-12)
    np.testing.assert_allclose(triangle.squares(right), ((np.tril(matrix) @ right) ** 2).sum(axis=0))
    np.testing.assert_array_equal(right, before)


def exact_solution(factor: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Substitution in extended precision."""
    factor, solution = factor.astype(np.longdouble), right.astype(np.longdouble)
    for c in range(len(factor)):
        solution[c] = (solution[c] - factor[c, :c] @ solution[:c]) / factor[c, c]
    return solution


@pytest.mark.parametrize("kernel", [ma.RBF(0.3), ma.RBF(3.0), ma.Matern(1.0)], ids=repr)
def test_nearly_singular_factors_are_solved_as_accurately_as_by_substitution(kernel, rng) -> None:
    """The factor of every arm that the span tolerance admits: the inverses of its blocks are large."""
    X = rng.random((700, 2))
    chosen, factor = independent_subset(kernel.matrix(X, X), np.ones(len(X)), 1e-10)
    right = kernel.matrix(X[chosen], rng.random((200, 2)))
    exact = exact_solution(factor, right)
    ours = np.abs(LowerTriangle(factor).solve(right) - exact).max()
    substitution = np.abs(forward(factor, right) - exact).max()
    assert len(factor) >= 16
    assert ours <= 4 * substitution + 1e-14, (ours, substitution)


def test_columns_of_the_embedding(rng) -> None:
    X = rng.normal(size=(60, 3))
    kernel = ma.RBF(1.5)
    chosen, factor = independent_subset(kernel.matrix(X[:40], X[:40]), np.ones(40), 1e-10)
    embedding = Nystrom(kernel, X[:40][chosen], factor)
    Z = embedding.columns(X)
    assert Z.flags.c_contiguous
    np.testing.assert_array_equal(Z.T, embedding.matrix(X))
    np.testing.assert_allclose(Z[:, :40].T @ Z[:, :40], kernel.matrix(X[:40], X[:40]), atol=1e-6)
    assert Nystrom(kernel, X[:0], np.empty((0, 0))).columns(X).shape == (0, 60)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 5), (40, 7)])
def test_a_product_with_a_transposed_triangle_is_the_plain_one(
    rng: np.random.Generator, n: int, m: int
) -> None:
    rows, factor = rng.normal(size=(n, m)), np.tril(rng.normal(size=(m, m)))
    kept = rows.copy(), factor.copy()
    np.testing.assert_allclose(times_transposed(rows, factor), rows @ factor.T, rtol=1e-12, atol=1e-12)
    assert np.array_equal(rows, kept[0])
    assert np.array_equal(factor, kept[1])


@pytest.mark.parametrize(("m", "n"), [(1, 4), (2, 1), (5, 0), (0, 3), (30, 50)])
def test_a_solution_in_place_is_the_plain_one(rng: np.random.Generator, m: int, n: int) -> None:
    factor, right = np.tril(rng.normal(size=(m, m))) + 30 * np.eye(m), rng.normal(size=(m, n))
    kept, plain = factor.copy(), forward(factor, right)
    found = forward_over(factor, right.copy())
    assert found.shape == (m, n)
    np.testing.assert_allclose(found, plain, rtol=1e-12, atol=1e-12)
    assert np.array_equal(factor, kept)
    part = (np.tril(rng.normal(size=(m + 2, m + 2))) + 30 * np.eye(m + 2))[
        2:, 2:
    ]  # a part of a larger factor
    np.testing.assert_allclose(forward_over(part, right.copy()), forward(part, right), rtol=1e-12)

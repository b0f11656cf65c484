"""Frequent directions: the guarantee of the sketch on any rows, and V̂ against dense algebra."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from manyarms.posterior.frequent_directions import FrequentDirections

problems = st.tuples(
    st.integers(0, 2**32 - 1),  # seed
    st.integers(1, 60),  # rows
    st.integers(1, 12),  # features
    st.integers(2, 15),  # size
    st.integers(1, 12),  # rank
    st.sampled_from([1.0, 0.3]),  # how fast singular values fall
)
BATCHES = st.sampled_from([1, 3, 100])


def rows_of(problem: tuple[int, int, int, int, int, float]) -> tuple[np.ndarray, int]:
    seed, n, d, size, rank, decay = problem
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(n, rank)) * decay ** np.arange(rank), rng.normal(size=(rank, d))
    return factors[0] @ factors[1], size


def sketched(X: np.ndarray, size: int, batch: int) -> FrequentDirections:
    sketch = FrequentDirections(size, X.shape[1])
    for start in range(0, len(X), batch):
        sketch = sketch.updated(X[start : start + batch])
    return sketch


@settings(max_examples=150, deadline=None)
@given(problems, BATCHES)
def test_what_is_missing_lies_between_zero_and_escaped(problem, batch: int) -> None:
    """0 ≼ XᵀX − BᵀB ≼ ρI and ρ ≤ ‖X − X_k‖²_F / (size − k) for every k < size."""
    X, size = rows_of(problem)
    sketch = sketched(X, size, batch)
    assert len(sketch.rows) < size
    missing = np.linalg.eigvalsh(X.T @ X - sketch.rows.T @ sketch.rows)
    squares = np.linalg.svd(X, compute_uv=False) ** 2
    rounding = 1e-10 * squares.sum()
    assert missing.min() >= -rounding
    assert missing.max() <= sketch.escaped + rounding
    for k in range(size):
        assert sketch.escaped <= squares[k:].sum() / (size - k) + rounding


@settings(max_examples=80, deadline=None)
@given(problems, BATCHES, st.sampled_from([1e-3, 0.2, 5.0]))
def test_inverse_quadratic_and_determinant_are_those_of_the_matrix(problem, batch: int, ridge: float) -> None:
    X, size = rows_of(problem)
    sketch, d = sketched(X, size, batch), X.shape[1]
    V = sketch.rows.T @ sketch.rows + ridge * np.eye(d)
    inverse, scale = np.linalg.inv(V), 1e-9 * np.linalg.cond(V) / ridge * (1 + np.abs(X).max() ** 2)
    vectors = np.random.default_rng(0).normal(size=(d, 4))
    np.testing.assert_allclose(sketch.apply_inverse(vectors, ridge), inverse @ vectors, atol=scale)
    np.testing.assert_allclose(
        sketch.apply_inverse(vectors[:, 0], ridge), inverse @ vectors[:, 0], atol=scale
    )
    np.testing.assert_allclose(
        sketch.quadratic(X, ridge), np.einsum("ij,jk,ik->i", X, inverse, X), atol=scale, rtol=1e-7
    )
    np.testing.assert_allclose(sketch.log_determinant(ridge), np.linalg.slogdet(V)[1], rtol=1e-8, atol=1e-8)


@settings(max_examples=60, deadline=None)
@given(problems)
def test_counts_are_repeated_rows_and_the_fields_are_the_state(problem) -> None:
    """Where nothing escapes, n pulls of a row are one row with the count n; a saved sketch goes on alike."""
    X, _ = rows_of(problem)
    counts = np.random.default_rng(1).integers(0, 4, size=len(X))
    size = X.shape[1] + 1  # more than the rank: exact
    counted = FrequentDirections(size, X.shape[1]).updated(X, counts)
    repeated = FrequentDirections(size, X.shape[1]).updated(np.repeat(X, counts, axis=0))
    tolerance = 1e-11 * (1.0 + (X**2).sum() * 4)
    np.testing.assert_allclose(counted.rows.T @ counted.rows, repeated.rows.T @ repeated.rows, atol=tolerance)
    assert counted.escaped <= tolerance
    loaded = FrequentDirections(counted.size, counted.n_features, np.array(counted.rows), counted.escaped)
    np.testing.assert_array_equal(loaded.updated(X).rows, counted.updated(X).rows)


def test_a_sketch_that_is_too_small_loses_directions_for_good() -> None:
    """The unit vectors in turn: every direction is shrunk away, while an exact V grows in all of them."""
    d = 20
    X = np.tile(np.eye(d), (50, 1))
    small, exact = sketched(X, 5, 1), sketched(X, d + 1, 1)
    assert small.quadratic(np.eye(d), 0.1).max() > 9.0, "1/ridge is 10: as if never pulled"
    np.testing.assert_allclose(exact.quadratic(np.eye(d), 0.1), 1 / 50.1)

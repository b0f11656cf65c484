"""Triangular solves against LAPACK's, at sizes below, at and across the panels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import solve_triangular

from manyarms.kernels import Matern
from manyarms.linalg import forward


@pytest.mark.parametrize("size", [0, 1, 2, 31, 32, 33, 300])
@pytest.mark.parametrize("order", ["C", "F"])
def test_forward_solves_as_accurately_as_lapack(size: int, order: str) -> None:
    rng = np.random.default_rng(size)
    points = rng.random((size, 2))
    factor = np.linalg.cholesky(Matern(0.5).matrix(points, points) + 1e-9 * np.eye(size))
    right = np.array(rng.normal(size=(size, 40)), order=order)
    kept = right.copy()
    solution = forward(factor, right)
    assert (right == kept).all(), "the caller's array is not written to"
    residual = np.abs(factor @ solution - right).max(initial=0.0)
    if size:
        lapack = np.abs(factor @ solve_triangular(factor, right, lower=True) - right).max()
        assert residual <= 10 * lapack + 1e-15

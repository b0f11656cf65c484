"""The dense factorisations used by the whole package.

SciPy's LAPACK wrappers are imported at the first call: they take longer to import than everything else.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from manyarms.support.validation import Floats, Ints

_LANCZOS_FROM = 200  # rows; below, a direct method is as fast


def _lapack() -> Any:
    from scipy.linalg import lapack

    return lapack


def forward(factor: Floats, right: Floats) -> Floats:
    """Solve L Y = R for a lower triangular L."""
    if len(factor) == 1:  # the usual case; a LAPACK call would cost more than the division
        return np.asarray(right / factor[0, 0])
    if not len(factor):
        return np.empty_like(right)
    solution, failed = _lapack().dtrtrs(factor, right, lower=1)
    assert not failed, "a Cholesky factor has no zero on its diagonal"
    return np.asarray(solution)


def forward_over(factor: Floats, right: Floats) -> Floats:
    """Solve L Y = R for a lower triangular L, writing Y over R, which must be in row order.

    `forward` copies R to column order and back, which takes as long as a third of the solution.
    """
    from scipy.linalg.blas import dtrsm  # imported late, as in `_lapack`

    if len(factor) < 2 or not right.shape[1]:
        return forward(factor, right)
    return np.asarray(dtrsm(1.0, factor.T, right.T, side=1, lower=0, overwrite_b=1).T)


def times_transposed(rows: Floats, factor: Floats) -> Floats:
    """R Lᵀ for a lower triangular L, with half the operations of a product of full matrices."""
    from scipy.linalg.blas import dtrmm  # imported late, as in `_lapack`

    columns = np.array(rows.T, order="F")  # a copy, which becomes the result
    return np.asarray(dtrmm(1.0, factor.T, columns, side=0, lower=0, trans_a=1, overwrite_b=1).T)


def inverse_lower(matrix: Floats) -> Floats:
    """E⁻¹ for the lower Cholesky factor E of a positive definite matrix."""
    if len(matrix) == 1:
        return np.asarray(1.0 / np.sqrt(matrix))
    if not len(matrix):
        return np.empty((0, 0))
    factor, failed = _lapack().dpotrf(matrix, lower=1)
    assert not failed, "the matrix is positive definite by construction"
    inverse, failed = _lapack().dtrtri(factor, lower=1)
    assert not failed
    return np.tril(inverse)


def inverse_positive_definite(matrix: Floats) -> Floats:
    """The inverse, through the Cholesky factor."""
    if not len(matrix):
        return np.empty((0, 0))
    factor, failed = _lapack().dpotrf(matrix, lower=1)
    assert not failed, "the matrix is positive definite by construction"
    inverse, failed = _lapack().dpotri(factor, lower=1)
    assert not failed
    lower = np.tril(inverse)
    return np.asarray(lower + np.tril(lower, -1).T)


def pivoted_cholesky(matrix: Floats, tolerance: float) -> tuple[Floats, Ints]:
    """Lower factor and row order, truncated when every remaining pivot is at most `tolerance`."""
    packed, pivots, rank, _ = _lapack().dpstrf(matrix, tol=tolerance, lower=1)
    return np.tril(packed[:rank, :rank]), np.asarray(pivots[:rank] - 1, dtype=np.int64)


def semidefinite_root(matrix: Floats) -> Floats:
    """C with C Cᵀ equal to a positive semi-definite matrix up to rounding, and with zeros beyond its rank.

    Pivoted Cholesky, which takes a tenth of the time of an eigendecomposition. It stops when what remains of
    the diagonal is below n times the rounding error of its largest entry.
    """
    packed, pivots, rank, _ = _lapack().dpstrf(matrix, lower=1)
    root: Floats = np.zeros_like(packed)
    root[pivots - 1, :rank] = np.tril(packed)[:, :rank]
    return root


def backward(factor: Floats, right: Floats) -> Floats:
    """Solve Lᵀ Y = R for a lower triangular L."""
    if not len(factor):
        return np.empty_like(right)
    solution, failed = _lapack().dtrtrs(factor, right, lower=1, trans=1)
    assert not failed, "a Cholesky factor has no zero on its diagonal"
    return np.asarray(solution)


def largest_eigenvalue(matrix: Floats) -> float:
    """The largest eigenvalue of a symmetric positive semi-definite matrix."""
    if len(matrix) == 1:
        return float(matrix[0, 0])
    if len(matrix) > _LANCZOS_FROM:
        from scipy.sparse.linalg import eigsh

        start = np.ones(len(matrix))  # a fixed start makes the result repeatable
        return float(eigsh(matrix, k=1, v0=start, tol=1e-10, return_eigenvectors=False)[0])
    size = len(matrix)
    values, *_, failed = _lapack().dsyevr(matrix, compute_v=0, range="I", il=size, iu=size)
    assert not failed
    return float(values[0])

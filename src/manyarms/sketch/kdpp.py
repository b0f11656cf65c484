"""Sampling k points with probability proportional to det K_S: a k-determinantal point process (S-GP-TS §3.3).

There are two samplers. `sample_exact` follows Kulesza and Taskar (2012, Alg. 8 and 1): it chooses
eigenvectors by elementary symmetric polynomials, then points one by one, and needs a full eigendecomposition.
`sample_chain` is the swap Markov chain of Anari, Oveis Gharan and Rezaei (2016) from a greedy start, the
"ε₀-close" sampling that the S-GP-TS paper allows; a step costs O(k²).
"""

from __future__ import annotations

import numpy as np

from manyarms.errors import InvalidParameterError
from manyarms.support.linalg import pivoted_cholesky
from manyarms.support.validation import Floats, Ints


def sample_exact(K: Floats, k: int, rng: np.random.Generator) -> Ints:
    """k row indices of the kernel matrix K, drawn with probability det K_S / Σ_{|S'|=k} det K_{S'}."""
    values, vectors = np.linalg.eigh(K)
    values = np.where(values > values[-1] * len(K) * np.finfo(float).eps, values, 0.0)
    _check_rank(int((values > 0).sum()), k)
    basis = vectors[:, _choose_eigenvectors(values, k, rng)]
    chosen: list[int] = []
    for _ in range(k):
        weights = np.einsum("ij,ij->i", basis, basis)
        weights[chosen] = 0.0
        point = int(rng.choice(len(K), p=weights / weights.sum()))
        chosen.append(point)
        if basis.shape[1] > 1:  # restrict to the subspace orthogonal to the chosen coordinate
            pivot = int(np.argmax(np.abs(basis[point])))
            column = basis[:, pivot] / basis[point, pivot]
            rest = np.delete(basis, pivot, axis=1)
            basis = np.linalg.qr(rest - np.outer(column, rest[point]))[0]
    return np.sort(np.array(chosen, dtype=np.int64))


def _choose_eigenvectors(values: Floats, k: int, rng: np.random.Generator) -> list[int]:
    """Choose k eigenvectors: from the last on, take number n with probability λ_n e_{k−1}^{n−1} / e_k^n."""
    n = len(values)
    with np.errstate(divide="ignore"):
        logs = np.log(values)
    log_e = np.full((k + 1, n + 1), -np.inf)  # log of the elementary symmetric polynomials
    log_e[0] = 0.0
    for size in range(1, k + 1):
        for j in range(1, n + 1):
            log_e[size, j] = np.logaddexp(log_e[size, j - 1], logs[j - 1] + log_e[size - 1, j - 1])
    chosen: list[int] = []
    left = k
    for j in range(n, 0, -1):
        if left and np.log(rng.random()) < logs[j - 1] + log_e[left - 1, j - 1] - log_e[left, j]:
            chosen.append(j - 1)
            left -= 1
    return chosen


def independent_points(K: Floats) -> int:
    """The largest possible number of points of a sample, which is the numerical rank of K."""
    return len(pivoted_cholesky(K, 1e-10 * float(np.diag(K).max()))[1])


def greedy(K: Floats, k: int) -> Ints:
    """k points by pivoted Cholesky: each maximises the determinant given those before it."""
    _, order = pivoted_cholesky(K, 1e-14 * float(np.diag(K).max()))
    _check_rank(len(order), k)
    return order[:k]


def default_steps(n: int, k: int) -> int:
    """The number of steps of the chain on k of n points, 10·k·log(n/k + 2)."""
    return int(10 * k * np.log(n / k + 2))


def sample_chain(K: Floats, k: int, rng: np.random.Generator, steps: int | None = None) -> Ints:
    """k indices after `steps` swaps (`default_steps`) of the chain that starts at `greedy`.

    A step proposes to replace one point by one outside and accepts with half the usual Metropolis
    probability, which makes the chain aperiodic.
    """
    n = len(K)
    chosen = greedy(K, k)
    if k == n:
        return np.sort(chosen)
    outside = np.setdiff1d(np.arange(n), chosen)
    inverse = np.linalg.inv(K[np.ix_(chosen, chosen)])
    for _ in range(default_steps(n, k) if steps is None else steps):
        i, j = int(rng.integers(k)), int(rng.integers(n - k))
        threshold = 2.0 * rng.random()  # above 1 half the time, in which case the chain stays in its state
        # det K_{S−i+j} / det K_S = (K⁻¹)_ii · (k_jj − k_jR K_R⁻¹ k_Rj), with R = S − i
        covariance = K[chosen, outside[j]]
        projected = inverse @ covariance
        schur = K[outside[j], outside[j]] - covariance @ projected
        ratio = inverse[i, i] * schur + projected[i] ** 2
        if threshold < min(ratio, 1.0):
            chosen[i], outside[j] = outside[j], chosen[i]
            inverse = np.linalg.inv(K[np.ix_(chosen, chosen)])
    return np.sort(chosen)


def _check_rank(rank: int, k: int) -> None:
    if rank < k:
        raise InvalidParameterError("size", k, f"at most {rank}, the rank of the pulled arms' covariance")

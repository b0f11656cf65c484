"""The first arms to try, before there is anything to learn from: spread over the pool, and seeded.

Drawn from a k-DPP of the kernel with its typical length-scales, on a random sample of the pool: likely to
be far apart where the pool has arms, without insisting on its outliers as a farthest-point design does.
For numbers the kernel is Matérn-5/2; the smoother RBF pushes nearly all points to the edges, which misses
narrow peaks. The sample bounds the cost whatever the size of the pool.
"""

from __future__ import annotations

import numpy as np

from manyarms.errors import InvalidParameterError
from manyarms.learning.kernel_families import Family
from manyarms.learning.preparation import Prepared
from manyarms.sketch.kdpp import sample_exact
from manyarms.support.validation import Ints, count

SMALLEST, LARGEST = 20, 30
BUDGET_SHARE = 0.2
_CANDIDATES = 500


def design_size(prepared: Prepared, budget: int | None = None) -> int:
    """2(d + 1) arms for d features, at least 20 and at most 30, a fifth of the budget, and the pool.

    Bits, words and strings have no d to speak of and get the least.
    """
    size = min(max(2 * (prepared.dimension + 1), SMALLEST), LARGEST, prepared.pool.n_arms)
    return size if budget is None else max(1, min(size, int(BUDGET_SHARE * budget)))


def initial_design(prepared: Prepared, size: int, rng: np.random.Generator) -> Ints:
    """`size` different arms in random order."""
    pool, size = prepared.pool, count("size", size)
    if size > pool.n_arms:
        raise InvalidParameterError("size", size, f"at most {pool.n_arms}, the arms there are")
    n_candidates = min(pool.n_arms, max(_CANDIDATES, 2 * size))
    candidates = rng.choice(pool.n_arms, n_candidates, replace=False)
    chosen = _spread_out(prepared.families[0], pool.take(candidates), size, rng)
    if len(chosen) < size:  # fewer different features than arms wanted: any others will do
        others = rng.permutation(np.setdiff1d(np.arange(n_candidates), chosen))
        chosen = np.concatenate([chosen, others[: size - len(chosen)]])
    return np.asarray(candidates[rng.permutation(chosen)], dtype=np.int64)


def _spread_out(family: Family, features: object, size: int, rng: np.random.Generator) -> Ints:
    """A k-DPP sample, of fewer points where the covariance has not enough rank."""
    K = family.on(features)(family.typical).matrix
    values = np.linalg.eigvalsh(K)
    rank = int((values > values[-1] * len(K) * np.finfo(float).eps).sum())
    return sample_exact(K, min(size, rank), rng)

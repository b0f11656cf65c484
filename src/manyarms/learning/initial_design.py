"""The initial design: spread-out arms that are handed out before there are results to learn from.

The design is drawn from a k-DPP of the kernel with its typical length-scales, on a random sample of the pool.
Its arms are likely to be far apart where the pool has arms, and outliers are not forced in, as they are by a
farthest-point design. For numbers the kernel is Matérn-5/2; the smoother RBF pushes nearly all points to the
edges, which misses narrow peaks. The sample bounds the cost whatever the size of the pool.
"""

from __future__ import annotations

import numpy as np

from manyarms.errors import InvalidParameterError
from manyarms.learning.kernel_families import Family
from manyarms.learning.prepared_pool import Prepared
from manyarms.sketch.kdpp import sample_exact
from manyarms.support.validation import Ints, count

MIN_SIZE, MAX_SIZE = 20, 30
BUDGET_SHARE = 0.2
OLD_SHARE = 1 / 3  # of the design, for the best arms by old results
OLD_BEST = 0.02  # of the pool, from which they are taken
_SAMPLE_SIZE = 500


def design_size(prepared: Prepared, budget: int | None = None) -> int:
    """2(d + 1) arms, at least 20, and at most 30, a fifth of the budget and the whole pool (theory §8.2).

    For bits, words and strings d is not defined, and the size is the minimum.
    """
    size = min(max(2 * (prepared.dimension + 1), MIN_SIZE), MAX_SIZE, prepared.pool.n_arms)
    return size if budget is None else max(1, min(size, int(BUDGET_SHARE * budget)))


def initial_design(prepared: Prepared, size: int, rng: np.random.Generator) -> Ints:
    """`size` different arms in random order."""
    pool, size = prepared.pool, count("size", size)
    if size > pool.n_arms:
        raise InvalidParameterError("size", size, f"at most {pool.n_arms}, the number of arms")
    n_sampled = min(pool.n_arms, max(_SAMPLE_SIZE, 2 * size))
    sampled = rng.choice(pool.n_arms, n_sampled, replace=False)
    chosen = _kdpp_sample(prepared.families[0], pool.take(sampled), size, rng)
    if prepared.n_old:
        return _old_first(prepared, np.asarray(sampled[rng.permutation(chosen)]), size, rng)
    if len(chosen) < size:  # fewer different feature rows than arms wanted: the rest are chosen at random
        others = rng.permutation(np.setdiff1d(np.arange(n_sampled), chosen))
        chosen = np.concatenate([chosen, others[: size - len(chosen)]])
    return np.asarray(sampled[rng.permutation(chosen)], dtype=np.int64)


def _old_first(prepared: Prepared, spread: Ints, size: int, rng: np.random.Generator) -> Ints:
    """The design with a third of its arms from the best ones by each source of old results, these first.

    They are spread out among the best OLD_BEST of the pool. If the old results are of no use, they are as
    good as any others.
    """
    pool, best = prepared.pool, list[int]()
    width = pool.n_features - prepared.n_old
    each = max(1, int(size * OLD_SHARE) // prepared.n_old)
    for column in range(width, pool.n_features):
        values = np.concatenate([np.asarray(block)[:, column] for _, block in pool.blocks(bytes_per_arm=64)])
        values = values + 1e-9 * rng.random(len(values))  # ties in any order
        top = np.argsort(-values, kind="stable")[
            : max(3 * each, min(int(OLD_BEST * len(values)), _SAMPLE_SIZE))
        ]
        chosen = _kdpp_sample(prepared.families[0], pool.take(top), min(each, len(top)), rng)
        best += top[chosen].tolist()
    rest = np.concatenate([spread, rng.permutation(pool.n_arms)[: 2 * size]]).tolist()
    return np.array(list(dict.fromkeys([*best, *rest]))[:size], dtype=np.int64)


def _kdpp_sample(family: Family, features: object, size: int, rng: np.random.Generator) -> Ints:
    """A k-DPP sample of `size` points, or fewer when the rank of the covariance is lower."""
    K = family.covariance_on(features)(family.typical).matrix
    values = np.linalg.eigvalsh(K)
    rank = int((values > values[-1] * len(K) * np.finfo(float).eps).sum())
    return sample_exact(K, min(size, rank), rng)

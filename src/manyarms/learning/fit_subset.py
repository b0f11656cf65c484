"""Which of the pulled arms to learn from when there are too many for an exact fit.

Three shares. The *best* arms, because a model that is wrong there is useless. Arms that *cover* what was
pulled, by greedy pivoted Cholesky (each the one least explained by those before), because length-scales
show in distant arms. The rest *at random*, because short distances and noise show in near ones, which a
cover alone would avoid, and because the likelihood of a random sample estimates that of all.
"""

from __future__ import annotations

import numpy as np

from manyarms.kernels import KernelLike
from manyarms.pool.pool import Pool
from manyarms.support.validation import Floats, Ints

MOST_ARMS = 1000
BEST_SHARE, COVER_SHARE = 0.1, 0.4
_EXAMINED = 4000  # arms that the greedy cover chooses from; its cost is this times (arms chosen)²


def choose_subset(
    pool: Pool,
    kernel: KernelLike,
    arms: Ints,
    means: Floats,
    rng: np.random.Generator,
    size: int = MOST_ARMS,
) -> Ints:
    """Places in `arms` (sorted) of at most `size` arms to fit on."""
    if len(arms) <= size:
        return np.arange(len(arms))
    best = np.argsort(-means, kind="stable")[: max(1, int(BEST_SHARE * size))]
    rest = rng.permutation(np.setdiff1d(np.arange(len(arms)), best))
    examined = rest[:_EXAMINED]
    spread_out = examined[greedy_cover(pool, kernel, arms[examined], int(COVER_SHARE * size))]
    others = rest[~np.isin(rest, spread_out)][: size - len(best) - len(spread_out)]
    return np.sort(np.concatenate([best, spread_out, others]))


def greedy_cover(pool: Pool, kernel: KernelLike, arms: Ints, size: int) -> Ints:
    """Places of up to `size` arms, each with the largest variance left given those before it.

    A partial pivoted Cholesky factorisation that computes only the columns it chooses: O(n·size²).
    Fewer come back when the rest are linear combinations of those chosen.
    """
    features = pool.take(arms)
    left = np.asarray(kernel.diag(features), dtype=np.float64).copy()
    tolerance = 1e-10 * float(left.max(initial=0.0))
    factor = np.empty((size, len(arms)))
    chosen: list[int] = []
    for step in range(min(size, len(arms))):
        pivot = int(np.argmax(left))
        if left[pivot] <= tolerance:
            break
        column = kernel.matrix(features, features[pivot : pivot + 1])[:, 0]
        column = (column - factor[:step, pivot] @ factor[:step]) / np.sqrt(left[pivot])
        factor[step] = column
        left -= column * column
        left[pivot] = 0.0
        chosen.append(pivot)
    return np.array(chosen, dtype=np.int64)

"""Choose the pulled arms to learn from when there are too many for an exact fit.

The subset has three parts. The first part is the *best* arms, because a model that is wrong about them is
useless. The second part is a *cover* of the pulled arms by greedy pivoted Cholesky, which repeatedly adds the
arm with the largest remaining variance; distant arms determine the long length-scales. The third part is
drawn *at random*: neighbouring arms, which a cover avoids, determine short length-scales and the noise, and
the likelihood of a random sample estimates that of all arms.
"""

from __future__ import annotations

import numpy as np

from manyarms.kernels import KernelLike
from manyarms.pool.pool import Pool
from manyarms.support.validation import Floats, Ints

MAX_ARMS = 1000
BEST_SHARE, COVER_SHARE = 0.1, 0.4
_COVER_CANDIDATES = 4000  # the greedy cover chooses from at most this many; its cost is this × (arms chosen)²


def choose_subset(
    pool: Pool,
    kernel: KernelLike,
    arms: Ints,
    means: Floats,
    rng: np.random.Generator,
    size: int = MAX_ARMS,
) -> Ints:
    """Positions in `arms` (sorted) of at most `size` arms to fit on."""
    if len(arms) <= size:
        return np.arange(len(arms))
    best = np.argsort(-means, kind="stable")[: max(1, int(BEST_SHARE * size))]
    rest = rng.permutation(np.setdiff1d(np.arange(len(arms)), best))
    candidates = rest[:_COVER_CANDIDATES]
    cover = candidates[greedy_cover(pool, kernel, arms[candidates], int(COVER_SHARE * size))]
    others = rest[~np.isin(rest, cover)][: size - len(best) - len(cover)]
    return np.sort(np.concatenate([best, cover, others]))


def greedy_cover(pool: Pool, kernel: KernelLike, arms: Ints, size: int) -> Ints:
    """Positions of up to `size` arms, each with the largest variance remaining given those before it.

    A partial pivoted Cholesky factorisation that computes only the columns it chooses: O(n·size²).
    It returns fewer arms when the others are linear combinations of those chosen.
    """
    features = pool.take(arms)
    residual = np.asarray(kernel.diag(features), dtype=np.float64).copy()
    tolerance = 1e-10 * float(residual.max(initial=0.0))
    factor = np.empty((size, len(arms)))
    chosen: list[int] = []
    for step in range(min(size, len(arms))):
        pivot = int(np.argmax(residual))
        if residual[pivot] <= tolerance:
            break
        column = kernel.matrix(features, features[pivot : pivot + 1])[:, 0]
        column = (column - factor[:step, pivot] @ factor[:step]) / np.sqrt(residual[pivot])
        factor[step] = column
        residual -= column * column
        residual[pivot] = 0.0
        chosen.append(pivot)
    return np.array(chosen, dtype=np.int64)

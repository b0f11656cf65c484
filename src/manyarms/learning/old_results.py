"""Old results as one more column of the pool: what a model of them predicts for every arm (theory §8.11).

A source of old results has a Gaussian process of its own, with its own offset, scale, kernel and noise. Its
posterior mean u(x), on its own scale, becomes a column of the pool, and the new rewards are modelled as

    f(x) = m + b u(x) + g(x),   g ~ GP(0, s²k),   b ~ N(0, s²w),

which is a Gaussian process with the kernel s²(k(x, y) + w u(x) u(y)). The offset between old and new is in m,
the scale and the sign of their relation in b, and what is new in g. The weight w is learned, and the evidence
decides whether a source takes part at all: if the best kernel without it scores higher, its column is not
read (`old_family.py`). Where the old results say nothing, u is zero and g has its full variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.errors import InvalidParameterError
from manyarms.kernels import KernelLike
from manyarms.learning.categorical import as_table
from manyarms.learning.fit_subset import choose_subset
from manyarms.learning.model import learn
from manyarms.learning.old_family import WithOldResults
from manyarms.learning.prepare_pool import prepare
from manyarms.learning.prepared_pool import Encode, Prepared
from manyarms.pool.pool import Pool
from manyarms.posterior.history import History
from manyarms.support.validation import Floats

MOST_POINTS = 1000  # of a source that its posterior mean is computed from
POOL_SAMPLE = 2000  # arms that decide, with the old results, how the features of both are prepared
_ROWS = 4096  # of the pool at a time


@dataclass(frozen=True, eq=False)
class OldMean:
    """u: the posterior mean of a model of old results at rows of features, in the form the user gave them."""

    encode: Encode
    kernel: KernelLike
    points: NDArray[Any]
    weights: Floats

    def __call__(self, features: Any) -> Floats:
        """The posterior mean at these rows."""
        X = self.encode(features)
        parts = [
            self.kernel.matrix(X[i : i + _ROWS], self.points) @ self.weights for i in range(0, len(X), _ROWS)
        ]
        return np.concatenate(parts) if parts else np.empty(0)


@dataclass(frozen=True, eq=False)
class WithOldMeans:
    """Rows of a pool with the column of each source behind those that `encode` gives."""

    encode: Encode
    means: tuple[OldMean, ...]

    def __call__(self, features: Any) -> NDArray[Any]:
        """The rows as numbers."""
        columns = [mean(features) for mean in self.means]
        return np.column_stack([np.asarray(self.encode(features), dtype=np.float64), *columns])


def old_mean(pool: Pool, features: NDArray[Any], history: History, rng: np.random.Generator) -> OldMean:
    """The model of one source: of the arms of `history`, with these rows of features.

    The features are prepared together with some of the pool's, since a column that is constant in one may
    vary in the other. Of many old results, those are used that a fit would use.
    """
    some = np.linspace(0, pool.n_arms - 1, min(pool.n_arms, POOL_SAMPLE)).astype(np.int64)
    rows = as_table(pool.take(some)) if features.dtype == object else pool.take(some).astype(features.dtype)
    both = Pool(np.concatenate([features, rows]), names=pool.names)
    prepared = prepare(both)
    model = learn(prepared, history.on(both.n_arms), rng)
    seen = model.targets(history, prepared.pool)
    chosen = choose_subset(prepared.pool, model.kernel, seen.arms, seen.means, rng, MOST_POINTS)
    points = prepared.pool.take(seen.arms[chosen])
    noisy = model.kernel.matrix(points, points)
    noisy[np.diag_indices(len(points))] += model.ridge / seen.counts[chosen]
    weights = np.asarray(np.linalg.solve(noisy, seen.means[chosen]), dtype=np.float64)
    return OldMean(prepared.encode, model.kernel, points, weights)


def with_old_means(prepared: Prepared, pool: Pool, means: Sequence[OldMean]) -> Prepared:
    """The preparation of `pool` with a column for each source of old results."""
    encoded = prepared.pool.features
    if encoded.ndim != 2 or encoded.dtype.kind not in "iuf" or encoded.dtype == np.uint8:
        raise InvalidParameterError(
            "prior", f"old results for features of type {encoded.dtype}",
            "used with candidates that are rows of numbers and categories",
        )  # fmt: skip
    encode, width = WithOldMeans(prepared.encode, tuple(means)), prepared.pool.n_features
    families = tuple(WithOldResults(family, width) for family in prepared.families)
    return replace(prepared, pool=pool.encoded(encode), encode=encode, families=families, n_old=len(means))

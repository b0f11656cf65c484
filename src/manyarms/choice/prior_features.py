"""The choice of the feature map p through which prior functions of a kernel are drawn (theory §7.3).

| map | suitable for | dimension |
|---|---|---|
| linear | the linear kernel | that of the features (exact) |
| eigenfunctions | RBF and Matérn on the box of the pool | M eigenfunctions of largest weight |
| fourier | RBF and Matérn in any number of features | M/2 random frequencies, error about √(2/M) |
| landmarks | any kernel | M/4 random arms (Nyström) |
| joint | any kernel | all arms (Nyström): the exact joint draw, O(A³) once |
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import DTypeLike

from manyarms.choice.prior_draws import PriorSampler
from manyarms.embeddings import Embedding, Nystrom
from manyarms.embeddings.accuracy import kernel_error
from manyarms.embeddings.eigenfunctions import Eigenfunctions, HilbertSpaceFeatures
from manyarms.embeddings.fourier import RandomFourierFeatures
from manyarms.embeddings.linear import LinearFeatures
from manyarms.embeddings.nystrom import SPAN_TOLERANCE, covariances, independent_subset
from manyarms.errors import InvalidParameterError, PoolTooLargeError, UnsuitableKernelError
from manyarms.kernels import KernelLike
from manyarms.kernels.spectral import spectrum_of
from manyarms.pool.pool import Pool
from manyarms.support.validation import Floats, Ints, count

MOST_JOINT_ARMS = 20_000  # their covariance matrix takes 3.2 GB
_GOOD_ERROR = 0.01  # as a fraction of the prior variance
_LANDMARK_COST = 4  # a landmark costs O(M) per arm, other maps O(d) per dimension, but is more accurate
_NO_WEIGHT = 1e-16  # as a fraction of the largest weight
_MOST_BOX_FEATURES = 8  # with more features, any affordable number of eigenfunctions is too small
_PROBES = 300


def prior_over(
    pool: Pool, kernel: KernelLike, size: int, rng: np.random.Generator, kind: str, storage: DTypeLike
) -> PriorSampler:
    """A sampler of prior draws over a pool, through a feature map of dimension M = `size`.

    `kind` names a map of the table above. "auto" takes the first map, in the order of the table, whose kernel
    error is within 1 % of the prior variance on a sample of arms; if there is none, the one with the smallest
    error. `rng` draws random frequencies and landmarks; `storage` is the type of the stored columns.
    """
    if kind not in KINDS:
        raise InvalidParameterError("prior", kind, f"one of {', '.join(KINDS)}")
    count("size", size)
    if kind == "auto":
        kind, feature_map = _most_accurate(pool, kernel, size, rng)
    else:
        feature_map = _MAPS[kind](pool, kernel, size, rng)
    return PriorSampler(pool, kernel, feature_map, storage, stored=kind == "joint")


def eigenfunctions_over(pool: Pool, kernel: KernelLike, size: int) -> Eigenfunctions:
    """The `size` leading eigenfunctions on the box of the pool, with the margin fitted to the pool's arms.

    Eigenfunctions whose weights are negligible relative to the first are left out: they do not change k in
    double precision, and arithmetic on such small numbers is slow.
    """
    spectrum_of(kernel, pool.n_features, "eigenfunctions")  # reject unsuitable kernels first
    lower, upper = _box(pool)
    feature_map = HilbertSpaceFeatures(kernel, size, lower, upper, points=_spread_sample(pool))
    return feature_map.leading(
        int(np.count_nonzero(feature_map.weights > _NO_WEIGHT * feature_map.weights[0]))
    )


def _most_accurate(
    pool: Pool, kernel: KernelLike, size: int, rng: np.random.Generator
) -> tuple[str, Embedding]:
    sample, tried = _spread_sample(pool), []
    good = _GOOD_ERROR * float(np.max(kernel.diag(sample)))
    for kind in ("linear", "eigenfunctions", "fourier", "landmarks"):
        if kind == "eigenfunctions" and pool.n_features > _MOST_BOX_FEATURES:
            continue
        try:
            feature_map = _MAPS[kind](pool, kernel, size, rng)
        except UnsuitableKernelError:
            continue
        error = kernel_error(feature_map, kernel, sample)
        if error <= good:
            return kind, feature_map
        tried.append((error, kind, feature_map))
    return min(tried, key=lambda entry: entry[0])[1:]


def _eigenfunctions(pool: Pool, kernel: KernelLike, size: int, rng: np.random.Generator) -> Embedding:
    return eigenfunctions_over(pool, kernel, size)


def _fourier(pool: Pool, kernel: KernelLike, size: int, rng: np.random.Generator) -> Embedding:
    return RandomFourierFeatures(kernel, max(1, size // 2), rng, pool.n_features)


def _linear(pool: Pool, kernel: KernelLike, size: int, rng: np.random.Generator) -> Embedding:
    return LinearFeatures(kernel, pool.n_features)


def _landmarks(pool: Pool, kernel: KernelLike, size: int, rng: np.random.Generator) -> Embedding:
    size = max(1, size // _LANDMARK_COST)
    if pool.n_arms <= size:
        return _nystrom(pool, kernel, np.arange(pool.n_arms))
    return _nystrom(pool, kernel, np.sort(rng.choice(pool.n_arms, size=size, replace=False)))


def _joint(pool: Pool, kernel: KernelLike, size: int, rng: np.random.Generator) -> Embedding:
    if pool.n_arms > MOST_JOINT_ARMS:
        raise PoolTooLargeError(
            f"an exact joint draw over {pool.n_arms} arms needs their full covariance matrix; the limit is "
            f"{MOST_JOINT_ARMS} arms: use SGPTS, which draws from a sparse posterior"
        )
    return _nystrom(pool, kernel, np.arange(pool.n_arms))


_MAPS: dict[str, Callable[[Pool, KernelLike, int, np.random.Generator], Embedding]] = {
    "linear": _linear,
    "eigenfunctions": _eigenfunctions,
    "fourier": _fourier,
    "landmarks": _landmarks,
    "joint": _joint,
}
KINDS = ("auto", *_MAPS)


def _nystrom(pool: Pool, kernel: KernelLike, arms: Ints) -> Nystrom:
    points = pool.take(arms)
    gram, prior = covariances(kernel, points, points), np.asarray(kernel.diag(points), dtype=np.float64)
    chosen, factor = independent_subset(gram, prior, SPAN_TOLERANCE[np.dtype(np.float64)])
    return Nystrom(kernel, points[chosen], factor)


def _box(pool: Pool) -> tuple[Floats, Floats]:
    """The smallest and largest value of each feature."""
    lower, upper = np.full(pool.n_features, np.inf), np.full(pool.n_features, -np.inf)
    for _, block in pool.blocks(bytes_per_arm=8):
        rows = block.reshape(len(block), -1)
        lower, upper = np.minimum(lower, rows.min(axis=0)), np.maximum(upper, rows.max(axis=0))
    return lower, upper


def _spread_sample(pool: Pool) -> Floats:
    """The features of up to 300 arms, evenly spaced in the pool."""
    return pool.take(np.unique(np.linspace(0, pool.n_arms - 1, _PROBES).astype(np.int64)))

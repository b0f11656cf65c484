"""A run on a box that learns its kernel: preparation, initial design and the next point (theory §13.4)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from manyarms.choice.acquisition import Acquisition
from manyarms.continuous.ascent import Hill, highest
from manyarms.continuous.box import Box
from manyarms.continuous.surface import Surface
from manyarms.kernels import RBF, KernelLike, Matern
from manyarms.kernels.combine import unscaled
from manyarms.learning import Prepared
from manyarms.learning.kernel_families import StationaryFamily
from manyarms.pool.pool import Pool
from manyarms.support.validation import Floats

SPREAD = 1.0 / math.sqrt(12.0)  # the standard deviation of a uniform coordinate
GROWTH = 1.1  # of the results between two fits
DESIGN_SHARE = 0.2  # of the budget
LEAST_NOISE = (
    1e-9  # variance: a larger one is spent on results that only confirm a point known to many digits
)
MAX_INDUCING = 1_000  # unless the policy says otherwise (docs/measurements.md)
N_UNIFORM, N_LOCAL, N_LEAVES = 256, 64, 64  # candidates: in the whole box, around each good point, leaves
N_GOOD = 4  # results around which there are candidates
_REACHES = (0.3, 0.1, 0.03, 0.01)  # of these candidates, in length-scales
_LATIN_TRIES = 100


def prepared(box: Box, pool: Pool) -> Prepared:
    """A pool of points of the box as the model sees it: their coordinates, Matérn-5/2, one scale per axis.

    Rewards are standardised only: a warping flattens the top, where a continuous domain is searched to many
    digits. The model is learned again at every tenth more results (docs/measurements.md).
    """
    d = len(box)
    family = StationaryFamily((SPREAD,) * d, (0,) * d, nu=2.5)
    encoded = Pool(box.coordinates(pool.features), max_memory=pool.max_memory)
    return Prepared(
        encoded,
        (family,),
        tuple(range(d)),
        box.coordinates,
        (),
        rewards="standardise",
        growth=GROWTH,
        least_noise=LEAST_NOISE,
    )


def design_size(box: Box, budget: int | None) -> int:
    """2(d + 1) points, at most a fifth of the budget."""
    size = 2 * (len(box) + 1)
    return size if budget is None else max(1, min(size, int(DESIGN_SHARE * budget)))


def design(box: Box, size: int, rng: np.random.Generator) -> Floats:
    """The coordinates of a Latin hypercube, the one of a hundred whose closest points are farthest apart."""
    best, widest = np.empty((0, len(box))), -1.0
    for _ in range(_LATIN_TRIES):
        levels = np.argsort(rng.random((len(box), size)), axis=1).T
        tried = (levels + rng.random((size, len(box)))) / size
        distances = np.abs(tried[:, None] - tried[None]).max(axis=2) + np.eye(size)
        apart = float(((tried[:, None] - tried[None]) ** 2).sum(axis=2)[distances < 1.0].min(initial=0.0))
        if size == 1 or apart > widest:
            best, widest = tried, apart
    return box.coordinates(box.points(best))


def scales_of(kernel: KernelLike, n_axes: int) -> Floats:
    """The length-scales of a learned kernel along the axes of the box, at most 1."""
    base, _ = unscaled(kernel)
    assert isinstance(base, RBF | Matern)
    return np.minimum(np.broadcast_to(np.asarray(base.lengthscale, dtype=np.float64), (n_axes,)), 1.0)


def next_point(
    box: Box,
    surface: Surface,
    acquisition: Acquisition,
    scales: Floats,
    leaves: Floats,
    good: Floats,
    is_allowed: Callable[[Floats], NDArray[np.bool_]],
    rng: np.random.Generator,
) -> Floats | None:
    """The coordinates of the most promising point, or None if no candidate is allowed.

    `leaves` are the centroids of the leaves to be considered and `good` the best results, all as coordinates.
    """
    d = len(box)
    parts = [leaves, rng.random((N_UNIFORM, d))]
    for place in good:
        reach = rng.choice(_REACHES, N_LOCAL)[:, None] * scales
        moved = rng.random((N_LOCAL, d)) < max(0.5, 1.0 / d)  # some axes stay where they are
        parts.append(np.clip(place + moved * reach * rng.standard_normal((N_LOCAL, d)), 0.0, 1.0))
    return highest(Hill(box, surface, acquisition), np.concatenate(parts), scales, is_allowed)

"""The precision in which the columns of z are stored, if the user leaves it to the library.

Single precision halves the memory of a large pool and the time of a pass over it. On small pools neither
matters. With one or two features the inducing arms of a smooth kernel are nearly dependent, which single
precision cannot resolve (`Posterior` states the errors), and an exact posterior would leave out the arms that
it cannot tell apart.
Nor does single precision resolve a noise variance that is a tiny share of the prior variance: arms that
still differ by more than the noise would be left out of the sketch, and covariances of pending pulls would
overflow.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from manyarms.embeddings.nystrom import SPAN_TOLERANCE
from manyarms.pool.pool import Pool

AUTO = "auto"
SINGLE_FROM = 200_000  # arms
SINGLE_FEATURES = 3


def automatic_storage(pool: Pool, sketched: bool) -> str:
    """ "float32" for a large pool whose posterior is a sketch, otherwise "float64"."""
    large = pool.n_arms >= SINGLE_FROM and pool.n_features >= SINGLE_FEATURES
    return "float32" if large and sketched else "float64"


def storage_for_noise(storage: DTypeLike, ridge: float, prior_max: float) -> np.dtype[Any]:
    """The precision in use: double instead of single if single precision does not resolve the noise.

    `ridge` is the noise variance, and `prior_max` the largest prior variance.
    """
    wanted = np.dtype(storage)
    resolved = wanted != np.float32 or ridge >= SPAN_TOLERANCE[wanted] * prior_max
    return wanted if resolved else np.dtype(np.float64)

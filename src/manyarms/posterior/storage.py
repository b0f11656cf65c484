"""The precision in which the columns of z are stored, if the user leaves it to the library.

Single precision halves the memory of a large pool and the time of a pass over it. On small pools neither
matters. With one or two features the inducing arms of a smooth kernel are nearly dependent, which single
precision cannot resolve (`Posterior` states the errors), and an exact posterior would leave out the arms that
it cannot tell apart.
"""

from __future__ import annotations

from manyarms.pool.pool import Pool

AUTO = "auto"
SINGLE_FROM = 200_000  # arms
SINGLE_FEATURES = 3


def automatic_storage(pool: Pool, sketched: bool) -> str:
    """ "float32" for a large pool whose posterior is a sketch, otherwise "float64"."""
    large = pool.n_arms >= SINGLE_FROM and pool.n_features >= SINGLE_FEATURES
    return "float32" if large and sketched else "float64"

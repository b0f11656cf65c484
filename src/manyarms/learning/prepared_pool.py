"""The value `Prepared`: a pool as the model sees it. `prepare_pool.py` makes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.errors import InvalidFeaturesError
from manyarms.kernels import KernelLike
from manyarms.learning.kernel_families import Family, StationaryFamily
from manyarms.learning.mixed_family import Way
from manyarms.pool.pool import Pool

MAX_LENGTH_SCALES = 256  # with more features they share one; a comparison takes an evaluation for each

Encode = Callable[[Any], NDArray[Any]]


@dataclass(frozen=True)
class Prepared:
    """A pool as the model sees it: the same arms and ids, with features of known scale.

    `pool` is the user's own object when no feature had to be transformed. `families` are the kernel families
    to be compared, each with one length-scale; the first is assumed before there are results. `groups` says
    which columns share a length-scale when each feature has its own (−1: a constant column). `encode` maps
    the user's features of further arms to those of `pool`. `assumptions` are sentences for the user.
    `n_levels` is the number of levels of a column whose few unevenly spaced values were replaced by level
    numbers, or of the words of a column that became codes, and 0 for any other column. `rewards` is the kind
    of transform to learn (`fit_transforms`), and `growth` the growth of arms or pulls after which it is
    learned again (`should_refit`). `least_noise` is the smallest noise variance to be learned, for rewards of
    variance one; None: 1e-5. `ways` are the ways in which each of the user's columns may be read
    (`column_ways.py`), the usual one first; empty where there is nothing to choose. The last `n_old` columns
    of `pool` hold what old results predict (`old_results.py`); everything else here is about those before.
    With `constant_noise`, no law is looked for by which the noise differs between arms (`noise_law.py`).
    """

    pool: Pool
    families: tuple[Family, ...]
    groups: tuple[int, ...]
    encode: Encode
    assumptions: tuple[str, ...]
    n_levels: tuple[int, ...] = ()
    rewards: str = "auto"
    growth: float | None = None
    least_noise: float | None = None
    ways: tuple[tuple[Way, ...], ...] = ()
    n_old: int = 0
    constant_noise: bool = False

    @property
    def dimension(self) -> int:
        """The number of features that can each have their own length-scale."""
        return 1 + max(self.groups, default=-1)

    def suits(self, features: Any) -> bool:
        """Whether this preparation is also valid for further arms with these encoded features.

        A column left out as constant must have the same value in them, and a column of level numbers must
        hold known levels only.
        """
        known_levels = [np.isin(features[:, j], np.arange(n)) for j, n in enumerate(self.n_levels) if n]
        still_constant = [
            features[:, j] == self.pool.features[0, j] for j, group in enumerate(self.groups) if group < 0
        ]
        return all(column.all() for column in (*known_levels, *still_constant))

    def extended(self, pool: Pool) -> Prepared:
        """The same for a pool with further arms; alternative families that do not accept them are dropped."""
        added = pool.features[self.pool.n_arms :]
        first, *others = self.families
        accepted = (family for family in others if takes(family.kernel(family.typical), added))
        return replace(self, pool=pool, families=(first, *accepted))

    def per_feature(self, family: Family) -> Family | None:
        """The family with one length-scale per feature, or None when that is not possible or no different."""
        if not isinstance(family, StationaryFamily) or family.own_units:
            return None
        return family.regrouped(self.groups) if 1 < self.dimension <= MAX_LENGTH_SCALES else None


def takes(kernel: KernelLike, features: Any) -> bool:
    """Whether the kernel is defined on these features."""
    try:
        kernel.diag(features)
    except InvalidFeaturesError:
        return False
    return True


def transformed_pool(pool: Pool, encode: Encode) -> Pool:
    """The same arms with the features `encode` gives."""
    return pool.encoded(encode)

"""The family of tables whose columns can be read in several ways (theory §8.9).

A `Way` is one way to read one column of the user: mostly one `Reading`, two for numbers beside a mark for
"missing". A `MixedFamily` has chosen a way for each column. Its covariance is that of `StationaryFamily` on
the numbers of all readings, with one column of zeros and ones for each name. These columns exist only for
the few arms that a model is fitted to; over the pool the kernels `Mixed` and `OneHot` do without them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.kernels import KernelLike, OneHot
from manyarms.kernels.checks import numeric
from manyarms.kernels.hamming import codes_of
from manyarms.kernels.mixed import Mixed
from manyarms.kernels.readings import NAME, Reading
from manyarms.learning.kernel_families import HAMMING_SCALE, CovarianceAtScales, StationaryFamily
from manyarms.learning.spacing import log_or_none
from manyarms.support.validation import Floats

MOST_NAMED = 5  # ways named in the name of a family


@dataclass(frozen=True)
class Way:
    """One way to read a column; `words` say so to the user, and are empty for the usual way.

    `cost` is the number of assumptions by which it differs from the usual way. `column` is the name of a
    category, for the user. `spacing` is the distance between neighbouring numbers of the first reading, in
    its units (`spacing.py`); 0 if there is none.
    """

    readings: tuple[Reading, ...]
    words: str = ""
    cost: int = 0
    column: str = ""
    spacing: float = 0.0

    @property
    def shortest(self) -> list[float]:
        """Lower bounds of the log length-scales of the readings."""
        return [log_or_none(self.spacing), *(-math.inf for _ in self.readings[1:])]

    @property
    def is_name(self) -> bool:
        """Whether the column holds codes that are read as names."""
        return self.readings[0].kind == NAME


@dataclass(frozen=True)
class MixedFamily:
    """Matérn of smoothness ν, or RBF, of columns read in these ways.

    With `separate` every reading has its own length-scale, otherwise all share one. `positions` says that the
    columns are all positions of rows of codes, words or strings, for which there is the kernel `OneHot`.
    """

    ways: tuple[Way, ...]
    separate: bool = False
    nu: float | None = 2.5
    positions: bool = False

    @cached_property
    def readings(self) -> tuple[Reading, ...]:
        """The readings of all columns."""
        return tuple(reading for way in self.ways for reading in way.readings)

    @property
    def name(self) -> str:
        """The kernel, its number of length-scales, and the columns not read in the usual way."""
        kernel = "RBF" if self.nu is None else "Matérn-5/2"
        scales = "a length-scale per feature" if self.separate else "one length-scale"
        words = [way.words for way in self.ways if way.words]
        rest = f" and {len(words) - MOST_NAMED} more" if len(words) > MOST_NAMED else ""
        kind = " of categories" if self.all_names else ""
        return "; ".join(
            [f"{kernel}{kind}, {scales}", *([", ".join(words[:MOST_NAMED]) + rest] if words else [])]
        )

    @property
    def all_names(self) -> bool:
        """Whether every column is read as names."""
        return all(way.is_name for way in self.ways)

    @property
    def typical(self) -> Floats:
        """√d for numbers, see `StationaryFamily`; √2d for names, which is that of `HammingFamily`."""
        d = len(self.ways) * (HAMMING_SCALE if self.all_names else 1.0)
        return np.full(len(self.readings) if self.separate else 1, 0.5 * math.log(d))

    @property
    def shortest(self) -> Floats:
        """Those of the ways; none for a shared length-scale: columns are then names, or texts in order."""
        return np.array([b for way in self.ways for b in way.shortest] if self.separate else [-math.inf])

    def separated(self) -> MixedFamily:
        """The same with a length-scale for each reading."""
        return replace(self, separate=True)

    def covariance_on(self, features: Any) -> CovarianceAtScales:
        """The covariance of the expanded columns; names become zeros and ones."""
        columns, groups = self._expanded(features)
        spreads = (1.0,) * columns.shape[1]
        return StationaryFamily(spreads, tuple(groups), self.nu).covariance_on(columns)

    def _expanded(self, features: Any) -> tuple[Floats, list[int]]:
        """The numbers of readings and the one-hot columns of names, and the length-scale of each column."""
        X: NDArray[Any] = codes_of(features) if self.positions and self.all_names else numeric(features)
        parts = [
            (X[:, reading.columns] == np.unique(X[:, reading.columns])).astype(np.float64)
            if reading.kind == NAME
            else reading.numbers(X)
            for reading in self.readings
        ]
        places = range(len(parts)) if self.separate else [0] * len(parts)
        return np.hstack(parts), [
            g for g, part in zip(places, parts, strict=True) for _ in range(part.shape[1])
        ]

    def kernel(self, log_scales: Floats) -> KernelLike:
        """`OneHot` where all positions are names, otherwise `Mixed`."""
        lengths = np.exp(log_scales).tolist()
        lengthscale = tuple(lengths) if self.separate else lengths[0]
        if self.positions and self.all_names:
            return OneHot(lengthscale, self.nu)
        return Mixed(self.readings, lengthscale, self.nu)


def positions_family(n_positions: int) -> MixedFamily:
    """Matérn-5/2 with all positions as names and one length-scale."""
    return MixedFamily(tuple(Way((Reading(NAME, (j,)),)) for j in range(n_positions)), positions=True)

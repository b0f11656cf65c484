"""The columns of a pool, as a user knows them: a number, or a category with its kinds.

A category of a campaign occupies several features of the pool, one indicator for each kind; in a pool made
from a data frame it is one feature that holds texts. `Column` hides the difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.kernels import Product, Scale, Sum, Tanimoto
from manyarms.learning.numeric_columns import logarithmic_scale
from manyarms.pool.pool import Pool

MOST_VALUES = 25  # values of a column at which an effect is computed
MOST_KINDS = 40


@dataclass(frozen=True)
class Column:
    """A column of the user's table: the features that it occupies, and the kinds of a category."""

    name: str
    places: tuple[int, ...]
    kinds: tuple[tuple[str, tuple[Any, ...]], ...] = ()  # the text of each kind, and its cells in `places`

    @property
    def is_category(self) -> bool:
        """Whether the column holds kinds instead of numbers."""
        return bool(self.kinds)

    def grid(self, features: NDArray[Any]) -> list[tuple[float | str, tuple[Any, ...]]]:
        """The values at which the column is looked at, each with its cells.

        Few different numbers are taken as they are, many are replaced by quantiles, so that the grid is dense
        where the candidates are.
        """
        if self.kinds:
            return [(label, cells) for label, cells in self.kinds[:MOST_KINDS]]
        cells = features[:, self.places[0]].astype(np.float64)
        values = np.unique(cells)
        if len(values) > MOST_VALUES:
            logarithmic = self.is_logarithmic(features)
            scaled = np.log(cells) if logarithmic else cells
            ends = np.linspace(scaled.min(), scaled.max(), MOST_VALUES)
            inner = np.quantile(scaled, np.linspace(0, 1, MOST_VALUES))
            values = np.unique(0.5 * (ends + inner))
            values = np.clip(np.exp(values), cells.min(), cells.max()) if logarithmic else values
        return [(float(value), (float(value),)) for value in values]

    def is_logarithmic(self, features: NDArray[Any]) -> bool:
        """Whether its numbers are positive and span orders of magnitude, so that charts need a logarithm."""
        if self.kinds:
            return False
        cells = features[:, self.places[0]].astype(np.float64)
        lowest, highest = float(cells.min()), float(cells.max())
        return lowest > 0 and logarithmic_scale(cells, lowest, highest) > 0

    def put(self, rows: NDArray[Any], cells: Any) -> NDArray[Any]:
        """The rows with these cells in place of the column's own: one set for all rows, or one for each."""
        changed = rows.copy() if rows.dtype.kind in "OUS" else rows.astype(np.float64)
        changed[:, list(self.places)] = cells
        return changed


def columns_of(pool: Pool, kernel: Any, owners: Sequence[str] | None = None) -> tuple[Column, ...]:
    """The columns of a pool that vary; none where its features are fingerprints, strings or objects.

    `owners` names, for each feature, the user's column that it came from; by default each feature is a
    column.
    """
    if pool.features.ndim != 2 or _is_fingerprint_kernel(kernel):
        return ()
    names = owners or pool.names or [f"column {place}" for place in range(pool.n_features)]
    places: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        places.setdefault(name, []).append(place)
    found = (_column(pool, name, tuple(taken)) for name, taken in places.items())
    return tuple(column for column in found if column is not None)


def _column(pool: Pool, name: str, places: tuple[int, ...]) -> Column | None:
    """One column; None if it is constant."""
    if len(places) > 1:
        labels = [(pool.names or [])[place] if pool.names else str(place) for place in places]
        kinds = tuple(
            (label.removeprefix(f"{name} = "), tuple(float(place == other) for other in places))
            for label, place in zip(labels, places, strict=True)
        )
        return Column(name, places, kinds)
    values = pool.features[:, places[0]]
    if values.dtype.kind in "fiub":
        return Column(name, places) if bool((values != values[0]).any()) else None
    cells = values.tolist()
    if all(isinstance(cell, Real) for cell in cells):
        return Column(name, places) if any(cell != cells[0] for cell in cells) else None
    different = sorted({str(cell) for cell in cells})
    if not 1 < len(different) <= max(MOST_KINDS, len(cells) // 2):
        return None
    return Column(name, places, tuple((text, (text,)) for text in different))


def _is_fingerprint_kernel(kernel: Any) -> bool:
    if isinstance(kernel, Scale):
        return _is_fingerprint_kernel(kernel.kernel)
    if isinstance(kernel, Sum | Product):
        return any(_is_fingerprint_kernel(part) for part in kernel.parts)
    return isinstance(kernel, Tanimoto)

"""Ways to read the columns of a table: numbers, names, logarithms, numbers with a mark for "missing".

A `Reading` turns one or several columns into the numbers between which distances are measured. It is computed
whenever a kernel is evaluated, from the columns as the pool holds them: which reading is right is learned
during a run, and the pool is never copied for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyarms.errors import InvalidFeaturesError, InvalidParameterError
from manyarms.support.frozen import replace_field
from manyarms.support.validation import Floats, count, finite, positive

NUMBER, NAME, INDICATORS, RANK = "number", "name", "indicators", "rank"
LEVEL, LOGARITHM, POWER = "level", "logarithm", "power"
PRESENT, PRESENT_LOGARITHM, MISSING = "present", "present logarithm", "missing"

Values = tuple[float, ...]


def _level(x: Floats, values: Values) -> Floats:
    known = (x >= 0) & (x < len(values) - 1)
    return np.asarray(values)[np.where(known, x, len(values) - 1).astype(np.intp)]


def _present(x: Floats, values: Values) -> Floats:
    return np.where(x < values[0], values[1], x)


_COMPUTED: dict[str, tuple[int | None, Callable[[Floats, Values], Floats]]] = {
    # the number of values each kind needs (None: one for each column, or any number), and its formula
    NUMBER: (0, lambda x, values: x),
    INDICATORS: (0, lambda x, values: x),
    RANK: (None, lambda x, values: x @ np.array(values)[:, None]),
    LEVEL: (None, _level),
    LOGARITHM: (1, lambda x, values: np.arcsinh(x / values[0])),
    POWER: (1, lambda x, values: values[0] * np.sinh(x)),
    PRESENT: (2, _present),
    PRESENT_LOGARITHM: (3, lambda x, values: np.arcsinh(_present(x, values) / values[2])),
    MISSING: (1, lambda x, values: (x < values[0]).astype(np.float64)),
}
KINDS = (*_COMPUTED, NAME)


@dataclass(frozen=True)
class Reading:
    """One way to read one column x, or several that belong together, in units of `scale`.

    | kind | the numbers between which distances are measured |
    |---|---|
    | number | x |
    | indicators | several columns of zeros and ones, as they are |
    | rank | Σ_k values_k x_k: the value that belongs to the column with the one |
    | level | values[x]; of an x that is no place in them, the last |
    | logarithm | asinh(x / values[0]), which is logarithmic far above values[0] |
    | power | values[0] · sinh(x), the inverse of a logarithm |
    | present, present logarithm | x, or values[1] where x is below values[0]; of that asinh(· / values[2]) |
    | missing | 1 where x is below values[0], otherwise 0 |
    | name | one column of zeros and ones for every different x |
    """

    kind: str
    columns: tuple[int, ...]
    values: Values = ()
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InvalidParameterError("kind", self.kind, f"one of {', '.join(KINDS)}")
        replace_field(self, "columns", tuple(count("columns", each, minimum=0) for each in self.columns))
        several = self.kind in (INDICATORS, RANK)
        if not self.columns or (len(self.columns) > 1 and not several):
            rule = "one or more columns" if several else "one column"
            raise InvalidParameterError("columns", self.columns, f"{rule} for the kind {self.kind!r}")
        replace_field(self, "values", tuple(finite("values", each) for each in self.values))
        needed = 0 if self.kind == NAME else _COMPUTED[self.kind][0]
        if needed is None:
            needed = len(self.columns) if self.kind == RANK else max(len(self.values), 2)
        if len(self.values) != needed:
            raise InvalidParameterError("values", self.values, f"{needed} for the kind {self.kind!r}")
        replace_field(self, "scale", positive("scale", self.scale))

    @property
    def width(self) -> int:
        """The number of columns of `numbers`; a name has none."""
        return {INDICATORS: len(self.columns), NAME: 0}.get(self.kind, 1)

    def numbers(self, features: Floats) -> Floats:
        """The numbers in units of the scale, one row per arm."""
        _, formula = _COMPUTED[self.kind]
        first, last = self.columns[0], self.columns[-1]
        consecutive = self.columns == tuple(range(first, last + 1))
        chosen: Any = slice(first, last + 1) if consecutive else list(self.columns)
        return np.asarray(formula(features[:, chosen], self.values) / self.scale)

    def check(self, n_features: int) -> None:
        """Refuse features without these columns."""
        if max(self.columns) >= n_features:
            raise InvalidFeaturesError(
                f"the kernel reads column {max(self.columns)}, the arms have {n_features} features"
            )

    def to_plain(self) -> dict[str, Any]:
        """The reading as plain data, from which `Reading(**plain)` makes it again."""
        return {
            "kind": self.kind,
            "columns": list(self.columns),
            "values": list(self.values),
            "scale": self.scale,
        }

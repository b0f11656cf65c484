"""How the arms of one batch must belong together: all with the same value, or few with any one value.

A plate has one temperature; a supplier delivers at most eight compounds; four instruments share the work.
Such rules are about columns that need not be features, so labels are given for all arms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from manyarms.errors import InvalidParameterError
from manyarms.pool.allowance import GroupLimit
from manyarms.pool.pool import Pool
from manyarms.support.validation import Ints, as_array, count

Labels = ArrayLike | str  # one label for each arm, or the name of a column of the pool


@dataclass(frozen=True, eq=False)
class BatchStructure:
    """Rules for the arms of one batch.

    same: labels of which all arms of the batch must have the same one. The label whose arms have the highest
        upper bounds on average, over as many arms as the batch has, is chosen among those with enough arms.
    at_most: pairs of labels and a number, or a mapping from names of columns to numbers: at most so many arms
        of the batch may share a label.

    Labels are one value for each arm, or the name of a column of the pool.
    """

    same: Labels | None = None
    at_most: Mapping[str, int] | Iterable[tuple[Labels, int]] = ()

    def on(self, pool: Pool) -> CheckedStructure:
        """The rules with groups of this pool's arms, after checking them."""
        pairs = self.at_most.items() if isinstance(self.at_most, Mapping) else self.at_most
        limits = []
        for pair in pairs:
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise InvalidParameterError("at_most", pair, "pairs of labels and a number")
            numbers, labels = grouped_by("at_most", pair[0], pool)
            limits.append(GroupLimit(numbers, len(labels), count("at_most", pair[1])))
        same = None if self.same is None else Groups(*grouped_by("same", self.same, pool))
        return CheckedStructure(same, tuple(limits))


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of arms: the number of each arm's group, and the label of each group."""

    numbers: Ints
    labels: Sequence[Any]


@dataclass(frozen=True, eq=False)
class CheckedStructure:
    """The rules for one batch as groups of arms."""

    same: Groups | None = None
    limits: tuple[GroupLimit, ...] = ()


FREE = CheckedStructure()


def grouped_by(name: str, labels: Labels, pool: Pool) -> tuple[Ints, list[Any]]:
    """The number of each arm's group and the label of each group, for labels or a column of the pool."""
    if isinstance(labels, str):
        if labels not in (pool.names or ()):
            rule = f"labels, or one of the pool's columns {list(pool.names or ())}"
            raise InvalidParameterError(name, labels, rule)
        labels = pool.features[:, list(pool.names or ()).index(labels)]
    array = as_array(name, labels)
    if array.shape != (pool.n_arms,):
        raise InvalidParameterError(name, array.shape, f"one label for each of the {pool.n_arms} arms")
    if array.dtype.kind == "O":
        array = np.array([str(label) for label in array.tolist()])
    different, numbers = np.unique(array, return_inverse=True)
    return np.asarray(numbers, dtype=np.int64).reshape(-1), different.tolist()

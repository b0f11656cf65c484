"""Whether a batch under several limits can still be completed, and which picks leave it so.

Arms that belong to the same group of every limit are interchangeable here: they form a cell. A batch is a
number of picks from each cell, at most as many as the cell has, and in each group of a limit at most as many
as the limit allows. Whether so many picks are possible is an integer program over the cells (with two limits
a flow). It is solved only where counting does not settle the question: a pick takes a place in one group of
each limit, and therefore takes away at most one other pick for each. As long as more picks are possible than
the batch needs, by one for each limit but one, every next pick is safe.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.errors import NothingToAskError
from manyarms.support.validation import Ints

SECONDS = 20.0  # for one integer program
MOST_PROGRAMS = 24  # after one pick; a cell that they do not reach is left out of the batch
_SOLVED, _INFEASIBLE = 0, 2  # of `scipy.optimize.milp`


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of some limits: the cell of each arm, and the group of each cell in each limit."""

    of_arms: Ints
    groups: NDArray[np.int64]  # cells × limits
    n_groups: tuple[int, ...]

    @classmethod
    def of(cls, groups: Sequence[Ints], n_groups: Sequence[int]) -> Cells:
        """The cells of these group numbers of all arms, one array for each limit."""
        code = np.zeros(len(groups[0]), dtype=np.int64)
        for numbers, n in zip(groups, n_groups, strict=True):
            code = np.unique(code * n + numbers, return_inverse=True)[1].reshape(-1)
        first = np.unique(code, return_index=True)[1]
        return cls(code, np.stack([each[first] for each in groups], axis=1), tuple(n_groups))

    def greedy(self, available: Ints, left: Sequence[Ints], enough: int) -> Ints:
        """Picks from each cell in turn, until there are enough or no more is possible."""
        room, picks, total = [each.copy() for each in left], np.zeros_like(available), 0
        for cell in np.flatnonzero(available).tolist():
            rooms = [int(each[place]) for each, place in zip(room, self.groups[cell], strict=True)]
            n = min(int(available[cell]), enough - total, *rooms)
            if n > 0:
                picks[cell], total = n, total + n
                for each, place in zip(room, self.groups[cell], strict=True):
                    each[place] -= n
            if total == enough:
                break
        return picks

    def exact(self, available: Ints, left: Sequence[Ints], needed: int, through: int = -1) -> Ints | None:
        """Exactly `needed` picks, at least one of them from the cell `through`; None: there are none."""
        from scipy.optimize import Bounds, LinearConstraint, milp

        places = np.flatnonzero(available > 0)
        if not len(places):
            return None
        lowest, highest = (places == through).astype(float), np.minimum(available[places], needed)
        found = milp(
            np.zeros(len(places)),
            integrality=np.ones(len(places)),
            bounds=Bounds(lowest, highest),
            constraints=[
                LinearConstraint(self._sums(places), -np.inf, np.concatenate(left)),
                LinearConstraint(np.ones((1, len(places))), needed, needed),
            ],
            options={"time_limit": SECONDS},
        )
        if found.status == _INFEASIBLE:
            return None
        if found.status != _SOLVED:
            raise NothingToAskError(
                f"it could not be decided within {SECONDS:g} seconds whether {needed} arms can satisfy all "
                "limits together: use fewer limits"
            )
        picks = np.zeros_like(available)
        picks[places] = np.rint(found.x)
        return picks

    def _sums(self, cells: Ints) -> Any:
        """The matrix that adds up the picks in each group of each limit."""
        from scipy.sparse import csr_array

        starts = np.cumsum([0, *self.n_groups])
        rows = (self.groups[cells] + starts[:-1]).T.reshape(-1)
        columns = np.tile(np.arange(len(cells)), len(self.n_groups))
        return csr_array((np.ones(len(rows)), (rows, columns)), shape=(int(starts[-1]), len(cells)))


class Completion:
    """The picks that a batch still needs, and the cells from which the next of them may be taken.

    `available` counts the picks that each cell has, `left` those that each group of each limit allows, and
    `needed` the picks that are missing. `safe` says for each cell whether the batch can be completed after a
    pick from it; the array is replaced when it changes. A cell that is not safe never becomes so again,
    because later picks leave fewer ways. `possible` is False if the batch cannot be completed at all.
    """

    def __init__(self, cells: Cells, available: Ints, left: Sequence[Ints], needed: int) -> None:
        self.cells, self.needed, self.possible = cells, needed, True
        self._available, self._left = available.copy(), [each.copy() for each in left]
        self.safe = np.ones(len(available), dtype=bool)
        self._surplus = -1  # a lower bound on the picks that are possible beyond those needed
        self._is_tight = False  # there are fewer of them than make every pick safe; this remains so
        self._plans: list[Ints] = []  # ways to complete the batch
        self.look()

    def copy(self) -> Completion:
        """One that can be changed without changing this one."""
        other = copy.copy(self)
        other._available, other._left = self._available.copy(), [each.copy() for each in self._left]
        other._plans = list(self._plans)
        return other

    def fewer(self, arm: int, picks: int) -> None:
        """An arm has so many picks less; `look` says what follows."""
        cell = self.cells.of_arms[arm]
        self._available[cell] -= picks
        self._surplus -= picks
        self._plans = [plan for plan in self._plans if plan[cell] <= self._available[cell]]

    def take(self, arm: int) -> None:
        """Count a pick of this arm; `look` says what follows."""
        cell = int(self.cells.of_arms[arm])
        for left, group in zip(self._left, self.cells.groups[cell], strict=True):
            left[group] -= 1
        self.needed -= 1
        self._surplus -= len(self._left) - 1
        taken = np.arange(len(self.safe)) == cell
        self._plans = [plan - taken for plan in self._plans if plan[cell]]

    def look(self) -> None:
        """Bring `safe` up to date."""
        if not self.possible or self.needed <= 0 or self._surplus >= len(self._left) - 1:
            return
        available, spare = np.where(self.safe, self._available, 0), self.needed + len(self._left) - 1
        picks = self.cells.greedy(available, self._left, spare)
        if picks.sum() < spare and not self._is_tight:
            found = self.cells.exact(available, self._left, spare)
            picks, self._is_tight = (picks, True) if found is None else (found, False)
        if picks.sum() == spare:
            self._surplus = len(self._left) - 1
            return
        self._look_closely(available)

    def _look_closely(self, available: Ints) -> None:
        """Find a way to complete the batch through each cell; close the cells without one."""
        if not self._plans:
            plan = self.cells.exact(available, self._left, self.needed)
            if plan is None:
                self.possible, self.safe = False, np.zeros_like(self.safe)
                return
            self._plans.append(plan)
        reached, programs = np.any([plan > 0 for plan in self._plans], axis=0), 0
        has_room = np.all([left[self.cells.groups[:, i]] > 0 for i, left in enumerate(self._left)], axis=0)
        for cell in np.flatnonzero(has_room & (available > 0)).tolist():
            if not reached[cell] and programs < MOST_PROGRAMS:
                programs += 1
                plan = self.cells.exact(available, self._left, self.needed, through=cell)
                if plan is not None:
                    self._plans.append(plan)
                    reached |= plan > 0
        if (self.safe & ~reached).any():
            self.safe = self.safe & reached

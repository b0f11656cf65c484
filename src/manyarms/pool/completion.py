"""Whether a batch under several limits can still be completed, and which picks leave it so.

Arms that belong to the same group of every limit are interchangeable here: they form a cell. A batch is a
number of picks from each cell, at most as many as the cell has, and in each group of a limit at most as many
as the limit allows. A pick takes a place in one group of each limit, and therefore takes away at most one
other pick for each. As long as enough other picks are possible, every next pick is safe, and counting
shows it. Otherwise a plan is kept, one way to complete the batch. A pick outside the plan is safe if the plan
can be changed to contain it: by exchanging a few picks or, if that fails, by an integer program over the
cells, which finds a plan or proves that there is none.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.errors import NothingToAskError
from manyarms.support.validation import Ints

SECONDS = 20.0  # for one integer program
FEW_CELLS = 1_500
MOST_REFUSALS = 12  # during one pick; then the batch keeps to its plan
_EXCHANGES = 12  # that are tried before an integer program is solved
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
        """Exactly `needed` picks, at least one of them from the cell `through`; None: there are none.

        Of very many cells, a few are tried first, which nearly always suffice.
        """
        places = np.flatnonzero(available > 0)
        if len(places) > 2 * FEW_CELLS:
            some = np.random.default_rng(0).choice(places, FEW_CELLS, replace=False)
            few = some if through < 0 else np.union1d(some, through)
            picks = self._among(np.sort(few), available, left, needed, through)
            if picks is not None:
                return picks
        return self._among(places, available, left, needed, through) if len(places) else None

    def _among(
        self, places: Ints, available: Ints, left: Sequence[Ints], needed: int, through: int
    ) -> Ints | None:
        """The same among some cells."""
        from scipy.optimize import Bounds, LinearConstraint, milp

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
    """The picks that a batch still needs, and whether it can be completed after a next one.

    `needed` is the number of picks that are missing. `possible` is False if the batch cannot be completed.
    """

    def __init__(self, cells: Cells, available: Ints, left: Sequence[Ints], needed: int) -> None:
        """`available` counts the picks that each cell has, `left` those that each group of a limit allows."""
        self.cells, self.needed, self.possible = cells, needed, True
        self._available, self._left = available.copy(), [each.copy() for each in left]
        self._surplus = -1  # a lower bound on the picks that are possible beyond those needed
        self._plan: Ints | None = None
        self._refusals = 0  # since the last pick
        self._prepare()

    def copy(self) -> Completion:
        """One that can be changed without changing this one."""
        other = copy.copy(self)
        other._available, other._left = self._available.copy(), [each.copy() for each in self._left]
        return other

    def fewer(self, arm: int, picks: int) -> None:
        """An arm has so many picks less."""
        cell = self.cells.of_arms[arm]
        self._available[cell] -= picks
        self._surplus -= picks
        if self._plan is not None and self._plan[cell] > self._available[cell]:
            self._plan = None

    def allows(self, arm: int) -> bool:
        """Whether the batch can be completed after a pick of this arm."""
        self._prepare()
        if self._plan is None:
            return self.possible
        cell = int(self.cells.of_arms[arm])
        if not self._plan[cell]:
            through = self._exchanged(cell)
            if through is None:
                through = self.cells.exact(self._available, self._left, self.needed, cell)
            if through is None:
                return False
            self._plan = through
        return True

    def take(self, arm: int) -> None:
        """Count a pick of this arm."""
        cell = int(self.cells.of_arms[arm])
        self.possible = self.possible and (self.needed <= 1 or self.allows(arm))
        for left, group in zip(self._left, self.cells.groups[cell], strict=True):
            left[group] -= 1
        self.needed, self._refusals = self.needed - 1, 0
        self._surplus -= len(self._left) - 1
        if self._plan is not None:
            self._plan = self._plan - (np.arange(len(self._plan)) == cell)

    def refused(self, arm: int) -> NDArray[np.bool_]:
        """The cells that remain after a pick of this arm was refused, for all later picks, too.

        After many refusals these are the cells of the plan.
        """
        self._refusals += 1
        self._available[self.cells.of_arms[arm]] = 0
        if self._plan is None:
            self._available[:] = 0
        elif self._refusals >= MOST_REFUSALS:
            self._available[self._plan == 0] = 0
        return self._available > 0

    # ------------------------------------------------------------------ inside

    def _prepare(self) -> None:
        """Know that every pick is safe, or have a plan, or know that there is none."""
        if not self.possible or self._plan is not None:
            return
        n_limits = len(self._left)
        if self.needed <= 1 or self._surplus >= n_limits - 1:
            return
        picks = self.cells.greedy(self._available, self._left, n_limits * self.needed)
        self._surplus = int(picks.sum()) - self.needed
        if self._surplus >= n_limits - 1:
            return
        before = np.cumsum(picks) - picks
        plan: Ints | None = np.clip(self.needed - before, 0, picks)
        if self._surplus < 0:
            plan = self.cells.exact(self._available, self._left, self.needed)
        self._plan, self.possible = plan, plan is not None

    def _exchanged(self, cell: int) -> Ints | None:
        """The plan with a pick from this cell for others in its way, filled up again; None if that fails."""
        assert self._plan is not None
        room, in_the_way = self._room(self._plan), []
        for i, group in enumerate(self.cells.groups[cell]):
            if not room[i][group]:
                in_the_way.append(
                    np.flatnonzero((self._plan > 0) & (self.cells.groups[:, i] == group)).tolist()
                )
        for others in islice(product(*in_the_way), _EXCHANGES):
            plan = self._plan.copy()
            plan[list(set(others)) or np.flatnonzero(plan)[:1]] -= 1  # any one if none is in the way
            plan[cell] += 1
            if self._fill_up(plan):
                return plan
        return None

    def _fill_up(self, plan: Ints) -> bool:
        """Add picks to a plan until it has as many as are needed; whether that succeeded."""
        while int(plan.sum()) < self.needed:
            room = self._room(plan)
            fits = np.all([each[self.cells.groups[:, i]] > 0 for i, each in enumerate(room)], axis=0)
            more = np.flatnonzero(fits & (self._available > plan))
            if not len(more):
                return False
            plan[more[0]] += 1
        return True

    def _room(self, plan: Ints) -> list[Ints]:
        """The places that a plan leaves in each group of each limit."""
        groups = self.cells.groups
        return [
            left - np.bincount(groups[:, i], plan, len(left)).astype(np.int64)
            for i, left in enumerate(self._left)
        ]

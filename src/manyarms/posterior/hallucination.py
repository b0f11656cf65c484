"""Hallucinated pulls: pulls without a reward yet, which reduce the variance but not the mean.

The posterior itself stays as it was at the last feedback (BBKB's fb[t]). A streak of n hallucinated pulls of
arm s reduces σ̃² of every arm x by c_t(x, s)² · n/(1 + n c_t(s, s)), where c_t is the posterior covariance
after the pulls before, on the leverage scale (`covariance.py`, theory §2.5). Only the leverage of *watched*
arms is updated at each pull, which needs kernel values between watched and pulled arms and no pass over the
pool. The leverage of any other arm can be computed at any time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from manyarms.errors import InvalidParameterError
from manyarms.posterior.covariance import ArmRows, PulledCovariance, PulledSet
from manyarms.posterior.over_pool import joined
from manyarms.posterior.posterior import Posterior
from manyarms.posterior.shard import Shard, Version
from manyarms.support.growing_matrix import GrowingMatrix
from manyarms.support.linalg import inverse_lower, largest_eigenvalue
from manyarms.support.validation import Floats, Ints, arm_indices, count

_SPARE_DIRECTIONS = 32


@dataclass
class _Streak:
    """Consecutive pulls of one arm s: c_t(·, s) before the first of them, and their number.

    c_t(·, s) is a combination of the columns c(·, U); `variance` is c_t(s, s).
    """

    arm: int
    combination: Floats
    variance: float
    times: int

    @property
    def remaining(self) -> float:
        """σ̃² of the arm after the pulls so far."""
        return self.variance / (1.0 + self.times * self.variance)

    @property
    def scale(self) -> float:
        """n / (1 + n c_t(s, s)); these pulls reduce σ̃² by scale · c_t(x, s)²."""
        return self.times / (1.0 + self.times * self.variance)


@dataclass(frozen=True, eq=False)
class Hallucinated:
    """Hallucinated pulls as the shards are told of them; `forms` are rows of coefficients of c(x, U)."""

    pulled: PulledSet
    forms: Floats


def reduced_leverage(shard: Shard, version: Version, pulls: Hallucinated) -> Floats:
    """σ̃²_t of every arm of a shard after these pulls: one pass over its columns."""
    reduced = version.leverage.copy()
    for where, columns in pulls.pulled.columns_of(shard, version):
        reduced[where] -= _fall(columns, pulls.forms)
    return np.maximum(reduced, 0.0)


def _fall(columns: Floats, forms: Floats) -> Floats:
    """The sum of squares of these linear forms of c(x, U), for each arm x."""
    values = columns @ forms.T
    return np.asarray(np.einsum("ij,ij->i", values, values))


class Hallucination:
    """Pulls that update only the variance of a posterior. The posterior is read and never modified.

    U are the different arms pulled. Each finished streak is kept as one direction, a combination of the
    columns c(·, U). If the same arms alternate, the number of directions grows with the number of pulls, so
    the directions are occasionally replaced by an equivalent set with one direction per arm of U.
    """

    def __init__(self, posterior: Posterior) -> None:
        self._posterior, self._state = posterior, posterior.state
        self.pulls: list[int] = []  # arms in order, with repetition
        self.leverage_before: list[float] = []  # σ̃² of the pulled arm immediately before each pull
        self.feedback_leverage: list[float] = []  # σ̃² of the pulled arm at the last feedback
        self._streak: _Streak | None = None  # the streak in progress
        self._past = GrowingMatrix(0)  # directions of finished streaks, as rows
        self._n_past = 0
        self._last_ratio = 0, 1.0  # after how many pulls the realised ratio was computed, and what it was
        self.forget_watched()

    def forget_watched(self) -> None:
        """Watch no arm any more."""
        self.watched: Ints = np.empty(0, dtype=np.int64)
        vars(self).pop("_watched_rows", None)
        self._watched_columns = GrowingMatrix(0, len(self._covariance) if self.pulls else 0)  # c(watched, U)
        self._before_streak = np.empty(0)  # leverage of the watched arms before the present streak
        self._streak_column = np.empty(0)  # c_t(x, s) of the watched arms for the present streak
        self.watched_leverage = np.empty(0)

    # A batch that ends with its first pick needs neither of these, so they are made at their first use.

    @cached_property
    def _covariance(self) -> PulledCovariance:
        return PulledCovariance(self._posterior)

    @cached_property
    def _watched_rows(self) -> ArmRows:
        return self._covariance.rows_of(self.watched)

    @property
    def watched_rows(self) -> ArmRows:
        """What is known about the watched arms since the last feedback."""
        return self._watched_rows

    def watch(self, arms: ArrayLike) -> None:
        """Keep the leverage of these arms up to date from now on; they must not be watched already."""
        added = arm_indices(arms, self._posterior.pool.n_arms)
        rows = self._covariance.rows_of(added)
        columns = self._covariance.with_all(rows)
        before, known, u = len(self.watched), len(self.watched) + len(added), columns.shape[1]
        self._watched_rows = ArmRows.joined([self._watched_rows, rows])
        self.watched = np.concatenate([self.watched, added])
        self._watched_columns.reserve(known, u)
        self._watched_columns.write(slice(before, known), slice(0, u), columns)
        start = rows.leverage - self._reduction(columns)
        self._before_streak = np.concatenate([self._before_streak, start])
        column = np.zeros(len(added)) if self._streak is None else columns @ self._streak.combination
        self._streak_column = np.concatenate([self._streak_column, column])
        self._refresh_watched()

    def pull(self, arm: int, times: int = 1) -> None:
        """Add `times` pulls of `arm`. Within a streak, a pull costs O(watched), not a pass over the pool."""
        arm = int(arm_indices(arm, self._posterior.pool.n_arms)[0])
        times = count("times", times)
        if self._streak is None or self._streak.arm != arm:
            self._end_streak()
            self._start_streak(arm)
        assert self._streak is not None
        for _ in range(times):
            self.leverage_before.append(
                self._streak.variance / (1.0 + self._streak.times * self._streak.variance)
            )
            self._streak.times += 1
        place = self._covariance.places[arm]
        self.feedback_leverage += [float(self._covariance.between()[place, place])] * times
        self.pulls += [arm] * times
        self._refresh_watched()

    def undo(self, pulls: int = 1) -> None:
        """Remove the last `pulls` pulls."""
        if count("pulls", pulls) > len(self.pulls):
            raise InvalidParameterError(
                "pulls", pulls, f"at most {len(self.pulls)}, the number of pulls made"
            )
        remaining = self.pulls[: len(self.pulls) - pulls]
        watched = self.watched
        posterior = self._posterior
        vars(self).clear()
        self.__init__(posterior)  # type: ignore[misc]
        for arm in remaining:
            self.pull(arm)
        self.watch(watched)

    def leverage(self, arms: ArrayLike | None = None) -> Floats:
        """σ̃²_t (leverage) of these arms, or of every arm in one pass over the pool."""
        if arms is None:
            whole: Floats = joined(self._state.over_pool.map(reduced_leverage, self.message()))
            return whole
        rows = self._covariance.rows_of(arm_indices(arms, self._posterior.pool.n_arms))
        columns = self._covariance.with_all(rows)
        return np.asarray(np.maximum(rows.leverage - self._reduction(columns, present=True), 0.0))

    def message(self) -> Hallucinated:
        """These pulls as the shards are told of them."""
        return Hallucinated(self._covariance.pulled_set(), self._forms())

    def realised_ratio(self) -> float:
        """The largest factor by which these pulls can have reduced the σ̃² of any arm, in the pool or not.

        It is 1 + the largest eigenvalue of N^½ c(U, U) N^½ with the pull counts N, at most 1 + Σ_s σ̃²_fb(x_s)
        (theory §6.7).
        """
        if not self.pulls:
            return 1.0
        counts = np.sqrt(self._counts())
        return 1.0 + largest_eigenvalue(counts[:, None] * self._covariance.between() * counts)

    def excess(self, allowed: float) -> float:
        """By which factor the realised ratio exceeds `allowed`; 1 if it does not.

        A pull of x raises the largest eigenvalue by at most σ̃²_fb(x), the entry that it adds to the diagonal.
        So the ratio is only computed once the last one with all pulls since then might exceed `allowed`.
        """
        pulls, ratio = self._last_ratio
        if ratio + sum(self.feedback_leverage[pulls:]) <= allowed:
            return 1.0
        self._last_ratio = len(self.pulls), self.realised_ratio()
        return max(1.0, self._last_ratio[1] / allowed)

    # ------------------------------------------------------------------ streaks and directions

    def _past_directions(self) -> Floats:
        """J × u."""
        return self._past.corner(self._n_past, len(self._covariance))

    def _forms(self, present: bool = True) -> Floats:
        """Linear forms of c(x, U) whose squares sum to the fall of σ̃²(x), as rows; J × u."""
        past = self._past_directions()
        if not present or self._streak is None:
            return past
        return np.vstack([past, math.sqrt(self._streak.scale) * self._streak.combination])

    def _reduction(self, columns: Floats, present: bool = False) -> Floats:
        """By how much σ̃² has fallen at arms with these c(·, U); the present streak counts if asked for."""
        return _fall(columns, self._forms(present))

    def _start_streak(self, arm: int) -> None:
        place = self._place(arm)
        past, column = self._past_directions(), self._covariance.between()[place]
        at_arm = past @ column
        combination = -(at_arm @ past)
        combination[place] += 1.0
        variance = max(float(column[place]) - float(at_arm @ at_arm), 0.0)
        self._streak = _Streak(arm, combination, variance, 0)
        self._streak_column = self._watched_columns.corner(len(self.watched), len(combination)) @ combination

    def _place(self, arm: int) -> int:
        """The position of an arm in U, to which it is appended if it is new."""
        place = self._covariance.places.get(arm)
        if place is not None:
            return place
        place, where = len(self._covariance), np.flatnonzero(self.watched == arm)
        if len(where):  # what is known of a watched arm need not be computed again
            known = self._watched_columns.corner(len(self.watched), place)[where[:1]]
            self._covariance.add(arm, self._watched_rows.part(where[:1]), known.T)
        else:
            self._covariance.add(arm)
        self._watched_columns.reserve(len(self.watched), place + 1)
        column = self._covariance.with_last(self._watched_rows)
        self._watched_columns.write(slice(0, len(self.watched)), slice(place, place + 1), column[:, None])
        self._past.reserve(self._n_past, place + 1)
        self._past.write(slice(0, self._n_past), slice(place, place + 1), 0.0)
        return place

    def _end_streak(self) -> None:
        """Store the present streak as a direction; merge the directions by arm if there are too many."""
        if self._streak is None:
            return
        u = len(self._covariance)
        self._past.reserve(self._n_past + 1, u)
        direction = math.sqrt(self._streak.scale) * self._streak.combination
        self._past.write(slice(self._n_past, self._n_past + 1), slice(0, u), direction)
        self._n_past += 1
        self._before_streak, self._streak = self.watched_leverage, None
        if self._n_past > 2 * u + _SPARE_DIRECTIONS:
            self._merge_by_arm()

    def _merge_by_arm(self) -> None:
        """Replace the directions by E⁻¹ with E Eᵀ = N⁻¹ + c(U, U), one row per pulled arm."""
        u = len(self._covariance)
        self._n_past = u
        inverse = inverse_lower(self._covariance.between() + np.diag(1.0 / self._counts()))
        self._past.write(slice(0, u), slice(0, u), inverse)
        columns = self._watched_columns.corner(len(self.watched), u)
        self._before_streak = self._watched_rows.leverage - self._reduction(columns)

    def _counts(self) -> Floats:
        """The number of pulls of each arm of U."""
        places = [self._covariance.places[arm] for arm in self.pulls]
        return np.bincount(places, minlength=len(self._covariance)).astype(np.float64)

    def _refresh_watched(self) -> None:
        if self._streak is None:
            self.watched_leverage = self._before_streak
        else:
            fall = self._streak.scale * self._streak_column**2
            self.watched_leverage = np.maximum(self._before_streak - fall, 0.0)

"""Hallucinated pulls: pulls without a reward yet, which reduce the variance but not the mean.

The posterior itself stays as it was at the last feedback (BBKB's fb[t]). A streak of n hallucinated pulls of
arm s reduces zᵀV⁻¹z of every arm x by c(x)² · n/(1 + n c(s)), with c(x) = z(x)ᵀ V_t⁻¹ z(s) (theory §2.5).
Only the leverage of *watched* arms is updated at each pull, which makes a batch cheap. The leverage of any
other arm can be computed at any time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from manyarms.errors import InvalidParameterError
from manyarms.posterior.posterior import Posterior
from manyarms.support.growing_matrix import GrowingMatrix
from manyarms.support.linalg import inverse_lower
from manyarms.support.validation import Floats, Ints, arm_indices, count

_SPARE_DIRECTIONS = 32


@dataclass
class _Streak:
    """Consecutive pulls of one arm s: g = V_t⁻¹z_s before the first pull, c(s) = z_sᵀg, and their number."""

    arm: int
    g: Floats
    quadratic: float
    times: int

    @property
    def direction(self) -> Floats:
        """g √(n / (1 + n c(s))); these pulls reduce zᵀV⁻¹z by (zᵀ direction)²."""
        return np.asarray(self.g * math.sqrt(self.times / (1.0 + self.times * self.quadratic)))


class Hallucination:
    """Pulls that update only the variance of a posterior. The posterior is read and never modified.

    Each finished streak of pulls of one arm is kept as one direction (an m-vector). If the same arms
    alternate, the number of directions grows with the number of pulls, so the directions are occasionally
    replaced by an equivalent set with one direction per *different* arm.
    """

    def __init__(self, posterior: Posterior) -> None:
        self._posterior = posterior
        self._state = posterior.state
        self.pulls: list[int] = []  # arms in order, with repetition
        self._streak: _Streak | None = None  # the streak in progress
        self._past = GrowingMatrix(0, self._state.sketch_size)  # directions of finished streaks, as rows
        self._n_past = 0
        self._rows: dict[int, tuple[Floats, Floats]] = {}  # z and V⁻¹z (at feedback) of the pulled arms
        self.watched: Ints = np.empty(0, dtype=np.int64)
        self._watched_rows = np.empty((0, self._state.sketch_size))
        self._before_streak = np.empty(0)  # leverage of the watched arms before the present streak
        self._streak_column = np.empty(0)  # zᵀg of the watched arms for the present streak
        self.watched_leverage = np.empty(0)

    def watch(self, arms: ArrayLike) -> None:
        """Keep the leverage of these arms up to date from now on; they must not be watched already."""
        added = arm_indices(arms, self._posterior.pool.n_arms)
        rows = self._state.rows(added)
        self.watched = np.concatenate([self.watched, added])
        self._watched_rows = np.concatenate([self._watched_rows, rows])
        self._before_streak = np.concatenate([self._before_streak, self._leverage_before_streak(added, rows)])
        column = np.zeros(len(added)) if self._streak is None else rows @ self._streak.g
        self._streak_column = np.concatenate([self._streak_column, column])
        self._refresh_watched()

    def pull(self, arm: int, times: int = 1) -> None:
        """Add `times` pulls of `arm`. Within a streak, a pull costs O(watched), not a pass over the pool."""
        arm = int(arm_indices(arm, self._posterior.pool.n_arms)[0])
        times = count("times", times)
        if self._streak is not None and self._streak.arm == arm:
            self._streak.times += times
        else:
            self._end_streak()
            self._start_streak(arm, times)
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
        self.__init__(self._posterior)  # type: ignore[misc]
        for arm in remaining:
            self.pull(arm)
        self.watch(watched)

    def leverage(self, arms: ArrayLike | None = None) -> Floats:
        """σ̃²_t (leverage) of these arms, or of every arm in one pass over the pool."""
        directions = self._directions()
        if arms is None:
            reduced = self._state.leverage.copy()
            for where, _ in self._posterior.pool.blocks(bytes_per_arm=16 * len(directions)):
                for form in self._state.columns.product(directions.T, where):
                    reduced[where] -= form * form
            return np.maximum(reduced, 0.0)
        chosen = arm_indices(arms, self._posterior.pool.n_arms)
        forms = self._state.rows(chosen) @ directions.T
        return np.asarray(np.maximum(self._state.leverage[chosen] - np.einsum("ij,ij->i", forms, forms), 0.0))

    def at_feedback(self, arm: int) -> Floats:
        """V⁻¹z of an arm, with V at the last feedback; an m-vector."""
        return self._row(arm)[1]

    def _row(self, arm: int) -> tuple[Floats, Floats]:
        if arm not in self._rows:
            z = self._state.columns.rows(arm, self._state.sketch_size)
            self._rows[arm] = z, self._state.weights.precision.apply(z[:, None])[:, 0]
        return self._rows[arm]

    def _past_directions(self) -> Floats:
        return self._past.corner(self._n_past, self._state.sketch_size)

    def _directions(self) -> Floats:
        past = self._past_directions()
        return past if self._streak is None else np.vstack([past, self._streak.direction])

    def _leverage_before_streak(self, arms: Ints, rows: Floats) -> Floats:
        """Leverage of these arms after all streaks except the present one; `rows` holds their z."""
        forms = rows @ self._past_directions().T
        return np.asarray(self._state.leverage[arms] - np.einsum("ij,ij->i", forms, forms))

    def _start_streak(self, arm: int, times: int) -> None:
        z, solved = self._row(arm)
        past = self._past_directions()
        g = solved - past.T @ (past @ z)
        self._streak = _Streak(arm, g, float(z @ g), times)
        self._streak_column = self._watched_rows @ g

    def _end_streak(self) -> None:
        """Store the present streak as a direction; merge the directions by arm if there are too many."""
        if self._streak is None:
            return
        self._past.reserve(self._n_past + 1, self._state.sketch_size)
        self._past.write(slice(self._n_past, self._n_past + 1), slice(None), self._streak.direction)
        self._n_past += 1
        self._before_streak, self._streak = self.watched_leverage, None
        if self._n_past > 2 * len(self._rows) + _SPARE_DIRECTIONS:
            self._merge_by_arm()

    def _merge_by_arm(self) -> None:
        """Replace the directions by E⁻¹ Z_U V⁻¹ with E Eᵀ = N⁻¹ + Z_U V⁻¹ Z_Uᵀ, one row per pulled arm."""
        arms, counts = np.unique(self.pulls, return_counts=True)
        Z, solved = (np.array([self._row(arm)[part] for arm in arms.tolist()]) for part in (0, 1))
        self._n_past = len(arms)
        self._past.write(
            slice(0, len(arms)), slice(None), inverse_lower(Z @ solved.T + np.diag(1.0 / counts)) @ solved
        )
        self._before_streak = self._leverage_before_streak(self.watched, self._watched_rows)

    def _refresh_watched(self) -> None:
        if self._streak is None:
            self.watched_leverage = self._before_streak
        else:
            scale = self._streak.times / (1.0 + self._streak.times * self._streak.quadratic)
            self.watched_leverage = np.maximum(self._before_streak - scale * self._streak_column**2, 0.0)

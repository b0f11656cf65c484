"""Pulls whose rewards are still out: they shrink the variance, not the mean, and can be taken back.

The posterior underneath stays frozen at the last feedback (BBKB's fb[t]). On top of it, a pull of arm s
takes c(x)² · n/(1 + n c(s)) from zᵀV⁻¹z of every arm x, with c(x) = z(x)ᵀ V_t⁻¹ z(s) and n the number
of pulls in a row (theory §2.5). Only arms that are *watched* are kept up to date at each
pull, which is what makes a batch cheap; any arm can be asked for at any time.
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
class _Run:
    """Pulls of one arm in a row: direction g = V_t⁻¹z_s before the run, c(s) = z_sᵀg, and how many."""

    arm: int
    g: Floats
    spread: float
    times: int

    @property
    def direction(self) -> Floats:
        """g √(n / (1 + n c(s))): what the run takes from zᵀV⁻¹z is the square of zᵀ(this)."""
        return np.asarray(self.g * math.sqrt(self.times / (1.0 + self.times * self.spread)))


class Hallucination:
    """Variance-only pulls on top of a posterior, which is read and never changed.

    Runs that are over are kept as directions. When an arm comes back again and again there would be ever
    more of them, so they are now and then replaced by one per *different* arm, which says the same.
    """

    def __init__(self, posterior: Posterior) -> None:
        self._posterior = posterior
        self._state = posterior.state
        self.pulls: list[int] = []  # arms in order, with repetition
        self._run: _Run | None = None  # the one still going on
        self._past = GrowingMatrix(
            0, self._state.sketch_size
        )  # directions of the runs that are over, as rows
        self._n_past = 0
        self._rows: dict[int, tuple[Floats, Floats]] = {}  # z and V⁻¹z (at feedback) of arms pulled here
        self.watched: Ints = np.empty(0, dtype=np.int64)
        self._watched_rows = np.empty((0, self._state.sketch_size))
        self._before_run = np.empty(0)  # leverage of watched arms before the present run
        self._run_column = np.empty(0)  # zᵀg of watched arms for the present run
        self.watched_leverage = np.empty(0)

    def watch(self, arms: ArrayLike) -> None:
        """Keep these arms' leverage current from now on; arms watched already are left out by the caller."""
        added = arm_indices(arms, self._posterior.pool.n_arms)
        rows = self._state.rows(added)
        self.watched = np.concatenate([self.watched, added])
        self._watched_rows = np.concatenate([self._watched_rows, rows])
        self._before_run = np.concatenate([self._before_run, self._without_run(added, rows)])
        column = np.zeros(len(added)) if self._run is None else rows @ self._run.g
        self._run_column = np.concatenate([self._run_column, column])
        self._refresh_watched()

    def pull(self, arm: int, times: int = 1) -> None:
        """Count more pulls of `arm`. A run of one arm costs O(watched) each, not a pass over the pool."""
        arm = int(arm_indices(arm, self._posterior.pool.n_arms)[0])
        times = count("times", times)
        if self._run is not None and self._run.arm == arm:
            self._run.times += times
        else:
            self._end_run()
            self._start_run(arm, times)
        self.pulls += [arm] * times
        self._refresh_watched()

    def undo(self, pulls: int = 1) -> None:
        """Take back the last pulls."""
        if count("pulls", pulls) > len(self.pulls):
            raise InvalidParameterError("pulls", pulls, f"at most the {len(self.pulls)} that were made")
        remaining = self.pulls[: len(self.pulls) - pulls]
        watched = self.watched
        self.__init__(self._posterior)  # type: ignore[misc]
        for arm in remaining:
            self.pull(arm)
        self.watch(watched)

    def leverage(self, arms: ArrayLike | None = None) -> Floats:
        """σ̃²_t of some arms, or of every arm in one pass over the pool."""
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
        """V⁻¹z of an arm, V at the last feedback."""
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
        return past if self._run is None else np.vstack([past, self._run.direction])

    def _without_run(self, arms: Ints, rows: Floats) -> Floats:
        """Leverage of some arms after all runs but the present one."""
        forms = rows @ self._past_directions().T
        return np.asarray(self._state.leverage[arms] - np.einsum("ij,ij->i", forms, forms))

    def _start_run(self, arm: int, times: int) -> None:
        z, solved = self._row(arm)
        past = self._past_directions()
        g = solved - past.T @ (past @ z)
        self._run = _Run(arm, g, float(z @ g), times)
        self._run_column = self._watched_rows @ g

    def _end_run(self) -> None:
        """The present run becomes a direction; too many directions are summed up by arm."""
        if self._run is None:
            return
        self._past.reserve(self._n_past + 1, self._state.sketch_size)
        self._past.write(slice(self._n_past, self._n_past + 1), slice(None), self._run.direction)
        self._n_past += 1
        self._before_run, self._run = self.watched_leverage, None
        if self._n_past > 2 * len(self._rows) + _SPARE_DIRECTIONS:
            self._sum_up_by_arm()

    def _sum_up_by_arm(self) -> None:
        """All pulls so far as one block: E⁻¹ Z_U V⁻¹ with E Eᵀ = N⁻¹ + Z_U V⁻¹ Z_Uᵀ, one row per arm."""
        arms, counts = np.unique(self.pulls, return_counts=True)
        Z, solved = (np.array([self._row(arm)[part] for arm in arms.tolist()]) for part in (0, 1))
        self._n_past = len(arms)
        self._past.write(
            slice(0, len(arms)), slice(None), inverse_lower(Z @ solved.T + np.diag(1.0 / counts)) @ solved
        )
        self._before_run = self._without_run(self.watched, self._watched_rows)

    def _refresh_watched(self) -> None:
        if self._run is None:
            self.watched_leverage = self._before_run
        else:
            scale = self._run.times / (1.0 + self._run.times * self._run.spread)
            self.watched_leverage = np.maximum(self._before_run - scale * self._run_column**2, 0.0)

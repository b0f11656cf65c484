"""Pulls whose rewards are still out: they shrink the variance, not the mean, and can be taken back.

The posterior underneath stays frozen at the last feedback (BBKB's fb[t]). On top of it, a pull of arm s
takes c(x)² · n/(1 + n c(s)) from zᵀV⁻¹z of every arm x, with c(x) = z(x)ᵀ V_t⁻¹ z(s) and n the number
of pulls in a row (spec §1, "one more pull"). Only arms that are *watched* are kept up to date at each
pull, which is what makes a batch cheap; any arm can be asked for at any time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from manyarms.posterior import Posterior
from manyarms.validation import Floats, Ints, arm_indices, count


@dataclass
class _Run:
    """Pulls of one arm in a row: direction g = V_t⁻¹z_s before the run, c(s) = z_sᵀg, and how many."""

    arm: int
    g: Floats
    spread: float
    times: int

    @property
    def scale(self) -> float:
        """√(n / (1 + n c(s))), by which zᵀg counts."""
        return math.sqrt(self.times / (1.0 + self.times * self.spread))


class Hallucination:
    """Variance-only pulls on top of a posterior, which is read and never changed."""

    def __init__(self, posterior: Posterior) -> None:
        self._posterior = posterior
        self._state = posterior.state
        self._runs: list[_Run] = []
        self._directions = np.empty((self._state.width, 0))  # scaled g of the runs, all but the last final
        self._rows: dict[int, tuple[Floats, Floats]] = {}  # z and V⁻¹z (at feedback) of arms pulled here
        self.watched: Ints = np.empty(0, dtype=np.int64)
        self._watched_rows = np.empty((0, self._state.width))
        self._before_run = np.empty(0)  # leverage of watched arms before the last run
        self._last_column = np.empty(0)  # zᵀg of watched arms for the last run
        self.watched_leverage = np.empty(0)

    @property
    def pulls(self) -> list[int]:
        """Arms hallucinated so far, in order, with repetition."""
        return [run.arm for run in self._runs for _ in range(run.times)]

    def watch(self, arms: ArrayLike) -> None:
        """Keep these arms' leverage current from now on; arms watched already are left out by the caller."""
        added = arm_indices(arms, self._posterior.pool.n_arms)
        rows = self._state.columns.rows(added, self._state.width)
        final = rows @ self._directions[:, : max(len(self._runs) - 1, 0)]
        before = self._state.leverage[added] - np.einsum("ij,ij->i", final, final)
        column = rows @ self._runs[-1].g if self._runs else np.zeros(len(added))
        self.watched = np.concatenate([self.watched, added])
        self._watched_rows = np.concatenate([self._watched_rows, rows])
        self._before_run = np.concatenate([self._before_run, before])
        self._last_column = np.concatenate([self._last_column, column])
        self._refresh_watched()

    def pull(self, arm: int, times: int = 1) -> None:
        """Count more pulls of `arm`. A run of one arm costs O(watched) each, not a pass over the pool."""
        arm = int(arm_indices(arm, self._posterior.pool.n_arms)[0])
        times = count("times", times)
        if self._runs and self._runs[-1].arm == arm:
            self._runs[-1].times += times
            self._directions[:, -1] = self._runs[-1].g * self._runs[-1].scale
        else:
            self._start_run(arm, times)
        self._refresh_watched()

    def undo(self, pulls: int = 1) -> None:
        """Take back the last pulls."""
        made = self.pulls
        if count("pulls", pulls) > len(made):
            raise InvalidParameterError("pulls", pulls, f"at most the {len(made)} that were made")
        remaining = made[: len(made) - pulls]
        watched = self.watched
        self.__init__(self._posterior)  # type: ignore[misc]
        for arm in remaining:
            self.pull(arm)
        self.watch(watched)

    def leverage(self, arms: ArrayLike | None = None) -> Floats:
        """σ̃²_t of some arms, or of every arm in one pass over the pool."""
        if arms is None:
            reduced = self._state.leverage.copy()
            for where, _ in self._posterior.pool.blocks(bytes_per_arm=16 * len(self._runs)):
                for form in self._state.columns.product(self._directions, where):
                    reduced[where] -= form * form
            return np.maximum(reduced, 0.0)
        chosen = arm_indices(arms, self._posterior.pool.n_arms)
        forms = self._state.columns.rows(chosen, self._state.width) @ self._directions
        return np.asarray(np.maximum(self._state.leverage[chosen] - np.einsum("ij,ij->i", forms, forms), 0.0))

    def at_feedback(self, arm: int) -> Floats:
        """V⁻¹z of an arm that was pulled here, V at the last feedback."""
        return self._row(arm)[1]

    def _row(self, arm: int) -> tuple[Floats, Floats]:
        if arm not in self._rows:
            z = self._state.columns.rows(arm, self._state.width)
            self._rows[arm] = z, self._state.weights.precision.apply(z[:, None])[:, 0]
        return self._rows[arm]

    def _start_run(self, arm: int, times: int) -> None:
        z, solved = self._row(arm)
        g = solved - self._directions @ (self._directions.T @ z)
        run = _Run(arm, g, float(z @ g), times)
        self._before_run = self.watched_leverage
        self._last_column = self._watched_rows @ g
        self._directions = np.column_stack([self._directions, g * run.scale])
        self._runs.append(run)

    def _refresh_watched(self) -> None:
        if self._runs:
            taken = (self._last_column * self._runs[-1].scale) ** 2
            self.watched_leverage = np.maximum(self._before_run - taken, 0.0)
        else:
            self.watched_leverage = self._before_run

"""The arithmetic of one DUETS epoch on the server's side: functions of draws and projections alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from manyarms.agents.active_set import DOUBLE, ActiveSet, DrawnPoints, Trim
from manyarms.agents.epoch_posterior import SparsePosterior, means, on_points, spanning
from manyarms.agents.protocol.coins import PURPOSE_INDUCING, Coin
from manyarms.embeddings.nystrom import SPAN_TOLERANCE
from manyarms.sketch.inducing import union_of_draws
from manyarms.support.validation import Floats

if TYPE_CHECKING:
    from manyarms.agents.duets.duets import DUETS


@dataclass(frozen=True)
class Exploration:
    """What the draws D_j say before any reward is known (DUETS Algorithm 2 l. 5–6)."""

    settings: DUETS
    active: ActiveSet
    keys: NDArray[Any]  # different points drawn, in order of first appearance
    counts: Floats
    exact: SparsePosterior  # its embedding spans every drawn point
    max_leverage: float  # max σ² over the active set, ridge-leverage scale

    @classmethod
    def of(cls, settings: DUETS, active: ActiveSet, draws: Sequence[DrawnPoints]) -> Exploration:
        """From the draws of the agents that take part, and of nobody else."""
        keys, counts = _different(np.concatenate([drawn.keys for drawn in draws]))
        points = active.features(keys)
        _, embedding = spanning(settings.checked_kernel, points, SPAN_TOLERANCE[DOUBLE])
        exact = SparsePosterior.of(embedding, points, counts, settings.ridge)
        return cls(settings, active, keys, counts, exact, exact.largest_leverage(active.survey(keys)))

    @property
    def sigma_max(self) -> float:
        """√(λ·max σ²): the largest posterior standard deviation, in reward units."""
        return math.sqrt(self.settings.ridge * self.max_leverage)

    def inclusion(self, oversampling: float) -> float:
        """p_j = min(1, p₀·max σ²), on the ridge-leverage scale (spec §1)."""
        return min(1.0, oversampling * self.max_leverage)

    def inducing(self, inclusion: float, coin: Coin, epoch: int) -> NDArray[Any]:
        """S_j (Algorithm 2 l. 7): each draw with p_j, so a point drawn n times with 1 − (1 − p_j)ⁿ.

        Points that the others span already are left out here, by the server, for everybody.
        """
        tossed = coin.stream(epoch, PURPOSE_INDUCING).uniform(len(self.keys))
        chance = union_of_draws(np.full(len(self.keys), inclusion), self.counts)
        drawn = self.keys[tossed < chance]
        kernel, tolerance = self.settings.checked_kernel, self.settings.span_tolerance
        return drawn[spanning(kernel, self.active.features(drawn), tolerance)[0]]

    def solve(self, inducing: NDArray[Any], projection: Floats, width: float) -> ClosedEpoch:
        """l. 10–12 with the Gram matrix of all draws (l. 10 prints one agent's); `inducing`: features."""
        embedding = on_points(self.settings.checked_kernel, inducing)
        posterior = SparsePosterior.of(
            embedding, self.active.features(self.keys), self.counts, self.settings.ridge
        )
        weights = posterior.weights(projection)
        return ClosedEpoch(self, posterior, self._cut(inducing, weights, width))

    def _cut(self, inducing: NDArray[Any], weights: Floats, width: float) -> Trim:
        """(9): keep μ̃ ≥ max μ̃ − 2βσ_max. On a pool the cutoff is moved to the middle of the gap it lies in.

        No arm changes sides by that, and machines that round differently seldom disagree. With nothing below
        the cutoff there is no trim.
        """
        kernel = self.settings.checked_kernel
        values = np.concatenate(
            [means(kernel, inducing, weights, block, DOUBLE) for block in self.active.survey(self.keys)]
        )
        cutoff = float(values.max()) - 2.0 * width * self.sigma_max
        below = values[values < cutoff]
        if not len(below):
            cutoff = -math.inf
        elif self.active.exhaustive:
            cutoff = (float(below.max()) + float(values[values >= cutoff].min())) / 2.0
        return Trim(inducing, weights, cutoff)


@dataclass(frozen=True)
class ClosedEpoch:
    """A finished epoch: what was drawn, the sparse posterior, and the trim it led to."""

    exploration: Exploration
    posterior: SparsePosterior
    trim: Trim


def _different(keys: NDArray[Any]) -> tuple[NDArray[Any], Floats]:
    unique, first, counts = np.unique(keys, axis=0, return_index=True, return_counts=True)
    order = np.argsort(first)
    return unique[order], counts[order].astype(np.float64)

"""The server's computations in one DUETS epoch, as functions of the draws and the projected rewards alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.agents.active_set import DOUBLE, ActiveSet, DrawnPoints, Trim, unique_with_counts
from manyarms.agents.duets.settings import DuetsSettings
from manyarms.agents.epoch_posterior import SparsePosterior, means, on_points, spanning
from manyarms.agents.protocol.coins import PURPOSE_INDUCING, Coin
from manyarms.embeddings.nystrom import SPAN_TOLERANCE
from manyarms.sketch.inducing import union_of_draws
from manyarms.support.validation import Floats


@dataclass(frozen=True)
class Exploration:
    """The posterior of an epoch's draws D_j before any reward is known (DUETS Algorithm 2 l. 5–6)."""

    settings: DuetsSettings
    active: ActiveSet
    keys: NDArray[Any]  # distinct points drawn, in order of first appearance
    counts: Floats
    exact: SparsePosterior  # its embedding spans every drawn point
    max_leverage: float  # max σ² over the active set, ridge-leverage scale

    @classmethod
    def of(cls, settings: DuetsSettings, active: ActiveSet, draws: Sequence[DrawnPoints]) -> Exploration:
        """From the draws of the agents that take part in the epoch."""
        keys, counts = unique_with_counts(np.concatenate([drawn.keys for drawn in draws]))
        points = active.features(keys)
        _, embedding = spanning(settings.checked_kernel, points, SPAN_TOLERANCE[DOUBLE])
        exact = SparsePosterior.of(embedding, points, counts, settings.ridge)
        return cls(
            settings, active, keys, counts, exact, exact.largest_leverage(active.maximisation_blocks(keys))
        )

    @property
    def sigma_max(self) -> float:
        """√(λ·max σ²): the largest posterior standard deviation, in reward units."""
        return math.sqrt(self.settings.ridge * self.max_leverage)

    def inclusion(self, oversampling: float) -> float:
        """p_j = min(1, p₀·max σ²), on the ridge-leverage scale (theory §9.1)."""
        return min(1.0, oversampling * self.max_leverage)

    def inducing(self, inclusion: float, coin: Coin, epoch: int) -> NDArray[Any]:
        """S_j (Algorithm 2 l. 7): each draw is included with p_j, a point drawn n times with 1 − (1 − p_j)ⁿ.

        The server also leaves out points that the other inducing points already span.
        """
        uniform = coin.stream(epoch, PURPOSE_INDUCING).uniform(len(self.keys))
        chance = union_of_draws(np.full(len(self.keys), inclusion), self.counts)
        drawn = self.keys[uniform < chance]
        kernel, tolerance = self.settings.checked_kernel, self.settings.span_tolerance
        return drawn[spanning(kernel, self.active.features(drawn), tolerance)[0]]

    def solve(self, inducing: NDArray[Any], projection: Floats, width: float) -> ClosedEpoch:
        """Algorithm 2 l. 10–12, with the Gram matrix of all draws where l. 10 prints that of one agent.

        `inducing` are the features of S_j.
        """
        embedding = on_points(self.settings.checked_kernel, inducing)
        posterior = SparsePosterior.of(
            embedding, self.active.features(self.keys), self.counts, self.settings.ridge
        )
        weights = posterior.weights(projection)
        return ClosedEpoch(self, posterior, self._trim(inducing, weights, width))

    def _trim(self, inducing: NDArray[Any], weights: Floats, width: float) -> Trim:
        """(9): keep μ̃ ≥ max μ̃ − 2βσ_max. On a pool the cutoff is moved to the middle of the gap it lies in.

        This does not change which arms are kept, and machines that round differently rarely disagree. If no
        arm lies below the cutoff, nothing is trimmed.
        """
        kernel = self.settings.checked_kernel
        values = np.concatenate(
            [
                means(kernel, inducing, weights, block, DOUBLE)
                for block in self.active.maximisation_blocks(self.keys)
            ]
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
    """A finished epoch: its draws, the sparse posterior, and the resulting trim."""

    exploration: Exploration
    posterior: SparsePosterior
    trim: Trim

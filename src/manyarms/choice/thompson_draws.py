"""Thompson draws: functions drawn from the sparse posterior, each a prior draw plus its correction.

With inducing arms Z, L Lᵀ = K_ZZ and z(x) = L⁻¹k_Z(x), rule (6) of S-GP-TS in the corrected form of
theory §7.2 becomes, after multiplying out L (S_u = λ L V⁻¹ Lᵀ, m_u = L V⁻¹ b),

    f̃(x) = z(x)ᵀθ + α e(x),     θ = V⁻¹b + α √λ V^{−½} ε,     e(x) = g(x) − z(x)ᵀL⁻¹g(Z),    ε ~ N(0, I).

Its mean is μ̃. The first term has the covariance α²λ z(x)ᵀV⁻¹z(y), and α e(x) has the remaining covariance
α²(k(x, y) − z(x)ᵀz(y)). Rule (7), inducing features, has no inducing arms at which g could be corrected.
There g contains only the eigenfunctions *after* the first m; the weights of the first m, which form z, are
drawn from the posterior. For random features there is no e. One formula therefore covers all cases, and a
draw over the pool costs one pass over the columns of z and of the prior's feature map.

The feature map of g has finite dimension, so the variance of e is not exact. It is adjusted arm by arm
(`prior_columns.completed`): every marginal distribution is then exact for any feature map, and only the
covariances between arms depend on the map.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from manyarms.choice.prior_columns import DrawMessage, completed, draw_values
from manyarms.choice.prior_draws import CorrectedPrior, PriorDraw
from manyarms.pool.allowance import Allowance, OpenArms
from manyarms.posterior.over_pool import joined
from manyarms.posterior.posterior import Posterior
from manyarms.posterior.shard import Shard, Version
from manyarms.support.validation import Floats, Ints, count


@dataclass(frozen=True)
class FunctionDraws:
    """n functions drawn from a posterior: `values` on the pool (n × A), and callable at any points."""

    posterior: Posterior
    prior: CorrectedPrior | None
    prior_draw: PriorDraw | None
    scale: float  # α
    weights: Floats  # θ, m × n

    def __len__(self) -> int:
        return int(self.weights.shape[1])

    @cached_property
    def values(self) -> Floats:
        """The values of the functions at every arm of the pool, n × A."""
        whole: Floats = joined(self.posterior.state.over_pool.map(draw_values, self.message()), axis=1)
        return whole

    def message(self) -> DrawMessage:
        """These functions as the shards are told of them."""
        if self.prior is None or self.prior_draw is None:
            return DrawMessage(self.weights, self.scale)
        weights, correction = self.prior_draw.weights, self.prior.correction
        return DrawMessage(
            self.weights,
            self.scale,
            self.prior.placed.key,
            weights,
            self.prior_draw.keys,
            correction @ weights if len(correction) else None,
        )

    def __call__(self, points: Any) -> Floats:
        """The values of the functions at any feature rows, in the pool or not: n × points."""
        Z = self.posterior.embedding().matrix(points)
        values = np.asarray((Z @ self.weights).T)
        return values if self.prior is None else values + self.scale * self._residuals(points, Z)

    def _residuals(self, points: Any, Z: Floats) -> Floats:
        """e at any points with rows Z of z, n × points; at an arm's features the same as on the pool."""
        assert self.prior is not None
        assert self.prior_draw is not None
        sampler, correction = self.prior.sampler, self.prior.correction
        Q = sampler.feature_map.matrix(points)
        if len(correction):
            Q = Q - Z @ correction
        has, explained = np.einsum("ij,ij->i", Q, Q), np.einsum("ij,ij->i", Z, Z)
        should = np.maximum(np.asarray(sampler.kernel.diag(points)) - explained, 0.0)
        rows = [
            completed(row, has, should, sampler.noise_at(points, key))
            for row, key in zip((Q @ self.prior_draw.weights).T, self.prior_draw.keys, strict=True)
        ]
        return np.array(rows)


def draw_functions(
    posterior: Posterior, prior: CorrectedPrior | None, scale: float, n: int, rng: np.random.Generator
) -> FunctionDraws:
    """n independent draws whose standard deviations are `scale` (α) times those of the posterior.

    `prior` is corrected at the posterior's inducing arms. Each draw takes its random numbers from `rng` in
    turn, so n draws at once equal n calls with n = 1.
    """
    count("n", n)
    state = posterior.state
    noise, prior_draws = np.empty((state.sketch_size, n)), []
    for i in range(n):
        if prior is not None:
            prior_draws.append(prior.sampler.draw(rng))
        noise[:, i] = rng.standard_normal(state.sketch_size)
    spread = math.sqrt(state.ridge) * (state.weights.precision.root() @ noise)
    weights = state.weights.vector[:, None] + scale * spread
    together = PriorDraw.joined(prior_draws) if prior_draws else None
    return FunctionDraws(posterior, prior, together, scale, weights)


class Maximisers:
    """The maximisers of n functions drawn one after the other, among the arms that are left each time.

    As many functions as fit into memory are evaluated in one pass over the pool. A shard returns so many of
    the highest arms of each that the picks in between cannot exhaust them.
    """

    def __init__(
        self,
        posterior: Posterior,
        prior: CorrectedPrior | None,
        scale: float,
        n: int,
        rng: np.random.Generator,
        once: bool,
    ) -> None:
        """`once`: whether a pick may take its arm away from the functions that follow."""
        self._posterior, self._prior, self._scale, self._rng = posterior, prior, scale, rng
        self._undrawn, self._once = n, once
        self._n_open = 0
        self._together = max(1, posterior.pool.max_memory // (32 * posterior.pool.n_arms))
        self._draws: FunctionDraws | None = None
        self._tops: list[_Tops] = []
        self._place = 0

    def next(self, left: Allowance) -> int:
        """The arm that is left with the highest value of the next function."""
        n_open = left.n_open
        if self._place == len(self._tops):
            self._draw_more(left)
        elif n_open > self._n_open:  # arms have come back
            self._tops = self._ask(left)
        self._n_open, place, self._place = n_open, self._place, self._place + 1
        if not any(left[arm] > 0 for arm in self._tops[place].arms):  # a whole group has been closed
            self._tops = self._ask(left)
        return next(int(arm) for arm in self._tops[place].arms if left[arm] > 0)

    def again(self, left: Allowance) -> int:
        """The same for the last function, after its arm was excluded."""
        self._place -= 1
        return self.next(left)

    def _draw_more(self, left: Allowance) -> None:
        n = min(self._together, self._undrawn)
        self._undrawn -= n
        self._draws = draw_functions(self._posterior, self._prior, self._scale, n, self._rng)
        self._tops, self._place = self._ask(left), 0

    def _ask(self, left: Allowance) -> list[_Tops]:
        assert self._draws is not None
        n = len(self._draws)
        most = np.arange(1, n + 1) if self._once else np.ones(n, dtype=np.int64)
        over_pool, message = self._posterior.state.over_pool, self._draws.message()
        calls = [(message, left.within(*ends), most) for ends in over_pool.ranges]
        found = over_pool.map_each(_tops_in, calls)
        return [_Tops.joined(parts, int(k)) for parts, k in zip(zip(*found, strict=True), most, strict=True)]


@dataclass(frozen=True)
class _Tops:
    """The arms with the highest values of one function, in decreasing order; ties by index."""

    arms: Ints
    values: Floats

    @classmethod
    def joined(cls, parts: tuple[_Tops, ...], most: int) -> _Tops:
        arms = np.concatenate([part.arms for part in parts])
        values = np.concatenate([part.values for part in parts])
        order = np.lexsort((arms, -values))[:most]
        return cls(arms[order], values[order])


def _tops_in(shard: Shard, version: Version, draws: DrawMessage, may: OpenArms, most: Ints) -> list[_Tops]:
    """For each function, the highest `most` arms of one shard that may be chosen."""
    values = draw_values(shard, version, draws)
    if not may.all_open:
        values[:, ~may.flags(shard.n_arms)] = -np.inf
    return [_highest(shard, row, int(k)) for row, k in zip(values, most, strict=True)]


def _highest(shard: Shard, values: Floats, most: int) -> _Tops:
    if most == 1:
        places = np.array([np.argmax(values)])
    elif most < len(values):
        lowest = np.partition(values, len(values) - most)[len(values) - most]
        places = np.flatnonzero(values >= lowest)
    else:
        places = np.arange(len(values))
    places = places[values[places] > -np.inf]
    order = places[np.lexsort((places, -values[places]))][:most]
    return _Tops(order + shard.first, values[order])

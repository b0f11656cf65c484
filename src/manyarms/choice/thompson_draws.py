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
(`prior_draws.completed`): every marginal distribution is then exact for any feature map, and only the
covariances between arms depend on the map.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyarms.choice.prior_draws import CorrectedPrior, PriorDraw, completed, joined
from manyarms.embeddings import Embedding
from manyarms.posterior.posterior import Posterior
from manyarms.posterior.state import PosteriorState
from manyarms.support.validation import Floats, count


@dataclass(frozen=True)
class ResidualDraws:
    """n functions e: a prior draw, and its correction at the inducing arms."""

    prior: CorrectedPrior
    draw: PriorDraw

    def on_pool(self, state: PosteriorState) -> Floats:
        """e at every arm, n × A."""
        sampler, residual = self.prior.sampler, self.prior.residual
        values = sampler.forms(self.draw.weights)
        if len(residual.inducing):
            values -= state.forms(residual.correction @ self.draw.weights)
        should = state.pool_values.residual
        for row, key in zip(values, self.draw.keys, strict=True):
            row[:] = completed(row, residual.variance, should, sampler.noise(key))
        return values

    def at(self, points: Any, Z: Floats) -> Floats:
        """e at any points with rows Z of z, n × points; at the features of an arm, the same as `on_pool`."""
        sampler, residual = self.prior.sampler, self.prior.residual
        Q = sampler.feature_map.matrix(points)
        if len(residual.inducing):
            Q = Q - Z @ residual.correction
        has, explained = np.einsum("ij,ij->i", Q, Q), np.einsum("ij,ij->i", Z, Z)
        should = np.maximum(np.asarray(sampler.kernel.diag(points)) - explained, 0.0)
        values = (Q @ self.draw.weights).T
        rows = [
            completed(row, has, should, sampler.noise_at(points, key))
            for row, key in zip(values, self.draw.keys, strict=True)
        ]
        return np.array(rows)


@dataclass(frozen=True)
class FunctionDraws:
    """n functions drawn from a posterior: `values` on the pool (n × A), and callable at any points."""

    values: Floats
    scale: float  # α
    weights: Floats  # θ, m × n
    embedding: Embedding
    residuals: ResidualDraws | None

    def __len__(self) -> int:
        return len(self.values)

    def __call__(self, points: Any) -> Floats:
        """The values of the functions at any feature rows, in the pool or not: n × points."""
        Z = self.embedding.matrix(points)
        values = np.asarray((Z @ self.weights).T)
        return values if self.residuals is None else values + self.scale * self.residuals.at(points, Z)


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
    values = state.forms(weights)
    if prior is None:
        return FunctionDraws(values, scale, weights, posterior.embedding(), None)
    residuals = ResidualDraws(prior, joined(prior_draws))
    return FunctionDraws(
        values + scale * residuals.on_pool(state), scale, weights, posterior.embedding(), residuals
    )


def draws_in_turn(
    posterior: Posterior, prior: CorrectedPrior | None, scale: float, n: int, rng: np.random.Generator
) -> Iterator[Floats]:
    """The same n functions on the pool, one row at a time; as many are drawn at once as fit into memory."""
    together = max(1, posterior.pool.max_memory // (32 * posterior.pool.n_arms))
    for start in range(0, n, together):
        yield from draw_functions(posterior, prior, scale, min(together, n - start), rng).values

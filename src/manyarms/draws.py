"""Thompson draws: whole functions from the sparse posterior, each a prior draw plus its correction.

With inducing arms Z, L Lᵀ = K_ZZ and z(x) = L⁻¹k_Z(x), rule (6) of S-GP-TS in the corrected form of
spec §4 reads, after L is multiplied out (S_u = τ L V⁻¹ Lᵀ, m_u = L V⁻¹ b),

    f̃(x) = α g(x) + z(x)ᵀθ,     θ = V⁻¹b + α ( √τ V^{−½} ε − L⁻¹ g(Z) ),    ε ~ N(0, I).

Its mean is μ̃ and its covariance α² times that of the sparse posterior, the residual carried by g. Rule
(7), inducing features, has no points to correct g at: g then holds only the eigenfunctions *behind* the m
in z, the others' weights being drawn from the posterior; random features are the case without any g. So
one formula serves all, and a draw over the pool costs one pass over the columns of z and of the prior.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyarms.embeddings import Embedding
from manyarms.linalg import forward
from manyarms.posterior import Posterior
from manyarms.priors import Prior, PriorDraw, joined
from manyarms.state import PosteriorState
from manyarms.validation import Floats, count


@dataclass(frozen=True)
class Draws:
    """n functions drawn from a posterior. `values` holds them on the pool (n × A); call them anywhere."""

    values: Floats
    scale: float  # α
    weights: Floats  # θ, m × n
    embedding: Embedding
    prior: Prior | None
    prior_draw: PriorDraw | None

    def __len__(self) -> int:
        return len(self.values)

    def __call__(self, points: Any) -> Floats:
        """The functions at any points, n × points: arms of the pool or others."""
        values = np.asarray((self.embedding.matrix(points) @ self.weights).T)
        if self.prior is not None and self.prior_draw is not None:
            values = values + self.scale * self.prior.at(self.prior_draw, points)
        return values


def draw_functions(
    posterior: Posterior,
    prior: Prior | None,
    scale: float,
    n: int,
    rng: np.random.Generator,
    state: PosteriorState | None = None,
) -> Draws:
    """n independent draws, their standard deviations `scale` (α) times the posterior's.

    Each draw takes its random numbers one after the other from `rng`, so n draws are n times one draw.
    `state` is one that the posterior could go to; without it, the present one.
    """
    count("n", n)
    state = posterior.state if state is None else state
    embedding = posterior.embedding(state)
    noise, prior_draws = np.empty((state.width, n)), []
    for i in range(n):
        if prior is not None:
            prior_draws.append(prior.draw(rng))
        noise[:, i] = rng.standard_normal(state.width)
    spread = math.sqrt(state.ridge) * (state.weights.precision.root() @ noise)
    weights = state.weights.vector[:, None] + scale * spread
    if prior is None:
        return Draws(state.forms(weights), scale, weights, embedding, None, None)
    draw = joined(prior_draws)
    values = prior.on_pool(draw)
    if len(state.inducing):
        factor = np.tril(state.columns.rows(state.inducing, state.width))
        weights = weights - scale * forward(factor, values[:, state.inducing].T)
    values *= scale
    values += state.forms(weights)
    return Draws(values, scale, weights, embedding, prior, draw)


def draws_in_turn(
    posterior: Posterior, prior: Prior | None, scale: float, n: int, rng: np.random.Generator
) -> Iterator[Floats]:
    """The same n functions on the pool, one row after the other, as many at once as memory allows."""
    together = max(1, posterior.pool.max_memory // (32 * posterior.pool.n_arms))
    for start in range(0, n, together):
        yield from draw_functions(posterior, prior, scale, min(together, n - start), rng).values

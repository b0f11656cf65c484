"""The posterior over a whole pool, kept up to date step by step: one process, and its state now."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from manyarms.embeddings import Embedding
from manyarms.errors import InvalidParameterError
from manyarms.kernels import KernelLike
from manyarms.pool.pool import Pool
from manyarms.posterior.history import grouped
from manyarms.posterior.sparse_gp import SparseGP
from manyarms.posterior.state import PosteriorState
from manyarms.support.validation import Floats, Ints, arm_indices, finite_rewards


class Posterior:
    """A sparse Gaussian process on a pool and what it has learned so far.

    It starts with an empty sketch (mean 0, leverage k/λ). `update` appends inducing arms and conditions
    on pulls together, in one pass over the pool. Every method checks its input, computes the next state and
    replaces `state` in one assignment, so a call that fails, or is interrupted, leaves the posterior as it
    was. The formulas are in `sparse_gp.py`.

    `residual=False` drops the first term of the leverage: the subset of regressors (SoR), which grows
    overconfident away from its inducing arms. It is here to be compared with, not to be used.

    `storage="float32"` halves the memory of the columns. The variance is then within 1e-5 of the prior
    variance k, and the mean within 1e-4·(1 + k/λ)·max|reward|, of the values in double precision on the
    same inducing arms; among near-duplicate arms the variance is within 1e-3 of k. A smooth kernel on one
    or two features, whose inducing arms are nearly dependent, loses more, up to 3e-2 of k: use float64
    there (tests/agreement/test_single_precision.py).

    `feature_map`, an embedding that needs no inducing arms (eigenfunctions, Fourier features, a
    projection), takes the place of the Nyström sketch; there is then nothing to append.
    """

    def __init__(
        self,
        pool: Pool,
        kernel: KernelLike,
        ridge: float,
        *,
        storage: DTypeLike = np.float64,
        residual: bool = True,
        feature_map: Embedding | None = None,
    ) -> None:
        self.process = SparseGP(
            pool, kernel, ridge, storage=storage, residual=residual, feature_map=feature_map
        )
        self.state = self.process.empty()

    @classmethod
    def of(cls, process: SparseGP, state: PosteriorState) -> Posterior:
        """A process at one of its states."""
        posterior = cls.__new__(cls)
        posterior.process, posterior.state = process, state
        return posterior

    # ------------------------------------------------------------------ reading

    @property
    def pool(self) -> Pool:
        """The arms, with the features that the kernel takes."""
        return self.process.pool

    @property
    def kernel(self) -> KernelLike:
        """The covariance."""
        return self.process.kernel

    @property
    def ridge(self) -> float:
        """λ, the noise variance."""
        return self.process.ridge

    @property
    def storage(self) -> np.dtype[Any]:
        """The type in which the columns are stored."""
        return self.process.storage

    @property
    def feature_map(self) -> Embedding | None:
        """The fixed embedding, or None for a sketch on inducing arms."""
        return self.process.feature_map

    @property
    def mean(self) -> Floats:
        """μ̃ of every arm."""
        return self.state.mean

    @property
    def leverage(self) -> Floats:
        """σ̃² of every arm, ridge-leverage scale."""
        return self.state.leverage

    @property
    def variance(self) -> Floats:
        """λσ̃² of every arm, squared reward units."""
        return self.state.variance

    @property
    def inducing(self) -> Ints:
        """The arms that span the sketch."""
        return self.state.inducing

    def rows(self, arms: ArrayLike) -> Floats:
        """z(x) of some arms, in double precision."""
        return self.state.rows(np.asarray(arms))

    def embedding(self) -> Embedding:
        """z as a function of features, also for points outside the pool."""
        return self.process.embedding(self.state)

    def at(self, features: Any) -> tuple[Floats, Floats]:
        """Mean and variance (squared reward units) at any points, in the pool or not."""
        return self.process.at(self.state, features)

    def forms(self, vectors: Floats) -> Floats:
        """vᵀz(x) of every arm for each column v of an m × r matrix: an r × A array, in one pass."""
        return self.state.forms(vectors)

    # ------------------------------------------------------------------ changing

    def condition(self, arms: ArrayLike, rewards: ArrayLike) -> None:
        """Condition on the rewards of pulled arms; an arm may appear any number of times."""
        self.update(arms=arms, rewards=rewards)

    def append(self, inducing: ArrayLike) -> None:
        """Add inducing arms; those already in the span are skipped."""
        self.update(inducing=inducing)

    def update(self, inducing: ArrayLike = (), arms: ArrayLike = (), rewards: ArrayLike = ()) -> None:
        """Append inducing arms, then condition on pulls: one pass over the pool for both."""
        self.state = self.updated(inducing, arms, rewards)

    def updated(
        self, inducing: ArrayLike = (), arms: ArrayLike = (), rewards: ArrayLike = ()
    ) -> PosteriorState:
        """The state after `update`; the posterior is not modified."""
        return self.process.advanced(self.state, *self._checked(inducing, arms, rewards))

    def refit(self, arms: ArrayLike, sums: ArrayLike) -> None:
        """Replace the reward sums of arms pulled before; counts and variances stay. One pass for the mean."""
        chosen = arm_indices(arms, self.pool.n_arms)
        values = finite_rewards(sums, len(chosen))
        places = self.state.places(chosen)
        if (places < 0).any():
            raise InvalidParameterError("arms", int(chosen[places < 0][0]), "an arm that was pulled before")
        self.state = self.process.refitted(self.state, places, values)

    def rebuild(self, inducing: ArrayLike, arms: ArrayLike = (), rewards: ArrayLike = ()) -> None:
        """Build the sketch anew on these arms (compaction), keeping all pulls and adding more. O(A·m²)."""
        self.state = self.rebuilt(inducing, arms, rewards)

    def rebuilt(self, inducing: ArrayLike, arms: ArrayLike = (), rewards: ArrayLike = ()) -> PosteriorState:
        """The state after `rebuild`; the posterior is not modified."""
        return self.process.rebuilt(self.state, *self._checked(inducing, arms, rewards))

    def extend(self, pool: Pool) -> None:
        """Go on with a pool that has more arms behind the present ones (`Pool.extended`)."""
        process = self.process.on(pool)
        self.process, self.state = process, process.extended(self.state, self.pool.n_arms)

    def _checked(
        self, inducing: ArrayLike, arms: ArrayLike, rewards: ArrayLike
    ) -> tuple[Ints, Ints, Floats, Floats]:
        wanted = _unique(arm_indices(inducing, self.pool.n_arms))
        if len(wanted) and self.feature_map is not None:
            raise InvalidParameterError("inducing", wanted.tolist(), "empty: the features are fixed")
        pulled = arm_indices(arms, self.pool.n_arms)
        return wanted, *grouped(pulled, finite_rewards(rewards, len(pulled)))


def _unique(arms: Ints) -> Ints:
    """Without repetition, in order of appearance."""
    if len(arms) < 2:
        return arms
    return arms[np.sort(np.unique(arms, return_index=True)[1])]

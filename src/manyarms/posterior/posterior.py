"""The posterior over a whole pool, updated step by step: a Gaussian process and its current state."""

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
    """A sparse Gaussian process on a pool, conditioned on the pulls so far.

    It starts with an empty sketch (mean 0, leverage k/λ). `update` appends inducing arms and conditions
    on pulls together, in one pass over the pool. Every method checks its input, computes the next state and
    replaces `state` in one assignment, so a call that fails or is interrupted leaves the posterior as it
    was. The formulas are in `sparse_gp.py`.

    `pool` holds the arms, `kernel` is the covariance function (a kernel of this package, or any object with
    `matrix` and `diag`), and `ridge` is λ, the noise variance in squared reward units.

    `storage="float32"` halves the memory of the columns of z. The variance then agrees with double precision
    on the same inducing arms to 1e-5 of the prior variance k, and the mean to 1e-4·(1 + k/λ)·max|reward|;
    among near-duplicate arms the variance agrees to 1e-3 of k. With a smooth kernel on one or two features,
    the inducing arms are nearly dependent and the error can reach 3e-2 of k: use float64 there
    (tests/agreement/test_single_precision.py).

    `residual=False` drops the first term of the leverage. This is the subset of regressors (SoR), which
    becomes overconfident away from its inducing arms. It is provided for comparison only.

    `feature_map` is an embedding that needs no inducing arms (eigenfunctions, Fourier features, a
    projection). It replaces the Nyström sketch, and no inducing arms can then be appended.
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
        """The posterior that consists of this process and one of its states."""
        posterior = cls.__new__(cls)
        posterior.process, posterior.state = process, state
        return posterior

    # ------------------------------------------------------------------ reading

    @property
    def pool(self) -> Pool:
        """The arms, with the features that the kernel is evaluated on."""
        return self.process.pool

    @property
    def kernel(self) -> KernelLike:
        """The covariance function."""
        return self.process.kernel

    @property
    def ridge(self) -> float:
        """λ, the noise variance."""
        return self.process.ridge

    @property
    def storage(self) -> np.dtype[Any]:
        """The floating-point type of the stored columns of z."""
        return self.process.storage

    @property
    def feature_map(self) -> Embedding | None:
        """The fixed embedding, or None for a sketch on inducing arms."""
        return self.process.feature_map

    @property
    def mean(self) -> Floats:
        """μ̃ of every arm, in reward units."""
        return self.state.mean

    @property
    def leverage(self) -> Floats:
        """σ̃² of every arm on the ridge-leverage scale (variance/λ)."""
        return self.state.leverage

    @property
    def variance(self) -> Floats:
        """λσ̃² of every arm, in squared reward units."""
        return self.state.variance

    @property
    def inducing(self) -> Ints:
        """The indices of the arms that span the sketch."""
        return self.state.inducing

    def rows(self, arms: ArrayLike) -> Floats:
        """z(x) of these arms in double precision, len(arms) × m."""
        return self.state.rows(np.asarray(arms))

    def embedding(self) -> Embedding:
        """z as a function of the features, also at points outside the pool."""
        return self.process.embedding(self.state)

    def at(self, features: Any) -> tuple[Floats, Floats]:
        """Mean and variance (squared reward units) at these feature rows, in the pool or not."""
        return self.process.at(self.state, features)

    def forms(self, vectors: Floats) -> Floats:
        """vᵀz(x) of every arm for each column v of the m × r matrix `vectors`: r × A, in one pass."""
        return self.state.forms(vectors)

    # ------------------------------------------------------------------ updating

    def condition(self, arms: ArrayLike, rewards: ArrayLike) -> None:
        """Condition on one reward for each of these arm indices; an arm may appear any number of times."""
        self.update(arms=arms, rewards=rewards)

    def append(self, inducing: ArrayLike) -> None:
        """Add inducing arms (indices); arms already in the span of the sketch are skipped."""
        self.update(inducing=inducing)

    def update(self, inducing: ArrayLike = (), arms: ArrayLike = (), rewards: ArrayLike = ()) -> None:
        """Append inducing arms, then condition on pulls, in one pass over the pool for both.

        `inducing` and `arms` are arm indices; `rewards` has one entry for each of `arms`.
        """
        self.state = self.updated(inducing, arms, rewards)

    def updated(
        self, inducing: ArrayLike = (), arms: ArrayLike = (), rewards: ArrayLike = ()
    ) -> PosteriorState:
        """The state after `update` with the same arguments; the posterior is not modified."""
        return self.process.advanced(self.state, *self._checked(inducing, arms, rewards))

    def refit(self, arms: ArrayLike, sums: ArrayLike) -> None:
        """Replace the reward sums of arms that were pulled before; counts and variances do not change.

        `sums` has one entry for each of `arms`. The cost is one pass over the pool for the mean.
        """
        chosen = arm_indices(arms, self.pool.n_arms)
        values = finite_rewards(sums, len(chosen))
        places = self.state.places(chosen)
        if (places < 0).any():
            raise InvalidParameterError("arms", int(chosen[places < 0][0]), "an arm that was pulled before")
        self.state = self.process.refitted(self.state, places, values)

    def rebuild(self, inducing: ArrayLike, arms: ArrayLike = (), rewards: ArrayLike = ()) -> None:
        """Rebuild the sketch on these inducing arms (compaction), keep all pulls and condition on more.

        The arguments are those of `update`. The cost is O(A·m²).
        """
        self.state = self.rebuilt(inducing, arms, rewards)

    def rebuilt(self, inducing: ArrayLike, arms: ArrayLike = (), rewards: ArrayLike = ()) -> PosteriorState:
        """The state after `rebuild` with the same arguments; the posterior is not modified."""
        return self.process.rebuilt(self.state, *self._checked(inducing, arms, rewards))

    def extend(self, pool: Pool) -> None:
        """Continue on a larger pool that begins with the present arms (`Pool.extended`)."""
        process = self.process.on(pool)
        self.process, self.state = process, process.extended(self.state, self.pool.n_arms)

    def _checked(
        self, inducing: ArrayLike, arms: ArrayLike, rewards: ArrayLike
    ) -> tuple[Ints, Ints, Floats, Floats]:
        wanted = _unique(arm_indices(inducing, self.pool.n_arms))
        if len(wanted) and self.feature_map is not None:
            raise InvalidParameterError("inducing", wanted.tolist(), "empty: the feature map is fixed")
        pulled = arm_indices(arms, self.pool.n_arms)
        return wanted, *grouped(pulled, finite_rewards(rewards, len(pulled)))


def _unique(arms: Ints) -> Ints:
    """The arms without repetition, in order of appearance."""
    if len(arms) < 2:
        return arms
    return arms[np.sort(np.unique(arms, return_index=True)[1])]

"""What a policy is: the settings of one algorithm, and which shared parts it is put together from."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from numbers import Number
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike

from manyarms.choice.prior_draws import PriorSampler
from manyarms.choice.selection import SelectionRule, UpperBounds
from manyarms.choice.stopping import EveryStep, StoppingRule
from manyarms.choice.widths import Assumptions, Width, width_named
from manyarms.embeddings import Embedding
from manyarms.errors import InvalidKernelError, InvalidParameterError
from manyarms.kernels import KernelLike, as_kernel
from manyarms.pool.pool import Pool
from manyarms.posterior.sparse_gp import SparseGP
from manyarms.sketch.inducing import AllPulled, IncrementalLeverage, InducingRule, LeverageScores
from manyarms.support.frozen import replace_field
from manyarms.support.validation import at_least_one, non_negative, positive, probability


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Settings common to all algorithms. A subclass answers the four questions of ARCHITECTURE.md.

    kernel "auto" has the run learn kernel, noise and mean from the results (`manyarms.learning`); noise_std
    and ridge are then left out. With a kernel given, noise_std defaults to 0.1 and ridge λ to noise_std²,
    the right value when the noise is known. norm_bound F bounds the RKHS norm of the reward function;
    `"double"` starts at 1 and doubles when a reward contradicts it. width is β by name
    (`manyarms.choice.widths`), or a number of posterior standard deviations; "auto" is the policy's theorem
    where the kernel is given, and a number that serves in practice (`practical`) where it is learned.
    """

    kernel: KernelLike | str = "auto"
    noise_std: float | None = None
    ridge: float | None = None
    norm_bound: float | str = 1.0
    delta: float = 1e-3
    width: str | float = "auto"

    theorem: ClassVar[str] = "exact"
    practical: ClassVar[float] = 1.5  # why: docs/measurements.md
    width_aliases: ClassVar[dict[str, str]] = {"authors": "authors-bkb"}
    keeps_residual: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for setting in fields(self):
            value = getattr(self, setting.name)
            if isinstance(value, Number) and not isinstance(value, bool | int | float):
                replace_field(self, setting.name, plain_number(value))
        if isinstance(self.kernel, str):
            self._check_learned()
        else:
            replace_field(self, "kernel", as_kernel(self.kernel))
            self._settle_noise()
        if isinstance(self.norm_bound, str):
            if self.norm_bound != "double":
                raise InvalidParameterError("norm_bound", self.norm_bound, "a positive number or 'double'")
        else:
            positive("norm_bound", self.norm_bound)
        probability("delta", self.delta)
        self.width_function()
        self.stopping_rule()
        self.inducing_rule()
        self.selection_rule()

    def _check_learned(self) -> None:
        if self.kernel != "auto":
            raise InvalidKernelError(f"kernel must be a kernel such as RBF() or 'auto', got {self.kernel!r}")
        for name in ("noise_std", "ridge"):
            if getattr(self, name) is not None:
                rule = "left out with kernel='auto', which learns it; or give a kernel as well"
                raise InvalidParameterError(name, getattr(self, name), rule)

    def _settle_noise(self) -> None:
        noise = non_negative("noise_std", 0.1 if self.noise_std is None else self.noise_std)
        replace_field(self, "noise_std", noise)
        if self.ridge is None:
            if noise == 0:
                raise InvalidParameterError("ridge", None, "given when noise_std is 0")
            replace_field(self, "ridge", noise**2)
        positive("ridge", self.ridge)

    # ---- the four questions

    def inducing_rule(self) -> InducingRule:
        """Which pulled arms span the sketch."""
        return AllPulled()

    def selection_rule(self) -> SelectionRule:
        """Which arm next."""
        return UpperBounds()

    def stopping_rule(self) -> StoppingRule:
        """When feedback is used and the sketch renewed."""
        return EveryStep()

    def width_function(self) -> Width:
        """β."""
        return width_named(self.width, {"auto": self.theorem, **self.width_aliases})

    # ---- what stands for the history, on a given pool

    def on(self, pool: Pool) -> Policy:
        """The policy with whatever it takes from the pool filled in; an error where the two do not fit."""
        return self

    def with_model(self, kernel: KernelLike, noise_std: float) -> Policy:
        """The policy with a learned kernel and noise; unless a width was named, the practical one."""
        width = self.practical if self.width == "auto" else self.width
        return replace(self, kernel=kernel, noise_std=noise_std, ridge=noise_std**2, width=width)

    @property
    def covariance(self) -> KernelLike:
        """The kernel, of a policy that has one."""
        assert not isinstance(self.kernel, str), "a learned kernel has been filled in by now"
        return self.kernel

    def feature_map(self, pool: Pool, rng: np.random.Generator) -> Embedding | None:
        """A feature map fixed for the whole run, or None for a sketch on inducing arms."""
        return None

    def process(self, pool: Pool, rng: np.random.Generator, storage: DTypeLike = np.float64) -> SparseGP:
        """The Gaussian process over the pool."""
        assert self.ridge is not None
        return SparseGP(
            pool, self.covariance, self.ridge, storage=storage, residual=self.keeps_residual,
            feature_map=self.feature_map(pool, rng),
        )  # fmt: skip

    def prior(
        self, pool: Pool, rng: np.random.Generator, storage: DTypeLike = np.float64
    ) -> PriorSampler | None:
        """What Thompson draws start from, where the posterior's own features do not say it all."""
        return None

    # ---- derived

    @property
    def ratio_bound(self) -> float:
        """C̃, by how much variances may shrink inside a batch before β must be widened."""
        return 1.0

    @property
    def sketch_limit(self) -> float:
        """How many times a fresh draw the sketch may hold before it is started over."""
        return math.inf

    def assumptions(self, norm_bound: float) -> Assumptions:
        """What the width takes for granted."""
        assert self.ridge is not None
        assert self.noise_std is not None
        return Assumptions(self.ridge, self.noise_std, norm_bound, self.delta, batch_ratio=self.ratio_bound)


def plain_number(value: Any) -> float | int:
    """A number of another library (numpy's float32, a Fraction) as Python's own, as a saved run holds it."""
    return value.item() if hasattr(value, "item") else float(value)


@dataclass(frozen=True, kw_only=True)
class Sparse(Policy):
    """Settings of policies whose sketch is drawn by ridge leverage scores.

    oversampling q̄ multiplies inclusion probabilities. inducing is "fresh" (new coins at each renewal, as
    in the papers), "union" (the n draws of an arm pulled n times, united) or "incremental" (old points
    kept with p_{t+1}/p_t, unproven). Points of earlier draws stay until the sketch is more than
    `compaction` times a fresh draw: a larger span is still accurate (theory §2.3). 1 keeps fresh draws only.
    """

    oversampling: float = 2.0
    inducing: str = "fresh"
    compaction: float = 4.0

    def __post_init__(self) -> None:
        at_least_one("compaction", self.compaction)
        super().__post_init__()

    def inducing_rule(self) -> InducingRule:
        """Ridge leverage scores."""
        if self.inducing == "fresh":
            return LeverageScores(self.oversampling, "one")
        if self.inducing == "union":
            return LeverageScores(self.oversampling, "union")
        if self.inducing == "incremental":
            return IncrementalLeverage(self.oversampling)
        raise InvalidParameterError("inducing", self.inducing, "'fresh', 'union' or 'incremental'")

    @property
    def sketch_limit(self) -> float:
        """The compaction factor."""
        return float(self.compaction)

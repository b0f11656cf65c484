"""The base class of policies: the settings of an algorithm, and the shared rules that it combines."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import lru_cache
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
from manyarms.sketch.at_most import AtMost
from manyarms.sketch.inducing import (
    AllPulled,
    IncrementalLeverage,
    InducingRule,
    LeverageScores,
    TheoreticalOversampling,
    oversampling_at,
)
from manyarms.support.frozen import replace_field
from manyarms.support.validation import at_least_one, count, non_negative, positive, probability


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Settings common to all algorithms. A subclass answers the four questions of ARCHITECTURE.md.

    kernel: the covariance function. With "auto", the run learns kernel, noise and mean from the results
        (`manyarms.learning`); noise_std and ridge must then be left out.
    noise_std: the standard deviation of the noise, in reward units; 0.1 by default if a kernel is given.
    ridge: λ; by default noise_std², which is the right value if the noise is known.
    norm_bound: F, a bound on the RKHS norm of the reward function. "double" starts at 1 and doubles F
        whenever a reward contradicts it. A guess that no reward has contradicted yet may still be too small,
        so nothing is guaranteed with it (theory §4.9).
    delta: δ, the probability with which the confidence bounds may fail.
    width: β, as a name of `manyarms.choice.widths` or as a number of posterior standard deviations. "auto" is
        the width of a theorem if the kernel is given ("certified" on a sketch), and a number that works well
        in practice (`practical`) if it is learned.
    """

    kernel: KernelLike | str = "auto"
    noise_std: float | None = None
    ridge: float | None = None
    norm_bound: float | str = 1.0
    delta: float = 1e-3
    width: str | float = "auto"

    theorem: ClassVar[str] = "exact"
    practical: ClassVar[float] = 1.5  # chosen in docs/measurements.md
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
            self._fill_in_noise()
        if isinstance(self.norm_bound, str):
            if self.norm_bound != "double":
                raise InvalidParameterError("norm_bound", self.norm_bound, "a positive number or 'double'")
        else:
            positive("norm_bound", self.norm_bound)
        probability("delta", self.delta)
        self.width_function()
        self._check_proof()
        self.stopping_rule()
        self.inducing_rule()
        self.selection_rule()

    def _check_proof(self) -> None:
        if self.width == "certified" and self.proved_width != "certified":
            rule = f"another width: that of {type(self).__name__} is not covered by the proof (theory §4.10)"
            raise InvalidParameterError("width", self.width, rule)

    def _check_learned(self) -> None:
        if self.kernel != "auto":
            raise InvalidKernelError(f"kernel must be a kernel such as RBF() or 'auto', got {self.kernel!r}")
        for name in ("noise_std", "ridge"):
            if getattr(self, name) is not None:
                rule = "left out with kernel='auto', which learns it (or give a kernel as well)"
                raise InvalidParameterError(name, getattr(self, name), rule)

    def _fill_in_noise(self) -> None:
        noise = non_negative("noise_std", 0.1 if self.noise_std is None else self.noise_std)
        replace_field(self, "noise_std", noise)
        if self.ridge is None:
            if noise == 0:
                raise InvalidParameterError("ridge", None, "given when noise_std is 0")
            replace_field(self, "ridge", noise**2)
        positive("ridge", self.ridge)

    # ---- the four questions

    def inducing_rule(self) -> InducingRule:
        """The rule that draws inducing arms from the arms pulled."""
        return AllPulled()

    def selection_rule(self) -> SelectionRule:
        """The rule that chooses the arms of a batch."""
        return UpperBounds()

    def stopping_rule(self) -> StoppingRule:
        """The rule that ends a batch, after which feedback is used and the sketch is renewed."""
        return EveryStep()

    def width_function(self) -> Width:
        """The width β as a function of the run so far and of the assumptions."""
        return width_named(self.width, {"auto": self.theorem, **self.width_aliases})

    @property
    def proved_width(self) -> str | None:
        """The width whose bounds on f are proved to hold at every feedback; None if there is none.

        "certified" covers the exact posterior and every projection on inducing arms with the residual in the
        variance (theory §4.10), but no other feature map.
        """
        projected = type(self).feature_map is Policy.feature_map and self.keeps_residual
        return "certified" if projected else None

    # ---- the model on a given pool

    def on(self, pool: Pool) -> Policy:
        """The policy with settings that depend on the pool filled in; an error if the pool is unsuitable."""
        return self

    def with_model(self, kernel: KernelLike, noise_std: float) -> Policy:
        """The policy with a learned kernel and noise, and with the practical width if width is "auto"."""
        width = self.practical if self.width == "auto" else self.width
        return replace(self, kernel=kernel, noise_std=noise_std, ridge=noise_std**2, width=width)

    @property
    def covariance(self) -> KernelLike:
        """The kernel of a policy whose kernel is given or has been learned."""
        assert not isinstance(self.kernel, str), "a learned kernel must have been filled in"
        return self.kernel

    def feature_map(self, pool: Pool, rng: np.random.Generator) -> Embedding | None:
        """The feature map that is fixed for the whole run, or None for a sketch on inducing arms."""
        return None

    def process(self, pool: Pool, rng: np.random.Generator, storage: DTypeLike = np.float64) -> SparseGP:
        """The Gaussian process over the pool; `rng` draws random feature maps, `storage` is the type of z."""
        assert self.ridge is not None
        return SparseGP(
            pool, self.covariance, self.ridge, storage=storage, residual=self.keeps_residual,
            feature_map=self.feature_map(pool, rng),
        )  # fmt: skip

    def prior(
        self, pool: Pool, rng: np.random.Generator, storage: DTypeLike = np.float64
    ) -> PriorSampler | None:
        """The prior of Thompson draws; None if the posterior's feature map is enough or nothing is drawn."""
        return None

    # ---- derived

    @property
    def ratio_bound(self) -> float:
        """C̃, the factor by which variances may shrink within a batch before β must be widened."""
        return 1.0

    @property
    def sketch_limit(self) -> float:
        """The largest size of the sketch relative to a fresh draw; a larger sketch is rebuilt."""
        return math.inf

    @property
    def sketch_bound(self) -> float:
        """The largest size of the sketch at all."""
        return math.inf

    def assumptions(self, norm_bound: float) -> Assumptions:
        """The assumptions of the width, for this norm bound."""
        assert self.ridge is not None
        assert self.noise_std is not None
        return _assumptions(self.ridge, self.noise_std, norm_bound, self.delta, self.ratio_bound)


@lru_cache(maxsize=64)
def _assumptions(
    ridge: float, noise_std: float, norm_bound: float, delta: float, batch_ratio: float
) -> Assumptions:
    """Checked once for each policy and norm bound, not at every step."""
    return Assumptions(ridge, noise_std, norm_bound, delta, batch_ratio=batch_ratio)


def plain_number(value: Any) -> float | int:
    """A number of another type (such as numpy.float32 or Fraction) as a Python number, which can be saved."""
    return value.item() if hasattr(value, "item") else float(value)


@dataclass(frozen=True, kw_only=True)
class Sparse(Policy):
    """Settings of policies whose sketch is drawn by ridge leverage scores.

    oversampling: q̄, which multiplies the inclusion probabilities. "theory" is 72 log(4t/δ) after t pulls, the
        value of BKB Theorem 1, which grows with the run; it is several hundred, and most arms are inducing.
    inducing: "fresh" (an independent draw at each renewal, as in the papers), "union" (the union of n draws
        for an arm pulled n times) or "incremental" (keep an inducing arm with p_{t+1}/p_t; without a proof).
    compaction: inducing arms of earlier draws stay in the sketch until its size is more than
        `compaction` times a fresh draw and rebuilding it pays: a larger span is still accurate (theory §2.3,
        §3.6). 1 keeps fresh draws only.
    max_inducing: the largest number of inducing arms drawn, which bounds the cost of a step; None: no limit.
        With fewer arms than the leverage scores ask for, confidence bounds still hold but are wider, and the
        bounds on the regret are not proved (theory §3.8).
    """

    oversampling: float | str = 2.0
    inducing: str = "fresh"
    compaction: float = 4.0
    max_inducing: int | None = None

    def __post_init__(self) -> None:
        at_least_one("compaction", self.compaction)
        if self.max_inducing is not None:
            count("max_inducing", self.max_inducing)
        super().__post_init__()

    def inducing_rule(self) -> InducingRule:
        """Ridge leverage scores, in the form that `inducing` names, and at most `max_inducing` arms."""
        rule = self._leverage_scores()
        return rule if self.max_inducing is None else AtMost(rule, self.max_inducing)

    def _leverage_scores(self) -> InducingRule:
        factor = self._oversampling()
        if self.inducing == "fresh":
            return LeverageScores(factor, "one")
        if self.inducing == "union":
            return LeverageScores(factor, "union")
        if self.inducing == "incremental":
            return IncrementalLeverage(factor)
        raise InvalidParameterError("inducing", self.inducing, "'fresh', 'union' or 'incremental'")

    def oversampling_at(self, pulls: int) -> float:
        """The number q̄ after this many pulls."""
        return oversampling_at(self._oversampling(), pulls)

    def _oversampling(self) -> float | TheoreticalOversampling:
        if not isinstance(self.oversampling, str):
            return self.oversampling
        if self.oversampling != "theory":
            raise InvalidParameterError("oversampling", self.oversampling, "a positive number or 'theory'")
        return TheoreticalOversampling(self.delta)

    @property
    def sketch_limit(self) -> float:
        """The compaction factor."""
        return float(self.compaction)

    @property
    def sketch_bound(self) -> float:
        """`max_inducing`, and the arms that join the sketch until it is drawn again."""
        return math.inf if self.max_inducing is None else AtMost.growth * self.max_inducing

"""Rules that draw the inducing arms S, which span the sketch, from the arms pulled so far.

For leverage scores, the theory requires q̄ ≥ 6α log(4T/δ)/ε² with α = (1+ε)/(1−ε) (BKB Theorem 1;
`theoretical_oversampling`), or the same with the present t for T (`TheoreticalOversampling`). In practice
q̄ = 2 is enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from manyarms.errors import InvalidParameterError
from manyarms.sketch.kdpp import independent_points, sample_chain, sample_exact
from manyarms.support.validation import Floats, Ints, at_least_one, count, positive, probability, share


@dataclass(frozen=True)
class Candidates:
    """The different arms pulled so far, their statistics before the coming update, and the last draw.

    `leverage` is σ̃² at the last feedback (BKB Algorithm 1 and BBKB l. 11–16 use variances from before the
    update). `inclusion` holds for each arm the probability with which it entered the last draw, 0 if it was
    not drawn, and −1 if it was pulled since then. `drawn_from` is the number of different arms that the last
    draw chose from. Only rules that use the previous draw read these two. `covariance()` returns the kernel
    matrix K of the arms. `results` holds the mean reward of each arm, for rules that prefer good arms.
    """

    arms: Ints
    counts: Floats
    leverage: Floats
    inclusion: Floats
    covariance: Callable[[], Floats]
    drawn_from: int = 0
    results: Floats | None = None


@dataclass(frozen=True)
class Draw:
    """The arms drawn and their inclusion probabilities; `kept` if the previous draw was kept."""

    arms: Ints
    probabilities: Floats
    kept: bool = False


class InducingRule(Protocol):
    """A rule that draws inducing arms."""

    def draw(self, candidates: Candidates, rng: np.random.Generator) -> Draw:
        """Draw a set of inducing arms; if it is empty, the caller keeps the previous set."""


def theoretical_oversampling(horizon: int, delta: float, epsilon: float = 0.5) -> float:
    """q̄ of BKB Theorem 1, 6α log(4T/δ)/ε²: 72 log(4T/δ) at ε = ½ (the 8 of BBKB Theorem 1 is a misprint)."""
    horizon, delta, epsilon = (
        count("horizon", horizon),
        probability("delta", delta),
        probability("epsilon", epsilon),
    )
    alpha = (1 + epsilon) / (1 - epsilon)
    return 6 * alpha * math.log(4 * horizon / delta) / epsilon**2


@dataclass(frozen=True)
class TheoreticalOversampling:
    """q̄ of BKB Theorem 1 for the present number of pulls, so that no horizon is needed (theory §3.2)."""

    delta: float
    epsilon: float = 0.5

    def at(self, pulls: float) -> float:
        """q̄ for a draw after this many pulls."""
        return theoretical_oversampling(max(1, int(pulls)), self.delta, self.epsilon)


def oversampling_at(oversampling: float | TheoreticalOversampling, pulls: float) -> float:
    """The number q̄ for a draw after this many pulls."""
    return oversampling.at(pulls) if isinstance(oversampling, TheoreticalOversampling) else oversampling


def _check_oversampling(oversampling: float | TheoreticalOversampling) -> None:
    if not isinstance(oversampling, TheoreticalOversampling):
        positive("oversampling", oversampling)


@dataclass(frozen=True)
class AllPulled:
    """Every pulled arm is inducing, which gives the exact posterior (theory §3.1)."""

    def draw(self, candidates: Candidates, rng: np.random.Generator) -> Draw:
        """All arms, without randomness."""
        return Draw(candidates.arms, np.ones(len(candidates.arms)))


@dataclass(frozen=True)
class NoArms:
    """No inducing arms, because the feature map is fixed."""

    def draw(self, candidates: Candidates, rng: np.random.Generator) -> Draw:
        """No arms, without randomness."""
        return Draw(candidates.arms[:0], np.empty(0))


@dataclass(frozen=True)
class LeverageScores:
    """Ridge leverage scores (theory §3.2; BKB Algorithm 1, BBKB l. 11–16), drawn independently each time.

    `oversampling` is q̄, a number or a schedule. With draws="one", an arm pulled n times enters with
    p = min(1, n q̄ σ̃²), as in the authors' code. With draws="union", it enters with 1 − (1 − min(1, q̄σ̃²))ⁿ,
    the union of the n draws in the papers.
    """

    oversampling: float | TheoreticalOversampling = 2.0
    draws: Literal["one", "union"] = "one"

    def __post_init__(self) -> None:
        _check_oversampling(self.oversampling)
        if self.draws not in ("one", "union"):
            raise InvalidParameterError("draws", self.draws, "'one' or 'union'")

    def probabilities(self, counts: Floats, leverage: Floats) -> Floats:
        """The inclusion probability of each arm."""
        factor = oversampling_at(self.oversampling, counts.sum())
        if self.draws == "one":
            return np.minimum(1.0, counts * factor * leverage)
        return union_of_draws(np.minimum(1.0, factor * leverage), counts)

    def draw(self, candidates: Candidates, rng: np.random.Generator) -> Draw:
        """Include each different arm independently."""
        return _independent_draw(
            candidates.arms, self.probabilities(candidates.counts, candidates.leverage), rng
        )


@dataclass(frozen=True)
class IncrementalLeverage:
    """Keep an inducing arm with probability p_{t+1}/p_t; add a newly pulled arm with p (theory §3.3).

    The inducing set changes less than with independent draws, but there is no proof: whether the guarantee
    still holds is an open question of the BKB paper. See theory §3.3.
    """

    oversampling: float | TheoreticalOversampling = 2.0

    def __post_init__(self) -> None:
        _check_oversampling(self.oversampling)

    def draw(self, candidates: Candidates, rng: np.random.Generator) -> Draw:
        """Update the previous draw; a dropped arm can return only after it is pulled again."""
        factor = oversampling_at(self.oversampling, candidates.counts.sum())
        now = np.minimum(1.0, candidates.counts * factor * candidates.leverage)
        before = candidates.inclusion
        chance = np.where(before > 0, np.minimum(1.0, now / np.where(before > 0, before, 1.0)), 0.0)
        chance[before < 0] = now[before < 0]  # pulled since the last draw
        kept = rng.random(len(chance)) < chance
        probabilities = np.where(before > 0, np.minimum(now, before), now)
        return Draw(candidates.arms[kept], probabilities[kept])


@dataclass(frozen=True)
class UniformInclusion:
    """Every pull enters with probability p = `inclusion`, so n pulls with 1 − (1 − p)ⁿ (theory §3.4)."""

    inclusion: float

    def __post_init__(self) -> None:
        share("inclusion", self.inclusion)

    def draw(self, candidates: Candidates, rng: np.random.Generator) -> Draw:
        """Include each different arm independently."""
        each = np.full(len(candidates.arms), self.inclusion)
        return _independent_draw(candidates.arms, union_of_draws(each, candidates.counts), rng)


@dataclass(frozen=True)
class KDPP:
    """`size` pulled arms with probability ∝ det K_S (theory §3.5), or all arms if there are fewer.

    method="exact" needs an eigendecomposition of the pulled arms' covariance matrix; "chain" is a swap Markov
    chain from a greedy start; "auto" is exact up to 300 different arms and the chain beyond. The cost of both
    grows with the number of arms pulled, so a draw is kept until there are `growth` times as many arms to
    choose from; with growth=1.0 every update draws again, as in the paper. If the rank of the covariance
    matrix is below `size`, more points would not extend the span, and the number of arms drawn is the rank.
    See theory §3.5.
    """

    size: int
    method: Literal["auto", "exact", "chain"] = "auto"
    growth: float = 1.25

    def __post_init__(self) -> None:
        count("size", self.size)
        at_least_one("growth", self.growth)
        if self.method not in ("auto", "exact", "chain"):
            raise InvalidParameterError("method", self.method, "'auto', 'exact' or 'chain'")

    def draw(self, candidates: Candidates, rng: np.random.Generator) -> Draw:
        """Draw a diverse set of arms, or keep the previous draw."""
        n = len(candidates.arms)
        if n <= self.size:
            return Draw(candidates.arms, np.ones(n))
        drawn = candidates.inclusion > 0
        if self.size < candidates.drawn_from and n < self.growth * candidates.drawn_from:
            return Draw(candidates.arms[drawn], candidates.inclusion[drawn], kept=True)
        exact = self.method == "exact" or (self.method == "auto" and n <= 300)
        sampler, K = sample_exact if exact else sample_chain, candidates.covariance()
        size = min(self.size, independent_points(K))
        return Draw(candidates.arms[sampler(K, size, rng)], np.full(size, size / n))


def union_of_draws(each: Floats, counts: Floats) -> Floats:
    """1 − (1 − p)ⁿ, the probability that at least one of n draws succeeds; `each` holds p, `counts` n."""
    with np.errstate(divide="ignore"):
        return np.asarray(-np.expm1(counts * np.log1p(-each)))


def _independent_draw(arms: Ints, probabilities: Floats, rng: np.random.Generator) -> Draw:
    kept = rng.random(len(arms)) < probabilities
    return Draw(arms[kept], probabilities[kept])

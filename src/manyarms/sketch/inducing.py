"""Which arms span the sketch. Each rule draws, from the arms pulled so far, the inducing set S.

Theory asks leverage sampling for q̄ ≥ 6α log(4T/δ)/ε² with α = (1+ε)/(1−ε) (BKB Theorem 1;
`theoretical_oversampling`); in practice q̄ = 2 serves.
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
    """The different arms pulled so far, what is known of each before the coming update, and the last draw.

    `leverage` is σ̃² at the last feedback (BKB Algorithm 1, BBKB l. 11–16 use variances from before the
    update). `inclusion` holds, for each arm, the probability with which it entered the last draw, 0 if it
    was left out, and −1 if it was pulled since; only rules that look back read it, and `drawn_from`, how
    many different arms the last draw chose from. `covariance` gives K among the arms.
    """

    arms: Ints
    counts: Floats
    leverage: Floats
    inclusion: Floats
    covariance: Callable[[], Floats]
    drawn_from: int = 0


@dataclass(frozen=True)
class Draw:
    """The arms that were drawn, and the probability each had; `kept` when it is the last draw once more."""

    arms: Ints
    probabilities: Floats
    kept: bool = False


class InducingRule(Protocol):
    """Draws an inducing set."""

    def draw(self, candidates: Candidates, rng: np.random.Generator) -> Draw:
        """A fresh inducing set; may be empty, in which case the caller keeps the old one."""


def theoretical_oversampling(horizon: int, delta: float, epsilon: float = 0.5) -> float:
    """q̄ of BKB Theorem 1, 6α log(4T/δ)/ε²: 72 log(4T/δ) at ε = ½ (BBKB Theorem 1's 8 is a misprint)."""
    horizon, delta, epsilon = (
        count("horizon", horizon),
        probability("delta", delta),
        probability("epsilon", epsilon),
    )
    alpha = (1 + epsilon) / (1 - epsilon)
    return 6 * alpha * math.log(4 * horizon / delta) / epsilon**2


@dataclass(frozen=True)
class AllPulled:
    """Every pulled arm: the exact posterior (theory §3.1)."""

    def draw(self, candidates: Candidates, rng: np.random.Generator) -> Draw:
        """All of them, no coin tossed."""
        return Draw(candidates.arms, np.ones(len(candidates.arms)))


@dataclass(frozen=True)
class NoArms:
    """None: the features are fixed and span what they span."""

    def draw(self, candidates: Candidates, rng: np.random.Generator) -> Draw:
        """Nothing, no coin tossed."""
        return Draw(candidates.arms[:0], np.empty(0))


@dataclass(frozen=True)
class LeverageScores:
    """Ridge leverage scores (theory §3.2; BKB Algorithm 1, BBKB l. 11–16), fresh coins each time.

    draws="one": an arm pulled n times enters with p = min(1, n q̄ σ̃²), the authors' bound.
    draws="union": with 1 − (1 − min(1, q̄σ̃²))ⁿ, the union of the n draws the papers print.
    """

    oversampling: float = 2.0
    draws: Literal["one", "union"] = "one"

    def __post_init__(self) -> None:
        positive("oversampling", self.oversampling)
        if self.draws not in ("one", "union"):
            raise InvalidParameterError("draws", self.draws, "'one' or 'union'")

    def probabilities(self, counts: Floats, leverage: Floats) -> Floats:
        """Each arm's chance to enter."""
        if self.draws == "one":
            return np.minimum(1.0, counts * self.oversampling * leverage)
        return union_of_draws(np.minimum(1.0, self.oversampling * leverage), counts)

    def draw(self, candidates: Candidates, rng: np.random.Generator) -> Draw:
        """One coin per different arm."""
        return _toss(candidates.arms, self.probabilities(candidates.counts, candidates.leverage), rng)


@dataclass(frozen=True)
class IncrementalLeverage:
    """Keep a drawn arm with probability p_{t+1}/p_t, let a newly pulled one in with p (theory §3.3).

    Cheaper in coins and steadier than fresh draws, but unproven: whether it keeps the guarantee is the
    open question of the BKB paper.
    """

    oversampling: float = 2.0

    def __post_init__(self) -> None:
        positive("oversampling", self.oversampling)

    def draw(self, candidates: Candidates, rng: np.random.Generator) -> Draw:
        """An arm once dropped comes back only when it is pulled again."""
        now = np.minimum(1.0, candidates.counts * self.oversampling * candidates.leverage)
        before = candidates.inclusion
        chance = np.where(before > 0, np.minimum(1.0, now / np.where(before > 0, before, 1.0)), 0.0)
        chance[before < 0] = now[before < 0]  # pulled since the last draw
        kept = rng.random(len(chance)) < chance
        probabilities = np.where(before > 0, np.minimum(now, before), now)
        return Draw(candidates.arms[kept], probabilities[kept])


@dataclass(frozen=True)
class UniformInclusion:
    """Every pull enters with probability p, so an arm pulled n times with 1 − (1 − p)ⁿ (theory §3.4)."""

    inclusion: float

    def __post_init__(self) -> None:
        share("inclusion", self.inclusion)

    def draw(self, candidates: Candidates, rng: np.random.Generator) -> Draw:
        """One coin per different arm."""
        each = np.full(len(candidates.arms), self.inclusion)
        return _toss(candidates.arms, union_of_draws(each, candidates.counts), rng)


@dataclass(frozen=True)
class KDPP:
    """`size` pulled arms with probability ∝ det K_S (theory §3.5); all arms while there are fewer.

    method="exact" costs an eigendecomposition of the pulled arms' covariance; "chain" is a swap chain
    from a greedy start; "auto" is exact up to 300 different arms and the chain beyond. Either costs more
    with every arm pulled, so a draw is kept until there are `growth` times as many arms to choose from;
    1.0 draws afresh each time, as printed. Where the arms' covariance has a rank below `size`, more points
    would add nothing to its span, and the draw has as many as the rank.
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
        """Diverse arms."""
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
    """1 − (1 − p)ⁿ, the chance that at least one of n draws succeeds."""
    with np.errstate(divide="ignore"):
        return np.asarray(-np.expm1(counts * np.log1p(-each)))


def _toss(arms: Ints, probabilities: Floats, rng: np.random.Generator) -> Draw:
    kept = rng.random(len(arms)) < probabilities
    return Draw(arms[kept], probabilities[kept])

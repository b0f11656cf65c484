"""When a batch ends and feedback is used. A rule is a value; each batch gets a meter of it.

A meter is told every pick and answers with None (go on) or with a named reason. The pick that breaks the
bound is the last of its batch (theory §6.1). `ratio` is how far, by this rule's bound, some arm's σ̃² may have
shrunk since the last feedback.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from manyarms.posterior.hallucination import Hallucination
from manyarms.posterior.posterior import Posterior
from manyarms.support.validation import Floats, at_least_one, count


@dataclass(frozen=True)
class Pick:
    """One arm just chosen, its σ̃² at the last feedback and its σ̃² right before this pick."""

    arm: int
    feedback_leverage: float
    current_leverage: float


class Meter(Protocol):
    """Follows one batch."""

    @property
    def ratio(self) -> float:
        """How far some σ̃² may have shrunk since the last feedback, by this rule's bound."""

    def add(self, pick: Pick) -> str | None:
        """Count a pick; a reason when the batch must end with it."""

    def count(self, pick: Pick) -> None:
        """Count a pick of a batch that does not end by this rule: nobody waits for the verdict."""


class StoppingRule(Protocol):
    """A rule by which batches end."""

    def meter(self, posterior: Posterior, overlay: Hallucination) -> Meter:
        """A fresh meter for one batch on this posterior."""


class _VarianceSum:
    """1 + Σ σ̃²_fb(x_s), by which every σ̃² may have shrunk (theory §2.5)."""

    def __init__(self) -> None:
        self.ratio = 1.0

    def count(self, pick: Pick) -> None:
        self.ratio += pick.feedback_leverage

    def add(self, pick: Pick) -> str | None:
        self.count(pick)
        return None


@dataclass(frozen=True)
class EveryStep:
    """Feedback after each pull: GP-UCB, BKB (theory §6.2)."""

    def meter(self, posterior: Posterior, overlay: Hallucination) -> Meter:
        """Ends with its first pick."""
        return _EveryStepMeter()


class _EveryStepMeter(_VarianceSum):
    def add(self, pick: Pick) -> str | None:
        super().add(pick)
        return "every step"


@dataclass(frozen=True)
class FixedSize:
    """Batches of a fixed size (Desautels et al.; theory §6.3)."""

    size: int

    def __post_init__(self) -> None:
        count("size", self.size)

    def meter(self, posterior: Posterior, overlay: Hallucination) -> Meter:
        """Counts the picks of this batch; pulls whose results are still out do not count."""
        return _FixedSizeMeter(self.size)


class _FixedSizeMeter(_VarianceSum):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.left = size

    def add(self, pick: Pick) -> str | None:
        super().add(pick)
        self.left -= 1
        return "fixed size" if self.left <= 0 else None


@dataclass(frozen=True)
class GlobalRatio:
    """BBKB: when 1 + Σ_s σ̃²_fb(x_s) > C̃ (theory §6.4; Alg. 1 l. 5 prints σ̃, the proofs use σ̃²)."""

    bound: float

    def __post_init__(self) -> None:
        at_least_one("bound", self.bound)

    def meter(self, posterior: Posterior, overlay: Hallucination) -> Meter:
        """Sums variances at the last feedback."""
        return _GlobalMeter(self.bound)


class _GlobalMeter(_VarianceSum):
    def __init__(self, bound: float) -> None:
        super().__init__()
        self.bound = bound

    def add(self, pick: Pick) -> str | None:
        super().add(pick)
        return "variance ratio" if self.ratio > self.bound else None


@dataclass(frozen=True)
class LocalRatio:
    """BBKB-local: past the global bound, go on until some arm's own ratio exceeds C̃ (theory §6.5).

    The ratio of arm i is 1 + Σ_s (z_iᵀV⁻¹z_s)² / σ̃²_fb(x_i) with V at the last feedback. The residual
    stays out of the covariance of two arms: with it, as in the authors' script, the bound fails for some.
    An arm's own pulls count with its whole σ̃²_fb(x_i), residual included. That can only end a batch
    sooner, so the bound holds; without it an arm the sketch does not see, whose hallucinated variance
    therefore hardly falls, would be pulled hundreds of times before its first reward is looked at.
    """

    bound: float

    def __post_init__(self) -> None:
        at_least_one("bound", self.bound)

    def meter(self, posterior: Posterior, overlay: Hallucination) -> Meter:
        """Global sum first, then one ratio per arm."""
        return _LocalMeter(self.bound, posterior, overlay)


class _LocalMeter:
    """Ratios are summed up only when their largest could have passed the bound, and somebody asks.

    A pick raises no ratio by more than its own largest share, so the sum of those is an upper limit. A run
    of picks of arms met before therefore costs O(1) each, and now and then one look at every arm. Picks that
    were only counted are met together, in one pass over the pool for many of them.
    """

    def __init__(self, bound: float, posterior: Posterior, overlay: Hallucination) -> None:
        self.bound, self._posterior, self._overlay = bound, posterior, overlay
        self._global = 1.0
        self._new: list[int] = []  # picks not yet in the limit: none is looked at below the global bound
        self._waiting: list[int] = []  # picks in the limit but not yet in the ratios
        self._shares: dict[int, tuple[Floats, float]] = {}  # by arm: what a pick adds, and the most of it
        self._ratios = np.ones(posterior.pool.n_arms)
        self._limit = 1.0  # no ratio is above it
        self._room = max(1, posterior.pool.max_memory // (8 * posterior.pool.n_arms))  # shares kept at a time

    def count(self, pick: Pick) -> None:
        self._global += pick.feedback_leverage
        self._new.append(pick.arm)

    def add(self, pick: Pick) -> str | None:
        self.count(pick)
        return "local variance ratio" if self.ratio > self.bound else None

    @property
    def ratio(self) -> float:
        if self._global <= self.bound:
            return self._global
        for start in range(0, len(self._new), self._room):
            arms = self._new[start : start + self._room]
            self._meet(arms)
            self._limit += sum(self._shares[arm][1] for arm in arms)
            self._waiting += arms
        self._new.clear()
        if self._waiting and self._limit > self.bound:
            self._sum_up()
        return self._limit

    def _sum_up(self) -> None:
        for arm, times in Counter(self._waiting).items():
            self._ratios += times * self._shares[arm][0]
        self._waiting.clear()
        self._limit = float(self._ratios.max())

    def _meet(self, arms: list[int]) -> None:
        """Shares of the arms not met before, in one pass over the pool for all of them."""
        fresh = [arm for arm in dict.fromkeys(arms) if arm not in self._shares]
        if not fresh:
            return
        if len(self._shares) + len(fresh) > self._room:
            self._sum_up()
            self._shares.clear()
            fresh = list(dict.fromkeys(arms))
        solved = np.column_stack([self._overlay.at_feedback(arm) for arm in fresh])
        forms = self._posterior.forms(solved)
        leverage = np.maximum(self._posterior.leverage, np.finfo(float).tiny)
        for arm, form in zip(fresh, forms, strict=True):
            share = form * form / leverage
            share[arm] = leverage[arm]
            self._shares[arm] = share, float(share.max())


@dataclass(frozen=True)
class ProductRatio:
    """GP-BUCB in the form of BBKB §3: when Π_s (1 + σ²_fb(x_s)) > C̃ (theory §6.6)."""

    bound: float

    def __post_init__(self) -> None:
        at_least_one("bound", self.bound)

    def meter(self, posterior: Posterior, overlay: Hallucination) -> Meter:
        """Multiplies with variances at the last feedback."""
        return _ProductMeter(self.bound, current=False)


@dataclass(frozen=True)
class InformationGain:
    """GP-AUCB: when Π_s (1 + σ²_{s−1}(x_s)) > C̃, the information gain of the batch (theory §6.6)."""

    bound: float

    def __post_init__(self) -> None:
        at_least_one("bound", self.bound)

    def meter(self, posterior: Posterior, overlay: Hallucination) -> Meter:
        """Multiplies with variances right before each pick."""
        return _ProductMeter(self.bound, current=True)


class _ProductMeter:
    def __init__(self, bound: float, current: bool) -> None:
        self.bound, self._current, self._log = bound, current, 0.0

    @property
    def ratio(self) -> float:
        return math.exp(min(self._log, 700.0))

    def count(self, pick: Pick) -> None:
        self._log += math.log1p(pick.current_leverage if self._current else pick.feedback_leverage)

    def add(self, pick: Pick) -> str | None:
        self.count(pick)
        reason = "information gain" if self._current else "variance product"
        return reason if self._log > math.log(self.bound) else None

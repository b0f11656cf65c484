"""Stopping rules: when a batch ends and feedback is used. A rule is immutable; each batch has its own meter.

A meter counts every pick and returns None (continue) or the reason to stop. The pick that exceeds the bound
is the last of its batch (theory §6.1). `ratio` is the factor by which the σ̃² of some arm may have shrunk
since the last feedback, as bounded by the rule.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from manyarms.choice.variance_ratios import VarianceRatios
from manyarms.posterior.hallucination import Hallucination
from manyarms.posterior.posterior import Posterior
from manyarms.support.validation import at_least_one, count


@dataclass(frozen=True)
class Pick:
    """An arm that was just chosen, its σ̃² at the last feedback and its σ̃² immediately before this pick."""

    arm: int
    feedback_leverage: float
    current_leverage: float


class Meter(Protocol):
    """The state of a stopping rule within one batch."""

    @property
    def ratio(self) -> float:
        """The factor by which some σ̃² may have shrunk since the last feedback, as bounded by this rule."""

    def add(self, pick: Pick) -> str | None:
        """Count a pick; return a reason if the batch must end with it, otherwise None."""

    def count(self, pick: Pick) -> None:
        """Count a pick in a batch that this rule does not end; cheaper than `add`."""


class StoppingRule(Protocol):
    """A rule that decides when a batch ends."""

    def meter(self, posterior: Posterior, overlay: Hallucination) -> Meter:
        """A new meter for one batch on this posterior; `overlay` holds the hallucinated pulls."""


class _VarianceSum:
    """1 + Σ σ̃²_fb(x_s), the factor by which any σ̃² may have shrunk (theory §2.5)."""

    def __init__(self) -> None:
        self.ratio = 1.0

    def count(self, pick: Pick) -> None:
        self.ratio += pick.feedback_leverage

    def add(self, pick: Pick) -> str | None:
        self.count(pick)
        return None


@dataclass(frozen=True)
class EveryStep:
    """Feedback after each pull, as in GP-UCB and BKB (theory §6.2)."""

    def meter(self, posterior: Posterior, overlay: Hallucination) -> Meter:
        """A meter that ends the batch with its first pick."""
        return _EveryStepMeter()


class _EveryStepMeter(_VarianceSum):
    def add(self, pick: Pick) -> str | None:
        super().add(pick)
        return "every step"


@dataclass(frozen=True)
class FixedSize:
    """Batches of a fixed size (Desautels et al. 2014; theory §6.3)."""

    size: int

    def __post_init__(self) -> None:
        count("size", self.size)

    def meter(self, posterior: Posterior, overlay: Hallucination) -> Meter:
        """Counts the picks of this batch; pending pulls do not count."""
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
    """BBKB: stop when 1 + Σ_s σ̃²_fb(x_s) > C̃ (theory §6.4; Alg. 1 l. 5 prints σ̃, the proofs use σ̃²)."""

    bound: float

    def __post_init__(self) -> None:
        at_least_one("bound", self.bound)

    def meter(self, posterior: Posterior, overlay: Hallucination) -> Meter:
        """A meter that sums the leverages at the last feedback."""
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
    """BBKB-local: beyond the global bound, continue until the ratio of some arm exceeds C̃ (theory §6.5).

    The ratio of arm i is 1 + Σ_s c(x_i, x_s)² / σ̃²_fb(x_i) with the covariance c at the last feedback, which
    includes the residual. By Cauchy–Schwarz it bounds the factor by which hallucination, which conditions the
    same covariance, has reduced σ̃² of arm i.
    """

    bound: float

    def __post_init__(self) -> None:
        at_least_one("bound", self.bound)

    def meter(self, posterior: Posterior, overlay: Hallucination) -> Meter:
        """A meter of the global sum and, beyond its bound, of one ratio per arm."""
        return _LocalMeter(self.bound, posterior)


class _LocalMeter:
    """Lazy evaluation: ratios are summed only when `ratio` is read and the largest could exceed the bound.

    The increments that a pick adds to the ratios have a maximum, which bounds the growth of any ratio, so the
    sum of the maxima is an upper limit of the largest ratio. Picks of arms whose maxima are known therefore
    cost O(1) each, with an occasional sum over all arms, which the shards carry on (`variance_ratios.py`).
    """

    def __init__(self, bound: float, posterior: Posterior) -> None:
        self.bound, self._ratios = bound, VarianceRatios(posterior)
        self._global = 1.0
        self._uncounted: list[int] = []  # picks not in the limit yet; not needed below the global bound
        self._unsummed = False  # whether picks are in the limit but not in the ratios yet
        self._limit = 1.0  # upper limit of all ratios

    def count(self, pick: Pick) -> None:
        self._global += pick.feedback_leverage
        self._uncounted.append(pick.arm)

    def add(self, pick: Pick) -> str | None:
        self.count(pick)
        return "local variance ratio" if self.ratio > self.bound else None

    @property
    def ratio(self) -> float:
        if self._global <= self.bound:
            return self._global
        if self._uncounted:
            self._limit += self._ratios.add(self._uncounted)
            self._uncounted.clear()
            self._unsummed = True
        if self._unsummed and self._limit > self.bound:
            self._limit, self._unsummed = self._ratios.largest(), False
        return self._limit


@dataclass(frozen=True)
class ProductRatio:
    """GP-BUCB in the form of BBKB §3: stop when Π_s (1 + σ²_fb(x_s)) > C̃ (theory §6.6)."""

    bound: float

    def __post_init__(self) -> None:
        at_least_one("bound", self.bound)

    def meter(self, posterior: Posterior, overlay: Hallucination) -> Meter:
        """A meter that multiplies by 1 + leverage at the last feedback."""
        return _ProductMeter(self.bound, current=False)


@dataclass(frozen=True)
class InformationGain:
    """GP-AUCB: stop when Π_s (1 + σ²_{s−1}(x_s)), exp(2 · information gain), exceeds C̃ (theory §6.6)."""

    bound: float

    def __post_init__(self) -> None:
        at_least_one("bound", self.bound)

    def meter(self, posterior: Posterior, overlay: Hallucination) -> Meter:
        """A meter that multiplies by 1 + leverage immediately before each pick."""
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

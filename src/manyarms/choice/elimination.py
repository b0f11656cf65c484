"""Batched pure exploration, BPE (theory §5.17): the arms of a batch, and the arms that stay active after it.

A batch is chosen without rewards: each pick is the active arm with the largest variance given the picks of
this batch. Its results alone then decide which arms stay: those whose upper bound is not below the highest
lower bound. Everything is computed on the active arms, so later batches are cheaper.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from manyarms.choice.highest import TIE
from manyarms.pool.allowance import Allowance
from manyarms.pool.pool import Pool
from manyarms.posterior.posterior import Posterior
from manyarms.support.validation import Floats, Ints, count


def batch_lengths(horizon: int) -> tuple[int, ...]:
    """N_i = ⌈√(T·N_{i−1})⌉ with N_0 = 1, the last one cut so that they sum to T (Li & Scarlett 2022, Alg. 1).

    >>> batch_lengths(1000)
    (32, 179, 424, 365)
    """
    lengths, length, left = [], 1, count("horizon", horizon)
    while left > 0:
        length = math.isqrt(horizon * length - 1) + 1
        lengths.append(min(length, left))
        left -= lengths[-1]
    return tuple(lengths)


def _no_arms() -> Ints:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Elimination:
    """The present batch: its number, the active arms, and what was handed out of it so far."""

    active: Ints  # indices of the arms, ascending
    number: int = 0  # of the batch, from 0
    first_ticket: int = 0  # of this batch
    arms: Ints = field(default_factory=_no_arms)  # handed out in this batch, in order
    inducing: Ints = field(default_factory=_no_arms)  # those of them that span the sketch

    def explored(
        self,
        posterior: Posterior,
        size: int,
        allowed: Allowance,
        oversampling: float,
        rng: np.random.Generator,
    ) -> Elimination:
        """With up to `size` more picks of largest variance; each pick is allowed `allowed` times.

        A pick becomes inducing with probability min(1, q̄σ̃²), with the leverage before the pick (theory §3.2);
        the others shrink the variance through the sketch.
        """
        chosen = self._on_active(posterior)
        if len(self.arms):
            chosen.rebuild(self.places(self.inducing), self.places(self.arms), np.zeros(len(self.arms)))
        allowed = allowed.copy()
        left = np.array([allowed[arm] for arm in self.active.tolist()])
        known = set(self.places(self.inducing).tolist())
        picked: list[int] = []
        inducing: list[int] = []
        while len(picked) < size:
            leverage = np.where(left > 0, chosen.leverage, -1.0)
            largest = float(leverage.max())
            if largest < 0:
                break
            place = int(np.argmax(leverage >= largest - TIE[chosen.storage] * largest))
            mask, arm = allowed.mask, int(self.active[place])
            if not allowed.confirms(arm):
                left = np.array([allowed[each] for each in self.active.tolist()])
                continue
            allowed.take([arm])
            left[place] -= 1
            if allowed.mask is not mask:  # a group of arms has been closed
                left = np.array([allowed[arm] for arm in self.active.tolist()])
            picked.append(place)
            spans = [place] if rng.random() < oversampling * largest and place not in known else []
            known.update(spans)
            inducing += spans
            chosen.update(inducing=spans, arms=[place], rewards=[0.0])
        return replace(
            self,
            arms=np.concatenate([self.arms, self.active[picked]]),
            inducing=np.concatenate([self.inducing, self.active[inducing]]),
        )

    def trimmed(
        self, posterior: Posterior, arms: Ints, rewards: Floats, width: float, next_ticket: int
    ) -> Elimination:
        """The next batch, after these results of the present one; `width` multiplies σ̃ (leverage scale).

        An arm stays if μ̃ + βσ̃ ≥ max (μ̃ − βσ̃), with the posterior of this batch alone.
        """
        active = self.active
        if len(arms):
            seen = self._on_active(posterior)
            seen.rebuild(self.places(self.inducing), self.places(arms), rewards)
            spread = width * np.sqrt(seen.leverage)
            active = active[seen.mean + spread >= (seen.mean - spread).max()]
        return Elimination(active, self.number + 1, next_ticket)

    def places(self, arms: Ints) -> Ints:
        """The positions of these arms among the active ones."""
        return np.searchsorted(self.active, arms)

    def extended(self, before: int, after: int) -> Elimination:
        """With the arms that a larger pool has in addition, which are active."""
        return replace(self, active=np.concatenate([self.active, np.arange(before, after)]))

    def _on_active(self, posterior: Posterior) -> Posterior:
        """The prior on the active arms."""
        pool = posterior.pool
        if len(self.active) < pool.n_arms:
            pool = Pool(pool.take(self.active), max_memory=pool.max_memory)
        return Posterior(pool, posterior.kernel, posterior.ridge, storage=posterior.storage)

    def to_plain(self) -> dict[str, Any]:
        """The batch as numbers and arrays."""
        return dict(vars(self))

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Elimination:
        """The batch that `to_plain` wrote."""
        return cls(**plain)

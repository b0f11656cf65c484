"""Which trials succeeded and which failed, by arm: what a model of success is learned from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from manyarms.posterior.history import History
from manyarms.support.validation import Floats, Ints


@dataclass(frozen=True)
class Outcomes:
    """The numbers of successful and of failed trials of every arm that was tried, in order of the arms."""

    arms: Ints
    successes: Floats
    failures: Floats

    @classmethod
    def of(cls, history: History, failures: Mapping[int, int]) -> Outcomes:
        """The outcomes behind a history and these failed trials by arm."""
        failed = np.array(sorted(failures), dtype=np.int64)
        arms = np.union1d(history.arms, failed)
        good, bad = np.zeros(len(arms)), np.zeros(len(arms))
        good[np.searchsorted(arms, history.arms)] = history.counts
        bad[np.searchsorted(arms, failed)] = [failures[arm] for arm in failed.tolist()]
        return cls(arms, good, bad)

    @property
    def n_trials(self) -> int:
        """The number of trials."""
        return int(self.successes.sum() + self.failures.sum())

    @property
    def n_failed(self) -> int:
        """The number of failed trials."""
        return int(self.failures.sum())

    def once(self) -> Outcomes:
        """At most one success and one failure of each arm: trials of one arm say little about others."""
        return Outcomes(self.arms, np.minimum(self.successes, 1.0), np.minimum(self.failures, 1.0))

    def at(self, places: Ints) -> Outcomes:
        """The outcomes of some of these arms."""
        return Outcomes(self.arms[places], self.successes[places], self.failures[places])

"""A candidate of the comparison of families: a fit and the prior it was made under."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from manyarms.learning.kernel_families import Family
from manyarms.learning.map_fit import Fit, HyperPrior, Start, fit
from manyarms.learning.marginal_likelihood import Observations

EVALUATIONS = 40  # of the evidence, in a fit that starts from values already found


@dataclass(frozen=True)
class Candidate:
    """A fit, the prior it was made under, and what is taken off its score (`way_search.py`)."""

    fit: Fit
    prior: HyperPrior
    charge: float = 0.0

    @property
    def score(self) -> float:
        """The value candidates are compared by."""
        return self.fit.score - self.charge

    def refit(self, features: Any, observations: Observations, scored: bool) -> Fit:
        """The same family fitted to other data, starting from the present values."""
        family, start = self.fit.family, self.fit.start
        return fit(family, features, observations, start, EVALUATIONS, self.prior, scored)

    def start_for(self, family: Family) -> Start | None:
        """A start for a family with as many length-scales, at the same ratio to its typical ones."""
        here, there = self.fit.family.typical, family.typical
        return self.fit.start.shifted(here, there) if len(here) == len(there) else None


def best_of(candidates: list[Candidate]) -> Candidate:
    """The candidate with the highest score."""
    return max(candidates, key=lambda candidate: candidate.score)

"""Which kernel family, with one length-scale or one per feature, on which arms.

All candidates are fitted on a small subset, where a fit takes a fraction of a second, and compared by
their score; the best is fitted again on the large subset, starting from the values found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manyarms.learning.evidence import Observations
from manyarms.learning.families import Family
from manyarms.learning.fitting import Fit, Prior, fit
from manyarms.learning.prepared import Prepared
from manyarms.learning.rewards import Targets
from manyarms.learning.subset import MOST_ARMS, choose_subset
from manyarms.validation import Ints

SCREENED = 250  # arms on which candidates are compared
ENOUGH = 20  # different arms before each feature may have a length-scale
MOST_SCALES = 100  # features that may; the score takes an evaluation for each
_EVALUATIONS = 40  # of the evidence, per fit that starts from values already found


@dataclass(frozen=True)
class Candidate:
    """A fit and the prior it was made under."""

    found: Fit
    prior: Prior

    def again(self, features: Any, observed: Observations) -> Candidate:
        """Fitted to other arms, from where it stands."""
        start = [self.found.values]
        found = fit(self.found.family, features, observed, start, _EVALUATIONS, self.prior, compared=False)
        return Candidate(found, self.prior)

    def per_feature(self, prepared: Prepared, features: Any, observed: Observations) -> list[Candidate]:
        """With a length-scale per feature, pulled towards the shared one; nothing where there is no such."""
        own = prepared.per_feature(self.found.family)
        if own is None or own == self.found.family:
            return []
        shared = float(self.found.log_scales[0])
        start = np.append(np.full(len(own.typical), shared), self.found.values[-2:])
        prior = Prior.of(own, shared)
        return [Candidate(fit(own, features, observed, [start], _EVALUATIONS, prior), prior)]


def select(prepared: Prepared, seen: Targets, rng: np.random.Generator) -> Fit:
    """The best fit for what has been seen."""
    separate = len(seen.arms) >= ENOUGH and prepared.dimension <= MOST_SCALES
    typical: Family = prepared.families[0]
    features, observed = _observed(prepared, seen, typical, typical.typical, rng, SCREENED)
    candidates = []
    for family in prepared.families:
        shared = Candidate(fit(family, features, observed), Prior.of(family))
        candidates += [shared, *(shared.per_feature(prepared, features, observed) if separate else [])]
    best = _highest(candidates)
    if len(seen.arms) <= SCREENED:
        return best.found
    features, observed = _observed(prepared, seen, best.found.family, best.found.log_scales, rng, MOST_ARMS)
    return best.again(features, observed).found


def _highest(candidates: list[Candidate]) -> Candidate:
    return max(candidates, key=lambda candidate: candidate.found.score)


def _observed(
    prepared: Prepared, seen: Targets, family: Family, log_scales: Any, rng: np.random.Generator, size: int
) -> tuple[Any, Observations]:
    """Features and statistics of a subset that covers; replicates of all arms count for the noise."""
    kernel = family.kernel(log_scales)
    places: Ints = choose_subset(prepared.pool, kernel, seen.arms, seen.means, rng, size)
    spare, scatter = float((seen.counts - 1.0).sum()), float(seen.scatters.sum())
    observed = Observations(seen.counts[places], seen.means[places], spare, scatter, seen.blur)
    return prepared.pool.take(seen.arms[places]), observed

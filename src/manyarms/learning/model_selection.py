"""Which kernel family, with one length-scale or one per feature, on which arms.

All candidates are fitted on a small subset, where a fit takes a fraction of a second, and compared by
their score; the best is fitted again on the large subset, starting from the values found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manyarms.learning.fit_subset import MOST_ARMS, choose_subset
from manyarms.learning.kernel_families import Family
from manyarms.learning.map_fit import Fit, HyperPrior, Start, another_peak, fit
from manyarms.learning.marginal_likelihood import Observations
from manyarms.learning.prepared import Prepared
from manyarms.learning.reward_transforms import Targets
from manyarms.support.validation import Ints

SCREENED = 250  # arms on which candidates are compared
ENOUGH = 20  # different arms before each feature may have a length-scale
ROUGHER = -1.2  # added to the log length-scales that are typical, for a second start
_EVALUATIONS = 40  # of the evidence, per fit that starts from values already found


def select(prepared: Prepared, seen: Targets, rng: np.random.Generator) -> Fit:
    """The best fit for what has been seen."""
    separate = len(seen.arms) >= ENOUGH
    typical: Family = prepared.families[0]
    features, observed = _observed(prepared, seen, typical, typical.typical, rng, SCREENED)
    best = _best(_screened(prepared, features, observed, separate))
    if len(seen.arms) <= SCREENED:
        return best.found
    features, observed = _observed(prepared, seen, best.found.family, best.found.log_scales, rng, MOST_ARMS)
    return best.again(features, observed)


@dataclass(frozen=True)
class Candidate:
    """A fit and the prior it was made under."""

    found: Fit
    prior: HyperPrior

    def again(self, features: Any, observed: Observations) -> Fit:
        """Fitted to other arms, from where it stands."""
        family, start = self.found.family, self.found.start
        return fit(family, features, observed, start, _EVALUATIONS, self.prior, compared=False)

    def start_of(self, family: Family) -> Start | None:
        """For a family with as many length-scales: as long, compared with what is typical, as here."""
        here, there = self.found.family.typical, family.typical
        return self.found.start.towards(here, there) if len(here) == len(there) else None


def _screened(prepared: Prepared, features: Any, observed: Observations, separate: bool) -> list[Candidate]:
    """Each family with one length-scale and, if `separate`, with one per feature, where there is such."""
    ends = _ends(prepared.families[0], features, observed)
    return [each for end in ends for each in _line(prepared, features, observed, separate, end)]


def _ends(family: Family, features: Any, observed: Observations) -> list[Fit]:
    """Where searches from the prior's centre and from much shorter length-scales end: one place, mostly.

    A rough function can be taken for a smooth one under much noise, and that may be a peak of the posterior
    too. Which peak is the right one is settled only when all candidates have been fitted from each.
    """
    found = fit(family, features, observed)
    other = another_peak(found, features, observed, ROUGHER)
    return [found] if other is None else [found, other]


def _line(
    prepared: Prepared, features: Any, observed: Observations, separate: bool, end: Fit
) -> list[Candidate]:
    """The first family as it was found, and the others from there: each search begins where one ended.

    That takes half of the evaluations of searches that all begin anew.
    """
    candidates: list[Candidate] = []
    shared: Candidate | None = None
    own: Candidate | None = None
    for family in prepared.families:
        found = fit(family, features, observed, shared.start_of(family)) if shared else end
        shared = Candidate(found, HyperPrior.of(family))
        candidates.append(shared)
        split = prepared.per_feature(family) if separate else None
        if split is None or split == family:
            continue
        start = own.start_of(split) if own else found.start.spread_over(len(split.typical))
        prior = HyperPrior.of(split, float(found.log_scales[0]))
        own = Candidate(fit(split, features, observed, start, _EVALUATIONS, prior), prior)
        candidates.append(own)
    return candidates


def _best(candidates: list[Candidate]) -> Candidate:
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

"""Choose the kernel family, with one length-scale or one per feature, and the arms to fit it on.

All candidates are fitted on a small subset, where a fit takes a fraction of a second, and compared by
their score; the best is fitted again on the large subset, starting from the values found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manyarms.learning.fit_subset import MAX_ARMS, choose_subset
from manyarms.learning.kernel_families import Family
from manyarms.learning.map_fit import Fit, HyperPrior, Start, fit, second_mode
from manyarms.learning.marginal_likelihood import Observations
from manyarms.learning.prepared_pool import Prepared
from manyarms.learning.reward_transforms import Targets
from manyarms.support.validation import Ints

COMPARISON_ARMS = 250  # candidates are compared on at most this many arms
MIN_ARMS_PER_FEATURE = 20  # different arms from which each feature may have its own length-scale
SHORT_SCALES_SHIFT = -1.2  # added to the typical log length-scales for the second search
_EVALUATIONS = 40  # of the evidence, in a fit that starts from values already found


def select(prepared: Prepared, targets: Targets, rng: np.random.Generator) -> Fit:
    """The best fit to these results."""
    per_feature = len(targets.arms) >= MIN_ARMS_PER_FEATURE
    first: Family = prepared.families[0]
    features, observations = _subset(prepared, targets, first, first.typical, rng, COMPARISON_ARMS)
    best = _best(_fit_candidates(prepared, features, observations, per_feature))
    if len(targets.arms) <= COMPARISON_ARMS:
        return best.fit
    family, log_scales = best.fit.family, best.fit.log_scales
    features, observations = _subset(prepared, targets, family, log_scales, rng, MAX_ARMS)
    return best.refit(features, observations)


@dataclass(frozen=True)
class Candidate:
    """A fit and the prior it was made under."""

    fit: Fit
    prior: HyperPrior

    def refit(self, features: Any, observations: Observations) -> Fit:
        """The same family fitted to other arms, starting from the present values."""
        family, start = self.fit.family, self.fit.start
        return fit(family, features, observations, start, _EVALUATIONS, self.prior, scored=False)

    def start_for(self, family: Family) -> Start | None:
        """A start for a family with as many length-scales, at the same ratio to its typical ones."""
        here, there = self.fit.family.typical, family.typical
        return self.fit.start.shifted(here, there) if len(here) == len(there) else None


def _fit_candidates(
    prepared: Prepared, features: Any, observations: Observations, per_feature: bool
) -> list[Candidate]:
    """Each family with one length-scale and, with `per_feature`, with one per feature where possible."""
    modes = _modes(prepared.families[0], features, observations)
    return [
        candidate
        for mode in modes
        for candidate in _fit_families(prepared, features, observations, per_feature, mode)
    ]


def _modes(family: Family, features: Any, observations: Observations) -> list[Fit]:
    """The modes that searches from the prior's centre and from much shorter length-scales find: usually one.

    A rough function can be mistaken for a smooth one under much noise, and the posterior may have a mode for
    each. Which of the two is right is decided only after all candidates have been fitted from both.
    """
    first = fit(family, features, observations)
    second = second_mode(first, features, observations, SHORT_SCALES_SHIFT)
    return [first] if second is None else [first, second]


def _fit_families(
    prepared: Prepared, features: Any, observations: Observations, per_feature: bool, mode: Fit
) -> list[Candidate]:
    """The first family at the mode found, and the others from there: each search starts where one ended.

    That takes half as many evaluations as searches that all start from the prior.
    """
    candidates: list[Candidate] = []
    shared: Candidate | None = None
    separate: Candidate | None = None
    for family in prepared.families:
        found = fit(family, features, observations, shared.start_for(family)) if shared else mode
        shared = Candidate(found, HyperPrior.of(family))
        candidates.append(shared)
        split = prepared.per_feature(family) if per_feature else None
        if split is None or split == family:
            continue
        start = separate.start_for(split) if separate else found.start.split(len(split.typical))
        prior = HyperPrior.of(split, float(found.log_scales[0]))
        separate = Candidate(fit(split, features, observations, start, _EVALUATIONS, prior), prior)
        candidates.append(separate)
    return candidates


def _best(candidates: list[Candidate]) -> Candidate:
    return max(candidates, key=lambda candidate: candidate.fit.score)


def _subset(
    prepared: Prepared, targets: Targets, family: Family, log_scales: Any, rng: np.random.Generator, size: int
) -> tuple[Any, Observations]:
    """Features and statistics of a subset of the arms; replicates of all arms count for the noise."""
    kernel = family.kernel(log_scales)
    chosen: Ints = choose_subset(prepared.pool, kernel, targets.arms, targets.means, rng, size)
    freedom, scatter = float((targets.counts - 1.0).sum()), float(targets.scatters.sum())
    counts, means = targets.counts[chosen], targets.means[chosen]
    observations = Observations(counts, means, freedom, scatter, targets.noise_floor)
    return prepared.pool.take(targets.arms[chosen]), observations

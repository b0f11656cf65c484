"""Choose the scale of the rewards, the kernel family and its length-scales, and the arms to fit them on.

All candidates are fitted on a small subset, where a fit takes a fraction of a second, and compared by
their score; the best is fitted again on the large subset, starting from the values found. Scales of the
rewards are compared by the score plus the logarithm of the scale's slopes at the rewards, which makes the
scores of different scales densities of the same rewards (theory §8.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manyarms.learning.by_category import by_category
from manyarms.learning.candidate import EVALUATIONS, Candidate, best_of
from manyarms.learning.compared import Compared, observations_at, scale_score
from manyarms.learning.fit_subset import MAX_ARMS, choose_subset
from manyarms.learning.kernel_families import Family
from manyarms.learning.map_fit import NOISE_BOUNDS, Fit, HyperPrior, fit, second_mode
from manyarms.learning.marginal_likelihood import Observations
from manyarms.learning.noise_law import NoiseLaw
from manyarms.learning.noise_selection import uneven_noise
from manyarms.learning.old_family import WithOldResults, with_old, without_old
from manyarms.learning.parameter_uncertainty import std_factor
from manyarms.learning.plateau import without_spent
from manyarms.learning.prepared_pool import Prepared
from manyarms.learning.reward_transforms import Targets
from manyarms.learning.way_search import other_ways
from manyarms.support.validation import Ints

COMPARISON_ARMS = 250  # candidates are compared on at most this many arms
MIN_ARMS_PER_FEATURE = 20  # different arms from which each feature may have its own length-scale
SHORT_SCALES_SHIFT = -1.2  # added to the typical log length-scales for the second search


@dataclass(frozen=True)
class Selected:
    """The best fit, the targets it was made to, and the factor for its standard deviations.

    With a `noise_law`, the targets are weighed by it.
    """

    fit: Fit
    targets: Targets
    std_factor: float
    noise_law: NoiseLaw | None = None


def select(prepared: Prepared, scales: Sequence[Targets], rng: np.random.Generator) -> Selected:
    """The best fit to these results, which `scales` holds under one or more transforms."""
    least = NOISE_BOUNDS[0] if prepared.least_noise is None else prepared.least_noise
    scales = [replace(scale, noise_floor=max(scale.noise_floor, least)) for scale in without_spent(scales)]
    found, compared = _selected(prepared, scales, rng)
    uneven = None if prepared.constant_noise else uneven_noise(prepared.pool, compared)
    if uneven is None:
        return found
    return replace(_selected(prepared, [uneven.targets], rng)[0], noise_law=uneven.law)


def _selected(
    prepared: Prepared, scales: Sequence[Targets], rng: np.random.Generator
) -> tuple[Selected, Compared]:
    """The best fit if the results have the same noise, but for what they weigh."""
    targets, first = scales[0], prepared.families[0]
    chosen = _chosen(prepared, targets, first, first.typical, rng, COMPARISON_ARMS)
    features = prepared.pool.take(targets.arms[chosen])
    if prepared.n_old:
        compared = _compare_old(prepared, scales, features, chosen)
    else:
        compared = _compare(prepared, scales, features, chosen)
    targets, candidates = compared.targets, compared.candidates
    best, factor = (
        best_of(candidates),
        std_factor([replace(each.fit, score=each.score) for each in candidates]),
    )
    if len(targets.arms) <= COMPARISON_ARMS:
        return Selected(best.fit, targets, factor), compared
    many = _chosen(prepared, targets, best.fit.family, best.fit.log_scales, rng, MAX_ARMS)
    features = prepared.pool.take(targets.arms[many])
    refitted = best.refit(features, observations_at(targets, many), scored=False)
    return Selected(refitted, targets, factor), compared


def _compare(prepared: Prepared, scales: Sequence[Targets], features: Any, chosen: Ints) -> Compared:
    """The scale with the highest evidence, and all candidates fitted under it.

    The first scale is compared under its best candidate with the others under the same family, each fitted
    from the same start; all candidates are fitted again when another scale wins.
    """
    per_feature = len(scales[0].arms) >= MIN_ARMS_PER_FEATURE

    def fitted(targets: Targets) -> list[Candidate]:
        return _fit_candidates(prepared, features, observations_at(targets, chosen), per_feature)

    candidates = fitted(scales[0])
    best = best_of(candidates)
    under = [(scales[0], best)]
    for targets in scales[1:]:
        refitted = best.refit(features, observations_at(targets, chosen), scored=True)
        under.append((targets, replace(best, fit=refitted)))
    scores = [scale_score(targets, each.fit, chosen) for targets, each in under]
    place = max(range(len(scores)), key=scores.__getitem__)
    winner = scales[place]
    if place:
        candidates = fitted(winner)
    if per_feature and prepared.ways:
        candidates += by_category(prepared.ways, features, observations_at(winner, chosen), candidates)
    return Compared(winner, candidates, under, scores[place], chosen)


def _compare_old(prepared: Prepared, scales: Sequence[Targets], features: Any, chosen: Ints) -> Compared:
    """The same without old results, and the best of these candidates with them."""
    width = prepared.pool.n_features - prepared.n_old
    families = tuple(family.family for family in prepared.families if isinstance(family, WithOldResults))
    plain = replace(prepared, families=families, n_old=0)
    found = _compare(plain, scales, features[:, :width], chosen)
    more = with_old(found.candidates, width, prepared.n_old, features, observations_at(found.targets, chosen))
    return replace(
        found,
        candidates=[*(without_old(each, width) for each in found.candidates), *more],
        under_scales=[(targets, without_old(each, width)) for targets, each in found.under_scales],
    )


def _fit_candidates(
    prepared: Prepared, features: Any, observations: Observations, per_feature: bool
) -> list[Candidate]:
    """Each family with one length-scale and, with `per_feature`, with one per feature where possible."""
    modes = _modes(prepared.families[0], features, observations)
    candidates = [
        candidate
        for mode in modes
        for candidate in _fit_families(prepared, features, observations, per_feature, mode)
    ]
    if per_feature and prepared.ways:
        candidates += other_ways(prepared.ways, features, observations, candidates)
    return candidates


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
        separate = Candidate(fit(split, features, observations, start, EVALUATIONS, prior), prior)
        candidates.append(separate)
    return candidates


def _chosen(
    prepared: Prepared, targets: Targets, family: Family, log_scales: Any, rng: np.random.Generator, size: int
) -> Ints:
    """Places in the targets of the arms to fit on."""
    return choose_subset(prepared.pool, family.kernel(log_scales), targets.arms, targets.means, rng, size)

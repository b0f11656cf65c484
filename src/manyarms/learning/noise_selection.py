"""Whether the noise is constant, compared together with the scale of the rewards (theory §8.15).

A scale that bends the rewards may have been chosen because of the noise alone, and the usual way to map
scatters to it assumes a constant noise. So where repeated results show that the noise is not constant in the
units of the rewards, every scale is scored again: with a noise that is constant on this scale, and with the
law that the scatters show there.
"""

from __future__ import annotations

from dataclasses import dataclass

from manyarms.learning.candidate import Candidate
from manyarms.learning.compared import Compared, observations_at, scale_score
from manyarms.learning.map_fit import Fit
from manyarms.learning.noise_law import CLEARLY, NoiseLaw, find_law
from manyarms.learning.reward_transforms import Standardised, Targets
from manyarms.pool.pool import Pool
from manyarms.support.validation import Ints


@dataclass(frozen=True)
class Uneven:
    """Targets that do not assume a constant noise in the units of the rewards, weighed by a law if any.

    Without a law, the noise is constant on the scale of the targets. `score` is that of a density of the
    rewards.
    """

    targets: Targets
    law: NoiseLaw | None
    score: float


def uneven_noise(pool: Pool, compared: Compared) -> Uneven | None:
    """The scale and the law with the highest score, if it is clearly higher than that of a constant noise.

    Scales other than the best one for a constant noise are considered if the noise is not constant in the
    units of the rewards: a law can undo what a wrong scale does to a constant noise.
    """
    if not (compared.targets.results > 1).any():
        return None
    found: list[Uneven] = []
    for targets, candidate in sorted(compared.under_scales, key=_bent):
        differs = any(each.law is not None for each in found)
        if differs or not _bent((targets, candidate)) or targets.transform is compared.targets.transform:
            found += _without_and_with_law(pool, targets, candidate, compared.chosen)
    best = max(found, key=lambda each: each.score)
    return best if best.score > compared.score + CLEARLY else None


def _bent(scale: tuple[Targets, Candidate]) -> bool:
    return not isinstance(scale[0].transform, Standardised)


def _without_and_with_law(pool: Pool, targets: Targets, candidate: Candidate, chosen: Ints) -> list[Uneven]:
    """A scale if the noise is constant on it, and with the law that the scatters there speak for."""
    targets, features = targets.with_own_scatters(), pool.take(targets.arms[chosen])

    def fitted(seen: Targets) -> Fit:
        return candidate.refit(features, observations_at(seen, chosen), scored=True)

    fit = fitted(targets)
    found = [Uneven(targets, None, scale_score(targets, fit, chosen))]
    law = find_law(fit, targets, chosen, pool)
    if law is None:
        return found
    weighed = law.on(targets, pool)
    score = scale_score(weighed, fitted(weighed), chosen) - law.log_weights(targets, chosen, pool)
    return [*found, Uneven(weighed, law, score)]

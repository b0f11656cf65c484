"""What a comparison of scales of the rewards and of candidates found (`model_selection.py`)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from manyarms.learning.candidate import Candidate
from manyarms.learning.map_fit import Fit
from manyarms.learning.marginal_likelihood import Observations
from manyarms.learning.reward_transforms import Targets
from manyarms.support.validation import Ints


@dataclass(frozen=True)
class Compared:
    """The scale with the highest score, all candidates under it, and one candidate under each scale.

    `chosen` are the places in the targets that candidates were fitted on.
    """

    targets: Targets
    candidates: list[Candidate]
    under_scales: list[tuple[Targets, Candidate]]
    score: float
    chosen: Ints


def scale_score(targets: Targets, fit: Fit, chosen: Ints) -> float:
    """The score as that of a density of the rewards, whatever their scale (theory §8.3)."""
    charge = 0.5 * targets.transform.n_shapes * math.log(len(chosen))  # as in the BIC
    return fit.score + float(targets.results[chosen] @ targets.log_slopes[chosen]) - charge


def observations_at(targets: Targets, chosen: Ints) -> Observations:
    """The statistics of these arms; replicates of all arms count for the noise."""
    freedom, scatter = float((targets.results - 1.0).sum()), float(targets.scatters.sum())
    stated = targets.stated[chosen] if targets.stated.any() else None
    return Observations(
        targets.counts[chosen], targets.means[chosen], freedom, scatter, targets.noise_floor, stated
    )

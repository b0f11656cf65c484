"""Everything a run needs that the papers assume to be known, learned from what has been told.

`learn` puts the parts together: features have a scale (`scaling`), rewards get a transform (`rewards`),
kernel families are compared and fitted on a covering subset (`selecting`), and what comes out is one frozen
`LearnedModel` that says in plain sentences what it assumed. It is deterministic given its generator. It is
called again when the number of different arms or of pulls has doubled or, between 40 and 1 000 arms, grown by
a quarter (`should_refit`), so that all fits together cost a small multiple of the last one. Pulls count too
because replicates alone can show that the noise was misjudged, and a run that overrates it goes on repeating
one arm and never sees a new one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manyarms.kernels import KernelLike, Scale
from manyarms.kernels.describe import describe, from_description
from manyarms.learning.fit_subset import MOST_ARMS
from manyarms.learning.map_fit import PRIOR, STOPPED, Fit, at_prior
from manyarms.learning.model_selection import select
from manyarms.learning.preparation import Prepared
from manyarms.learning.reward_transforms import (
    NO_DIFFERENCE,
    Standardised,
    Targets,
    Transform,
    averages,
    fit_transform,
    targets,
    transform_from,
)
from manyarms.posterior.history import History
from manyarms.support.threads import one_thread
from manyarms.support.validation import Floats

FEWEST_ARMS = 3  # different arms below which the priors are used as they are
GROWTH = 2.0  # of arms or pulls between two fits
GROWTH_OF_SOME, SOME_ARMS = 1.25, (40, MOST_ARMS)  # and in between; why: docs/no-knobs.md
FAR_OUT = 6.0  # standard deviations on the model's scale that no sample of normal scores reaches
NOTABLE_BLUR = 0.01  # a tenth of the rewards' standard deviation


@dataclass(frozen=True)
class LearnedModel:
    """A Gaussian process for a pool: rewards ≈ transform⁻¹(mean + f), f ~ GP(0, kernel), noise_std.

    kernel carries the signal variance and takes the features of `Prepared.pool`. kernel, noise_std and
    mean are on the transform's scale. It was learned from `n_pulls` pulls of `n_unique` different arms.
    `assumptions` say what could not be learned, or was decided by a rule.
    """

    kernel: KernelLike
    noise_std: float
    mean: float
    transform: Transform
    family: str
    evidence: float
    n_unique: int
    n_pulls: int
    outcome: str
    assumptions: tuple[str, ...]

    @property
    def ridge(self) -> float:
        """λ = σ², the right regulariser when the noise is known."""
        return self.noise_std**2

    def targets(self, history: History) -> Targets:
        """The history as the posterior should see it: transformed, the constant mean taken off."""
        seen = targets(history, self.transform)
        return replace(seen, means=seen.means - self.mean)

    def in_user_units(self, mean: Floats, std: Floats, width: float = 1.0) -> tuple[Floats, Floats, Floats]:
        """Median and interval (mean ± width·std) of a posterior, as rewards."""
        back = self.transform.inverse
        middle = np.asarray(mean) + self.mean
        reach = width * np.asarray(std)
        return back(middle), back(middle - reach), back(middle + reach)

    def describe(self) -> dict[str, Any]:
        """Plain data, for a saved run and for a status report; `model_from` reads it back."""
        return {
            "kernel": describe(self.kernel),
            "noise_std": self.noise_std,
            "mean": self.mean,
            "transform": self.transform.describe(),
            "family": self.family,
            "evidence": self.evidence,
            "n_unique": self.n_unique,
            "n_pulls": self.n_pulls,
            "outcome": self.outcome,
            "assumptions": list(self.assumptions),
        }


def model_from(description: dict[str, Any]) -> LearnedModel:
    """The model that `describe` described."""
    return LearnedModel(
        **{
            **description,
            "kernel": from_description(description["kernel"]),
            "transform": transform_from(description["transform"]),
            "assumptions": tuple(description["assumptions"]),
        }
    )


def should_refit(model: LearnedModel, history: History, growth: float = GROWTH_OF_SOME) -> bool:
    """Whether there is much more to learn from, or something that the model has no room for.

    The number of different arms, or of pulls, has doubled. Within `SOME_ARMS` it need only have grown to
    `growth` times: plates chosen by a model that knows the first half of the results look where the best arms
    used to be. Beyond, a fit takes no more arms than it did before. Or hardly any arm was known, or all were
    equal: not even the scale of the rewards. Or an average lies far outside all that were seen, where the
    transform knows only to go straight on: one outlier would outweigh all other results until the next fit.
    """
    if model.n_unique < FEWEST_ARMS and len(history) > model.n_unique:
        return True
    if model.outcome == PRIOR and isinstance(model.transform, Standardised) and _differ(history):
        return True
    growth = growth if SOME_ARMS[0] <= model.n_unique < SOME_ARMS[1] else GROWTH
    more_arms = len(history) >= max(growth * model.n_unique, FEWEST_ARMS)
    more_pulls = len(history) > 0 and history.pulls >= growth * model.n_pulls
    return more_arms or more_pulls or _outgrown(model, history)


def _differ(history: History) -> bool:
    means, _ = averages(history)
    return len(means) >= FEWEST_ARMS and bool(np.ptp(means) >= NO_DIFFERENCE)


def _outgrown(model: LearnedModel, history: History) -> bool:
    means, _ = averages(history)
    return bool(np.abs(model.transform.forward(means)).max(initial=0.0) > FAR_OUT)


def learn(
    prepared: Prepared,
    history: History,
    rng: np.random.Generator,
    *,
    rewards: str = "rank",
    previous: LearnedModel | None = None,
) -> LearnedModel:
    """The model for what has been told so far; never fails for lack of data, but says what it assumed.

    `rewards` is the kind of transform (`fit_transform`). `previous` is returned again, with a sentence,
    when nothing at all could be evaluated on the new data.
    """
    transform, said = fit_transform(history, rewards)
    seen = targets(history, transform)
    said = (*prepared.assumptions, *said)
    if len(history) < FEWEST_ARMS or np.ptp(seen.means) < NO_DIFFERENCE:
        said = (*said, f"{len(history)} different arms have results: kernel and noise are guesses so far")
        return _model(at_prior(prepared.families[0]), transform, history, said)
    with one_thread():
        found = select(prepared, seen, rng)
    if found.outcome == PRIOR:
        said = (*said, "no covariance could be factorised: kernel and noise are not learned from the results")
        if previous is not None:
            return replace(previous, n_unique=len(history), n_pulls=history.pulls, assumptions=said)
    if found.outcome == STOPPED:
        said = (*said, "the search for kernel and noise was stopped before it had settled")
    if seen.blur > NOTABLE_BLUR:
        said = (*said, f"many results are equal: the noise is taken to be at least {seen.blur**0.5:.2g}")
    if not (seen.counts > 1).any():
        said = (*said, "no arm was tried twice: noise is told from signal by smoothness alone")
    return _model(found, transform, history, said)


def _model(found: Fit, transform: Transform, history: History, said: tuple[str, ...]) -> LearnedModel:
    return LearnedModel(
        Scale(found.family.kernel(found.log_scales), found.signal),
        float(np.sqrt(found.noise)),
        found.mean,
        transform,
        found.family.name,
        found.evidence,
        len(history),
        history.pulls,
        found.outcome,
        said,
    )

"""Everything a run needs that the papers assume to be known, learned from the results.

`learn` combines the parts: features of known scale (`prepare_pool`), a transform of the rewards
(`reward_transforms`), and kernel families compared and fitted on a subset that covers the pulled arms
(`model_selection`). Its result is one frozen `LearnedModel` that states its assumptions in plain sentences.
It is deterministic given its generator. The model is learned again when the number of different arms or of
pulls has doubled or, between 40 and 1 000 arms, grown by a quarter (`should_refit`), so that all fits
together cost a small multiple of the last one. Pulls count as well as arms because replicates alone can show
that the noise was misjudged: a run that overestimates it keeps repeating one arm and never tries a new one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manyarms.kernels import KernelLike, Scale
from manyarms.kernels.describe import describe, from_description
from manyarms.learning.fit_subset import MAX_ARMS
from manyarms.learning.map_fit import PRIOR, STOPPED, Fit, prior_fit
from manyarms.learning.model_selection import Selected, select
from manyarms.learning.noise_law import NoiseLaw, law_from, law_sentence
from manyarms.learning.old_family import WithOldResults
from manyarms.learning.prepared_pool import Prepared
from manyarms.learning.reward_transforms import (
    SMALLEST_DIFFERENCE,
    Standardised,
    Targets,
    Transform,
    arm_averages,
    fit_transforms,
    scale_sentence,
    targets,
    transform_from,
)
from manyarms.pool.pool import Pool
from manyarms.posterior.history import History
from manyarms.support.threads import one_thread
from manyarms.support.validation import Floats

MIN_ARMS = 3  # with fewer different arms the priors are used as they are
GROWTH = 2.0  # of arms or pulls between two fits
MIDRANGE_GROWTH, MIDRANGE_ARMS = 1.25, (40, MAX_ARMS)  # the same in this range; why: docs/measurements.md
FAR_OUT = 6.0  # standard deviations on the model's scale that no sample of normal scores reaches
BEYOND = 1.5  # times the largest value learned from, where a scale without ranks has such values
REPORTED_NOISE_FLOOR = 0.01  # a noise standard deviation of a tenth of the rewards' standard deviation


@dataclass(frozen=True)
class LearnedModel:
    """A Gaussian process for a pool: reward ≈ transform⁻¹(mean + f + noise), f ~ GP(0, kernel).

    `kernel` includes the signal variance and is evaluated on the features of `Prepared.pool`. `kernel`,
    `noise_std` and `mean` are on the transform's scale. The model was learned from `n_pulls` pulls of
    `n_unique` different arms. `assumptions` are sentences about what could not be learned or was decided by a
    rule. `std_factor` multiplies reported posterior standard deviations, because kernel and noise are
    uncertain. `largest_value` is the largest absolute value, on the model's scale, that it was learned from.
    With a `noise_law`, the noise differs between arms, and `noise_std` is that of an average one of them.
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
    std_factor: float = 1.0
    largest_value: float = 0.0
    noise_law: NoiseLaw | None = None

    @property
    def ridge(self) -> float:
        """λ = σ², the noise variance."""
        return self.noise_std**2

    def targets(self, history: History, pool: Pool) -> Targets:
        """The history as the posterior conditions on it: transformed, and the constant mean subtracted.

        `pool` is that of `Prepared`.
        """
        seen = targets(history, self.transform)
        if self.noise_law is not None:
            seen = self.noise_law.on(seen, pool)
        transformed = seen.by_arm(self.ridge)
        return replace(transformed, means=transformed.means - self.mean)

    def in_user_units(self, mean: Floats, std: Floats, width: float = 1.0) -> tuple[Floats, Floats, Floats]:
        """Median and interval (mean ± width·std) of a posterior, in the units of the rewards."""
        to_reward = self.transform.inverse
        middle = np.asarray(mean) + self.mean
        half_width = width * np.asarray(std)
        return to_reward(middle), to_reward(middle - half_width), to_reward(middle + half_width)

    def describe(self) -> dict[str, Any]:
        """Plain data for a saved run and for a status report; `model_from` reads it back."""
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
            "std_factor": self.std_factor,
            "largest_value": self.largest_value,
            **({} if self.noise_law is None else {"noise_law": self.noise_law.describe()}),
        }


def model_from(description: dict[str, Any]) -> LearnedModel:
    """Read a model back from its `describe`."""
    return LearnedModel(
        **{
            **description,
            "kernel": from_description(description["kernel"]),
            "transform": transform_from(description["transform"]),
            "assumptions": tuple(description["assumptions"]),
            **({"noise_law": law_from(description["noise_law"])} if "noise_law" in description else {}),
        }
    )


def should_refit(
    model: LearnedModel, history: History, growth: float = MIDRANGE_GROWTH, *, everywhere: bool = False
) -> bool:
    """Whether the model should be learned again: it has many new results, or one that it cannot represent.

    True when the number of different arms, or of pulls, has doubled since the last fit. If that fit had a
    number of arms within `MIDRANGE_ARMS`, growth by a factor of `growth` is enough: a model of half the
    results proposes arms where the best ones used to be. Above that range a fit uses no more arms than
    before. With `everywhere`, `growth` decides whatever the number of arms. True also for a new arm
    when the last fit had fewer than MIN_ARMS, when the rewards were all equal and now differ, and when an
    average lies far outside the range of the transform, which extrapolates linearly there: one outlier would
    outweigh all other results until the next fit.
    """
    if model.n_unique < MIN_ARMS and len(history) > model.n_unique:
        return True
    if model.outcome == PRIOR and isinstance(model.transform, Standardised) and _rewards_differ(history):
        return True
    if not everywhere and not MIDRANGE_ARMS[0] <= model.n_unique < MIDRANGE_ARMS[1]:
        growth = GROWTH
    more_arms = len(history) >= max(growth * model.n_unique, MIN_ARMS)
    more_pulls = len(history) > 0 and history.pulls >= growth * model.n_pulls
    return more_arms or more_pulls or _far_outside(model, history)


def _rewards_differ(history: History) -> bool:
    means = arm_averages(history).means
    return len(means) >= MIN_ARMS and bool(np.ptp(means) >= SMALLEST_DIFFERENCE)


def _far_outside(model: LearnedModel, history: History) -> bool:
    """Whether an average lies far outside the range of the rewards the model was learned from."""
    means = arm_averages(history).means
    limit = max(FAR_OUT, BEYOND * model.largest_value)
    return bool(np.abs(model.transform.forward(means)).max(initial=0.0) > limit)


def learn(
    prepared: Prepared,
    history: History,
    rng: np.random.Generator,
    *,
    rewards: str = "auto",
    previous: LearnedModel | None = None,
) -> LearnedModel:
    """Learn a model from the results so far; too few results are not an error but an assumption.

    `rewards` is the kind of transform (`fit_transforms`), by default that of `prepared`. `previous` is
    returned again, with a sentence that says so, when no covariance could be evaluated on the new data.
    """
    transforms, notes = fit_transforms(history, prepared.rewards if rewards == "auto" else rewards)
    scales = [targets(history, transform) for transform in transforms]
    notes = (*prepared.assumptions, *notes)
    if len(history) < MIN_ARMS or np.ptp(scales[0].means) < SMALLEST_DIFFERENCE:
        notes = (*notes, f"{_arms_with_results(len(history))}: kernel and noise are assumed, not learned")
        return _model(Selected(prior_fit(prepared.families[0]), scales[0], 1.0), history, notes)
    with one_thread():
        found = select(prepared, scales, rng)
    if found.fit.outcome == PRIOR:
        notes = (
            *notes,
            "no covariance could be factorised: kernel and noise are not learned from the results",
        )
        if previous is not None:
            return replace(previous, n_unique=len(history), n_pulls=history.pulls, assumptions=notes)
    return _model(found, history, (*notes, *_notes(found, prepared.pool)))


def _notes(found: Selected, pool: Pool) -> tuple[str, ...]:
    """Sentences about the scale of the rewards, the search and the noise."""
    observed, notes = found.targets, scale_sentence(found.targets.transform)
    if isinstance(found.fit.family, WithOldResults):
        notes = (*notes, _about_old(found.fit))
    if found.fit.outcome == STOPPED:
        notes = (*notes, "the search for kernel and noise was stopped before it converged")
    if observed.noise_floor > REPORTED_NOISE_FLOOR:
        floor = f"{observed.noise_floor**0.5:.2g}"
        notes = (*notes, f"many results are equal: the noise is assumed to be at least {floor}")
    if found.noise_law is not None:
        notes = (*notes, law_sentence(found.noise_law, observed, found.fit.noise, pool))
    if (observed.stated > 0).all():
        return (*notes, "every result has a stated noise: that of a result without one is assumed")
    if not (observed.results > 1).any():
        notes = (*notes, "no arm was tried twice: noise and signal are separated by smoothness alone")
    return notes


def _about_old(fit: Fit) -> str:
    """Which old results are used, and the prior correlation of new values with what they predict."""
    family = fit.family
    assert isinstance(family, WithOldResults)
    if not family.columns:
        return "old results: not used, because the new ones are explained better without them"
    weights = np.exp(fit.log_scales[-len(family.columns) :])
    numbers = ", ".join(str(column - family.width + 1) for column in family.columns)
    correlation = math.sqrt(float(weights.sum() / (1.0 + weights.sum())))
    return f"old results: source {numbers} used, with a prior correlation of about {correlation:.2f}"


def _arms_with_results(n: int) -> str:
    return f"{n} different arm{' has' if n == 1 else 's have'} results"


def _model(found: Selected, history: History, assumptions: tuple[str, ...]) -> LearnedModel:
    fit, observed = found.fit, found.targets
    return LearnedModel(
        kernel=Scale(fit.family.kernel(fit.log_scales), fit.signal),
        noise_std=float(np.sqrt(fit.noise)),
        mean=fit.mean,
        transform=observed.transform,
        family=fit.family.name,
        evidence=fit.evidence,
        n_unique=len(history),
        n_pulls=history.pulls,
        outcome=fit.outcome,
        assumptions=assumptions,
        std_factor=found.std_factor,
        largest_value=float(np.abs(observed.means).max(initial=0.0)),
        noise_law=found.noise_law,
    )

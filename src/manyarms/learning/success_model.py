"""The probability that a trial succeeds, learned from successes and failures (theory §8.12).

A constant probability is compared by its evidence with one that depends on the features. Both are a Gaussian
process for the log odds, b + g(x) with b ~ N(1, 2²), and g = 0 for the constant. Every kernel of g has a
prior probability; together they have that of the constant. So a dependence on one of many columns needs more
evidence than one on one of few. Failures of which nothing can be said look random.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyarms.embeddings.nystrom import covariances
from manyarms.kernels import KernelLike, Scale
from manyarms.learning.binomial_laplace import Laplace, laplace, logistic
from manyarms.learning.outcomes import Outcomes
from manyarms.learning.success_kernels import Parts
from manyarms.pool.pool import Pool
from manyarms.support.threads import one_thread
from manyarms.support.validation import Floats

MEAN, SPREAD = 1.0, 2.0  # of b: success rates between 5 and 99 %
VARIANCES = (1.0, 9.0)  # of g
MOST_ARMS = 400  # that the model is fitted to
COMPARED_ARMS = 128  # on which kernels are compared
LEAST = 2  # failures and successes of which a dependence can be learned
_ENTRIES = 2e8  # of the covariances between all arms of the pool and those that the model is fitted to
_FEW = 100  # arms that it is fitted to in any case
LEAD = 1.0  # of the log evidence of one part over a constant, from which pairs with it are tried
SMALLEST = 1e-6  # probability


@dataclass(frozen=True, eq=False)
class SuccessModel:
    """A probability of success: `constant`, or σ(level + k(x, points) weights) if it depends on the features.

    `dependence` is the posterior probability that it does. `parts` are the parts of the features that matter,
    if the kernel is one of some of them, and `columns` their columns in the pool.
    """

    constant: float
    dependence: float
    kernel: KernelLike | None = None
    points: Any = None
    weights: Floats | None = None
    level: float = 0.0
    columns: tuple[int, ...] = ()

    @property
    def depends(self) -> bool:
        """Whether the probability depends on the features."""
        return self.kernel is not None

    def probabilities(self, features: Any) -> Floats:
        """The probability of success of each of these rows, at least SMALLEST."""
        if self.kernel is None:
            return np.full(len(features), self.constant)
        assert self.weights is not None
        latent = self.level + covariances(self.kernel, features, self.points) @ self.weights
        return np.maximum(logistic(latent), SMALLEST)


@dataclass(frozen=True)
class _Cause:
    """A kernel of g with its log prior probability, and the columns that it reads if these are a few."""

    kernel: KernelLike
    variance: float
    log_prior: float
    columns: tuple[int, ...] = ()
    parts: tuple[int, ...] = ()


def learn_success(
    pool: Pool, outcomes: Outcomes, parts: Parts, rng: np.random.Generator, known: KernelLike | None = None
) -> SuccessModel:
    """The model with the higher evidence; `known` is a kernel of the rewards with a variance of about one."""
    trials, failed = outcomes.n_trials, outcomes.n_failed
    constant = (trials - failed + 1.0) / (trials + 2.0)
    few = outcomes.once()
    if min(few.successes.sum(), few.failures.sum()) < LEAST:
        return SuccessModel(constant, 0.0)
    with one_thread():
        return _compared(pool, few, parts, rng, known, constant)


def _compared(
    pool: Pool,
    few: Outcomes,
    parts: Parts,
    rng: np.random.Generator,
    known: KernelLike | None,
    constant: float,
) -> SuccessModel:
    order = rng.permutation(len(few.arms))
    compared = few.at(np.sort(order[:COMPARED_ARMS]))
    best, log_odds = _most_evident(pool.take(compared.arms), compared, parts, known)
    dependence = float(logistic(np.array([log_odds]))[0])
    if log_odds <= 0:
        return SuccessModel(constant, dependence)
    fitted = few.at(np.sort(order[: _most_arms(pool.n_arms)]))
    points, kernel = pool.take(fitted.arms), Scale(best.kernel, best.variance)
    try:
        found = _fitted(covariances(kernel, points, points), fitted)
    except np.linalg.LinAlgError:
        return SuccessModel(constant, dependence)
    level = MEAN + SPREAD**2 * float(found.weights.sum())
    return SuccessModel(constant, dependence, kernel, points, found.weights, level, best.columns)


def _most_arms(n_arms: int) -> int:
    return int(min(MOST_ARMS, max(_FEW, _ENTRIES / n_arms)))


def _fitted(covariance: Floats, outcomes: Outcomes) -> Laplace:
    return laplace(SPREAD**2 + covariance, MEAN, outcomes.successes, outcomes.failures)


def _evidence(covariance: Floats, outcomes: Outcomes) -> float:
    """The log evidence; −∞ if this is no covariance, as kernels from elsewhere may give."""
    try:
        return _fitted(covariance, outcomes).log_evidence
    except np.linalg.LinAlgError:
        return -math.inf


def _most_evident(
    points: Any, outcomes: Outcomes, parts: Parts, known: KernelLike | None
) -> tuple[_Cause, float]:
    """The kernel with the highest posterior probability, and the log odds of all of them to a constant."""
    n = len(outcomes.arms)
    constant = _fitted(np.zeros((n, n)), outcomes).log_evidence
    scores: list[tuple[float, _Cause]] = []

    def compare(causes: Iterable[_Cause]) -> None:
        for cause in causes:
            covariance = cause.variance * covariances(cause.kernel, points, points)
            scores.append((_evidence(covariance, outcomes) - constant + cause.log_prior, cause))

    kinds = 1 + (parts.n_parts > 1) + (parts.n_parts > 2)
    compare(_of_all(parts, known, kinds))
    if parts.n_parts > 1:
        compare(_of_one(parts, kinds))
        score, first = max((each for each in scores if each[1].parts), key=lambda each: each[0])
        if parts.n_parts > 2 and score > first.log_prior + LEAD:
            compare(_of_two(parts, kinds, first.parts[0]))
    values = np.array([score for score, _ in scores])
    top = float(values.max())
    if top == -math.inf:
        return scores[0][1], top
    log_odds = top + math.log(float(np.exp(values - top).sum()))
    return scores[int(values.argmax())][1], log_odds


def _of_all(parts: Parts, known: KernelLike | None, kinds: int) -> list[_Cause]:
    kernels = [*parts.whole, *([] if known is None else [known])]
    prior = -math.log(kinds * len(kernels) * len(VARIANCES))
    return [_Cause(kernel, variance, prior) for kernel in kernels for variance in VARIANCES]


def _of_one(parts: Parts, kinds: int) -> list[_Cause]:
    prior = -math.log(kinds * parts.n_parts * len(VARIANCES))
    return [
        _Cause(parts.kernel(part), variance, prior, parts.groups[part], (part,))
        for part in range(parts.n_parts)
        for variance in VARIANCES
    ]


def _of_two(parts: Parts, kinds: int, first: int) -> list[_Cause]:
    """Each other part together with the first; the prior is that of one among all pairs."""
    pairs = parts.n_parts * (parts.n_parts - 1) // 2
    prior = -math.log(kinds * pairs * len(VARIANCES))
    return [
        _Cause(
            parts.kernel(first, part),
            variance,
            prior,
            parts.groups[first] + parts.groups[part],
            (first, part),
        )
        for part in range(parts.n_parts)
        for variance in VARIANCES
        if part != first
    ]

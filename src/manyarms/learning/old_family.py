"""A kernel family with columns that hold what old results predict, and its comparison with the same without.

The columns are the last ones of the pool (`old_results.py`). The family is k + Σ w_j u_j u_jᵀ, with k any
other family on the columns before them and a weight w_j for each source that takes part (theory §8.11). The
prior of a weight is log w ~ N(0, 2²): old results explain as much as what is new, within a factor of 50.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manyarms.kernels import KernelLike, Linear, OnColumns, Scale, Sum
from manyarms.learning.candidate import EVALUATIONS, Candidate, best_of
from manyarms.learning.kernel_families import Covariance, CovarianceAtScales, Family
from manyarms.learning.map_fit import HyperPrior, Start, fit
from manyarms.learning.marginal_likelihood import Observations
from manyarms.support.validation import Floats

WEIGHT_SD = 2.0
WEIGHT_REACH = math.log(1e4)


@dataclass(frozen=True)
class WithOldResults:
    """`family` on the first `width` columns, and the columns of the sources that take part.

    The last parameters are the logarithms of the weights w, one for each of `columns`.
    """

    family: Family
    width: int
    columns: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The kernel without old results, and how many sources take part."""
        return f"{self.family.name}, with old results" if self.columns else self.family.name

    @property
    def typical(self) -> Floats:
        """Those of the other family, and weights of one."""
        return np.append(self.family.typical, np.zeros(len(self.columns)))

    @property
    def shortest(self) -> Floats:
        """Those of the other family, and none of the weights."""
        return np.append(self.family.shortest, np.full(len(self.columns), -math.inf))

    def covariance_on(self, features: Any) -> CovarianceAtScales:
        """k + Σ w_j u_j u_jᵀ; ∂/∂log w_j = w_j u_j u_jᵀ."""
        features = np.asarray(features)
        base_at, n = self.family.covariance_on(features[:, : self.width]), len(self.family.typical)
        means = [features[:, column].astype(np.float64) for column in self.columns]

        def at(log_scales: Floats) -> Covariance:
            base, weights = base_at(log_scales[:n]), np.exp(log_scales[n:]).tolist()
            K = base.matrix
            if means:
                K = K.copy()
            for weight, u in zip(weights, means, strict=True):
                K += weight * np.outer(u, u)

            def contract(G: Floats) -> Floats:
                own = [weight * float(u @ G @ u) for weight, u in zip(weights, means, strict=True)]
                return np.append(base.contract(G), own)  # the other family may overwrite G

            return Covariance(K, contract)

        return at

    def kernel(self, log_scales: Floats) -> KernelLike:
        """The sum of the other kernel on its columns and of a linear one for each source."""
        n = len(self.family.typical)
        base = OnColumns(self.family.kernel(log_scales[:n]), range(self.width))
        weights = np.exp(log_scales[n:]).tolist()
        means = [
            Scale(OnColumns(Linear(), column), weight)
            for column, weight in zip(self.columns, weights, strict=True)
        ]
        return Sum(base, *means) if means else base


def without_old(candidate: Candidate, width: int) -> Candidate:
    """A candidate fitted to the columns before those of old results, as one of the whole pool."""
    return replace(candidate, fit=replace(candidate.fit, family=WithOldResults(candidate.fit.family, width)))


def with_old(
    candidates: list[Candidate], width: int, sources: int, features: Any, observations: Observations
) -> list[Candidate]:
    """The best candidate with the old results of every source and, if there are several, of each alone.

    A search that starts where the fit without old results ended may stay there, so another one starts from
    the centre of the prior.
    """
    best = best_of(candidates)
    every = tuple(range(width, width + sources))
    choices = [every, *((column,) for column in every)] if sources > 1 else [every]
    return [_fitted(best, width, columns, features, observations) for columns in choices]


def _fitted(
    best: Candidate, width: int, columns: tuple[int, ...], features: Any, observations: Observations
) -> Candidate:
    family = WithOldResults(best.fit.family, width, columns)
    prior = _with_weights(best.prior, len(columns))
    known = best.fit.start
    ends = len(known.values) - 2
    zeros, ones = np.zeros(len(columns)), np.full(len(columns), 1.0 / WEIGHT_SD)
    start = Start(np.insert(known.values, [ends] * len(zeros), zeros),
                  np.insert(known.inverse_sd, [ends] * len(ones), ones))  # fmt: skip
    found = [fit(family, features, observations, each, EVALUATIONS, prior) for each in (start, prior.start)]
    return Candidate(max(found, key=lambda each: each.score), prior, best.charge)


def _with_weights(prior: HyperPrior, n: int) -> HyperPrior:
    """The prior with those of n weights, which come before signal and noise."""
    ends = len(prior.centre) - 2

    def put(values: Floats, new: float) -> Floats:
        return np.insert(values, [ends] * n, np.full(n, new))

    return HyperPrior(
        put(prior.centre, 0.0),
        put(prior.sd, WEIGHT_SD),
        put(prior.lower, -WEIGHT_REACH),
        put(prior.upper, WEIGHT_REACH),
    )

"""The search converges, or reports that it did not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from manyarms.learning.kernel_families import Covariance, CovarianceAtScales, StationaryFamily, TanimotoFamily
from manyarms.learning.map_fit import CONVERGED, PRIOR, STOPPED, HyperPrior, fit, prior_fit
from manyarms.learning.marginal_likelihood import Observations, log_evidence

FAMILY = StationaryFamily((1.0, 1.0), (0, 1))


def smooth(n: int = 60, seed: int = 0) -> tuple[np.ndarray, Observations]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, Observations(np.ones(n), np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=n))


def test_the_gradient_vanishes_where_the_search_ends() -> None:
    X, seen = smooth()
    found = fit(FAMILY, X, seen)
    assert found.outcome == CONVERGED
    again = fit(FAMILY, X, seen, found.start)
    np.testing.assert_allclose(again.start.values, found.start.values, atol=0.02)
    assert again.score == pytest.approx(found.score, abs=1e-3)


def test_an_irrelevant_feature_gets_the_longer_scale() -> None:
    found = fit(FAMILY, *smooth())
    assert found.log_scales[1] > found.log_scales[0] + 1.0
    assert np.sqrt(found.noise) == pytest.approx(0.1, rel=0.3)


def test_the_same_data_give_the_same_values() -> None:
    np.testing.assert_array_equal(fit(FAMILY, *smooth()).start.values, fit(FAMILY, *smooth()).start.values)


def test_one_length_scale_is_preferred_until_several_pay() -> None:
    """White noise: a second length-scale has nothing to explain."""
    rng = np.random.default_rng(1)
    X, seen = rng.normal(size=(80, 2)), Observations(np.ones(80), rng.normal(size=80))
    assert fit(StationaryFamily((1.0, 1.0), (0, 0)), X, seen).score > fit(FAMILY, X, seen).score
    assert fit(StationaryFamily((1.0, 1.0), (0, 0)), *smooth()).score < fit(FAMILY, *smooth()).score


@pytest.mark.slow
def test_the_score_is_the_evidence_with_the_parameters_integrated_out() -> None:
    """Compared with a sum over a grid of signal and noise, for a covariance without length-scales."""
    X, seen = smooth()
    family = Fixed()
    found, prior = fit(family, X, seen), HyperPrior.of(family)
    axes = [centre + sd * np.linspace(-6, 6, 241) for centre, sd in zip(prior.centre, prior.sd, strict=True)]
    cells = [np.array(values) for values in itertools.product(*axes)]
    covariance = family.covariance_on(X)(np.empty(0))
    logs = [
        log_evidence(covariance, *np.exp(values), seen).value + prior.log_density(values) for values in cells
    ]
    step = np.prod([axis[1] - axis[0] for axis in axes])
    assert found.score == pytest.approx(np.logaddexp.reduce(logs) + np.log(step), abs=0.3)


@pytest.mark.parametrize("n", [40, 80])
def test_features_are_told_apart_by_few_observations(n: int) -> None:
    """One of six features matters: the BIC would keep one length-scale for hundreds of arms."""
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 6))
    seen = Observations(np.ones(n), np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=n))
    alike, apart = (StationaryFamily((1.0,) * 6, groups) for groups in ((0,) * 6, tuple(range(6))))
    assert fit(apart, X, seen).score > fit(alike, X, seen).score + 2.0


@pytest.mark.parametrize("seed", range(3))
def test_features_that_matter_alike_keep_one_length_scale(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 6))
    seen = Observations(np.ones(60), np.sin(X.sum(axis=1)) + 0.1 * rng.normal(size=60))
    shared = fit(StationaryFamily((1.0,) * 6, (0,) * 6), X, seen)
    apart = StationaryFamily((1.0,) * 6, tuple(range(6)))
    own = fit(apart, X, seen, prior=HyperPrior.of(apart, float(shared.log_scales[0])))
    assert shared.score > own.score


def test_two_observations_stay_near_the_priors() -> None:
    found = fit(FAMILY, np.eye(2), Observations(np.ones(2), np.array([-1.0, 1.0])))
    prior = HyperPrior.of(FAMILY)
    assert (np.abs(found.start.values - prior.centre) < 2 * prior.sd).all()


def test_too_few_evaluations_are_reported() -> None:
    X, seen = smooth()
    few = fit(FAMILY, X, seen, evaluations=2)
    assert few.outcome == STOPPED
    assert np.isfinite(few.start.values).all()
    assert few.score <= fit(FAMILY, X, seen).score


class Fixed(TanimotoFamily):
    """A covariance for which only signal and noise are learned."""

    def covariance_on(self, features: object) -> CovarianceAtScales:
        K = np.exp(-0.5 * (features[:, :1] - features[:, :1].T) ** 2)  # type: ignore[index]
        return lambda log_scales: Covariance(K, lambda G: np.empty(0))


class Broken(TanimotoFamily):
    """A covariance that cannot be factorised, whatever its settings."""

    def covariance_on(self, features: object) -> CovarianceAtScales:
        return lambda log_scales: Covariance(-1e3 * np.eye(len(features)), lambda G: np.empty(0))  # type: ignore[arg-type]


def test_what_cannot_be_factorised_falls_back_on_the_priors() -> None:
    X, seen = smooth()
    found = fit(Broken(), X, seen)
    assert found.outcome == PRIOR
    np.testing.assert_array_equal(found.start.values, prior_fit(Broken()).start.values)

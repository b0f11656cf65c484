"""The search ends well, or says that it did not."""

from __future__ import annotations

import numpy as np
import pytest

from manyarms.learning.evidence import Observations
from manyarms.learning.families import Bits, Covariance, Distances, Geometry
from manyarms.learning.fitting import CONVERGED, PRIOR, STOPPED, Prior, at_prior, fit

FAMILY = Distances((1.0, 1.0), (0, 1))


def smooth(n: int = 60, seed: int = 0) -> tuple[np.ndarray, Observations]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, Observations(np.ones(n), np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=n))


def test_the_gradient_vanishes_where_the_search_ends() -> None:
    X, seen = smooth()
    found = fit(FAMILY, X, seen)
    assert found.outcome == CONVERGED
    again = fit(FAMILY, X, seen, [found.values])
    np.testing.assert_allclose(again.values, found.values, atol=0.02)
    assert again.score == pytest.approx(found.score, abs=1e-3)


def test_an_irrelevant_feature_gets_the_longer_scale() -> None:
    found = fit(FAMILY, *smooth())
    assert found.log_scales[1] > found.log_scales[0] + 1.0
    assert np.sqrt(found.noise) == pytest.approx(0.1, rel=0.3)


def test_the_same_data_give_the_same_values() -> None:
    np.testing.assert_array_equal(fit(FAMILY, *smooth()).values, fit(FAMILY, *smooth()).values)


def test_one_length_scale_is_preferred_until_several_pay() -> None:
    """White noise: there is nothing that a second length-scale could explain."""
    rng = np.random.default_rng(1)
    X, seen = rng.normal(size=(80, 2)), Observations(np.ones(80), rng.normal(size=80))
    assert fit(Distances((1.0, 1.0), (0, 0)), X, seen).score > fit(FAMILY, X, seen).score
    assert fit(Distances((1.0, 1.0), (0, 0)), *smooth()).score < fit(FAMILY, *smooth()).score


def test_two_observations_stay_near_the_priors() -> None:
    found = fit(FAMILY, np.eye(2), Observations(np.ones(2), np.array([-1.0, 1.0])))
    prior = Prior.of(FAMILY)
    assert (np.abs(found.values - prior.centre) < 2 * prior.sd).all()


def test_too_few_evaluations_are_admitted() -> None:
    X, seen = smooth()
    few = fit(FAMILY, X, seen, evaluations=2)
    assert few.outcome == STOPPED
    assert np.isfinite(few.values).all()
    assert few.score <= fit(FAMILY, X, seen).score


class Broken(Bits):
    """A covariance that cannot be factorised, whatever its settings."""

    def on(self, features: object) -> Geometry:
        return lambda log_scales: Covariance(-1e3 * np.eye(len(features)), lambda G: np.empty(0))  # type: ignore[arg-type]


def test_what_cannot_be_factorised_falls_back_on_the_priors() -> None:
    X, seen = smooth()
    found = fit(Broken(), X, seen)
    assert found.outcome == PRIOR
    np.testing.assert_array_equal(found.values, at_prior(Broken()).values)

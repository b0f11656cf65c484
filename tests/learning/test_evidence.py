"""The evidence computed on different arms is that of all pulls, and its gradient is correct."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from manyarms.kernels import Scale
from manyarms.kernels.readings import Reading
from manyarms.learning.by_category import ByCategory
from manyarms.learning.kernel_families import Family, HammingFamily, StationaryFamily, TanimotoFamily
from manyarms.learning.marginal_likelihood import Observations, log_evidence, log_evidence_alone
from manyarms.learning.mixed_family import MixedFamily, Way, positions_family
from tests.learning import oracle

SPREADS = (1e-9, 1.0, 1e9, 3.0)
FAMILIES = {
    "rbf shared": StationaryFamily(SPREADS, (0, 0, 0, 0)),
    "rbf own": StationaryFamily(SPREADS, (0, 1, 2, 3)),
    "rbf constant column": StationaryFamily(SPREADS, (0, -1, 1, 1)),
    "matern shared": StationaryFamily(SPREADS, (0, 0, 0, 0), nu=2.5),
    "matern own": StationaryFamily(SPREADS, (0, 1, 2, 3), nu=2.5),
    "hamming": HammingFamily(),
    "tanimoto": TanimotoFamily(),
    "categories shared": positions_family(6),
    "categories own": positions_family(6).separated(),
    "RBF of categories": replace(positions_family(6), nu=None).separated(),
    "read in several ways": MixedFamily(
        (
            Way((Reading("number", (0,), scale=2.0),)),
            Way((Reading("name", (1,)),)),
            Way((Reading("present", (2,), (1.0, 2.0)), Reading("missing", (2,), (1.0,)))),
            Way((Reading("logarithm", (3,), (0.5,)),)),
            Way((Reading("rank", (4, 5), (1.0, 3.0)),)),
        ),
        separate=True,
    ),
    "effects by category": ByCategory(
        StationaryFamily((1.0, 2.0, 1.0, 1.0, 3.0, 1.0), (0, 1, 2, 3, 4, 5), nu=2.5),
        MixedFamily((Way((Reading("number", (0,)),)), Way((Reading("number", (4,)),))), separate=True),
        (2,),
        "column 2",
    ),
}


def features_for(family: Family, n: int, rng: np.random.Generator) -> np.ndarray:
    if isinstance(family, StationaryFamily):
        return rng.normal(size=(n, 4)) * SPREADS
    if isinstance(family, HammingFamily | MixedFamily | ByCategory):
        return rng.integers(4, size=(n, 6))
    return rng.integers(256, size=(n, 8)).astype(np.uint8)


def pulls(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The arm and the reward of each pull; some arms are pulled many times, some once."""
    owner = np.concatenate([np.arange(n), rng.integers(n, size=2 * n)])
    return owner, rng.normal(size=n)[owner] + 0.3 * rng.normal(size=3 * n)


def grouped(owner: np.ndarray, rewards: np.ndarray) -> Observations:
    counts = np.bincount(owner).astype(float)
    means = np.bincount(owner, weights=rewards) / counts
    scatter = float(((rewards - means[owner]) ** 2).sum())
    return Observations(counts, means, float((counts - 1).sum()), scatter)


def scales_of(family: Family, rng: np.random.Generator) -> np.ndarray:
    return family.typical + 0.3 * rng.normal(size=len(family.typical))


@pytest.mark.parametrize("name", FAMILIES)
def test_grouped_pulls_have_the_evidence_of_single_pulls(name: str) -> None:
    family, rng = FAMILIES[name], np.random.default_rng(1)
    X, (owner, rewards), theta = features_for(family, 12, rng), pulls(12, rng), scales_of(family, rng)
    found = log_evidence(family.covariance_on(X)(theta), 1.7, 0.2, grouped(owner, rewards))
    assert found is not None
    kernel = Scale(family.kernel(theta), 1.7)
    if name == "rbf constant column":
        X = np.where(np.arange(4) == 1, 0.0, X)
    assert found.value == pytest.approx(oracle.log_evidence(kernel, X[owner], rewards, 0.2), abs=1e-8)
    alone = log_evidence_alone(family.covariance_on(X)(theta).matrix, 1.7, 0.2, grouped(owner, rewards))
    assert alone == pytest.approx(found.value, abs=1e-10)
    assert found.mean == pytest.approx(oracle.posterior_of_mean(kernel, X[owner], rewards, 0.2), abs=1e-8)


@pytest.mark.parametrize("name", FAMILIES)
def test_gradient_is_the_finite_difference(name: str) -> None:
    family, rng = FAMILIES[name], np.random.default_rng(2)
    X, (owner, rewards) = features_for(family, 12, rng), pulls(12, rng)
    seen, geometry = grouped(owner, rewards), family.covariance_on(X)
    at = np.append(scales_of(family, rng), np.log([1.7, 0.2]))

    def value(values: np.ndarray) -> float:
        found = log_evidence(geometry(values[:-2]), *np.exp(values[-2:]), seen)
        assert found is not None
        return found.value

    found = log_evidence(geometry(at[:-2]), *np.exp(at[-2:]), seen)
    assert found is not None
    steps = 1e-5 * np.eye(len(at))
    differences = [(value(at + step) - value(at - step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(found.gradient, differences, rtol=1e-6, atol=1e-6)


def test_replicates_alone_measure_the_noise() -> None:
    """Far more replicates than arms: the evidence peaks at their pooled variance."""
    rng = np.random.default_rng(3)
    owner = np.repeat(np.arange(4), 500)
    rewards = rng.normal(size=4)[owner] + 0.25 * rng.normal(size=2000)
    seen, family = grouped(owner, rewards), StationaryFamily((1.0,), (0,))
    geometry = family.covariance_on(rng.normal(size=(4, 1)))
    grid = np.linspace(0.15, 0.35, 201)
    values = [log_evidence(geometry(np.zeros(1)), 1.0, sd**2, seen) for sd in grid]
    best = grid[int(np.argmax([found.value for found in values if found is not None]))]
    pooled = np.sqrt(seen.scatter / seen.degrees_of_freedom)
    assert best == pytest.approx(pooled, abs=0.002)


def test_a_covariance_that_is_not_positive_definite_has_no_evidence() -> None:
    family, X = StationaryFamily((1.0,), (0,)), np.linspace(0, 1e-6, 30)[:, None]
    seen = Observations(np.full(30, 1e12), np.linspace(-1, 1, 30))
    assert log_evidence(family.covariance_on(X)(np.zeros(1)), 1.0, 1e-30, seen) is None
    matrix = family.covariance_on(X)(np.zeros(1)).matrix
    assert log_evidence_alone(matrix, 1.0, 1e-30, seen) == -np.inf

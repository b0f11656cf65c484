"""Smooth kernels on dense pools of one or two features, met in random order.

Here K_S of all arms is singular to machine precision though no two arms are near-duplicates: what makes
an arm redundant is extrapolation from many others. The exact posterior must still come out, to 1e-6 of
the prior variance, however the arms arrive.
"""

from __future__ import annotations

import numpy as np
import pytest

import manyarms as ma
from tests.agreement.test_posterior_near_duplicates import WAYS
from tests.oracle import Ledger, exact

QUICK, *OTHERS = (0.25, 0.1, 0.2, 0.3, 0.4, 0.5, 1.0)
LENGTHSCALES = [QUICK, *(pytest.param(length, marks=pytest.mark.slow) for length in OTHERS)]


def normal_line(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(120, 1))


def normal_plane(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(120, 2))


def grid(rng: np.random.Generator) -> np.ndarray:
    return rng.permutation(np.linspace(0, 1, 120))[:, None]


SHAPES = {shape.__name__: shape for shape in (normal_line, normal_plane, grid)}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("lengthscale", LENGTHSCALES)
def test_all_pulled_arms_offered_gives_the_exact_variance(lengthscale: float, shape: str) -> None:
    kernel, ridge = ma.RBF(lengthscale), 0.2
    for seed in range(3):
        rng = np.random.default_rng(seed)
        features, ledger = SHAPES[shape](rng), Ledger(120)
        arms, rewards = rng.integers(120, size=300), rng.normal(size=300)
        ledger.pull(arms, rewards)
        expected = exact(kernel, features, ridge, ledger)
        for way, pull in WAYS.items():
            posterior, case = ma.Posterior(ma.Pool(features), kernel, ridge), f"{way}, seed {seed}"
            pull(posterior, arms, rewards)
            variance = np.abs(posterior.variance - ridge * expected.leverage).max()
            mean = np.abs(posterior.mean - expected.mean).max() / np.abs(rewards).max()
            assert (posterior.leverage > 0).all(), case
            assert variance < 1e-6, f"{case}: variance off by {variance:.1e} of the prior"
            assert mean < 5e-5, f"{case}: mean off by {mean:.1e} of the largest reward"

"""The expected gain is what further measurements bring on functions drawn from the model; it ends at zero."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_1samp

import manyarms as ma

SEEDS, N, BATCH, NOISE = 40, 200, 8, 0.1
ALPHA = 0.01  # of a two-sided test on the fixed seeds
KERNEL = ma.Matern(0.25, 2.5)


def gains(seed: int, rounds: int) -> tuple[list[float], list[float]]:
    """Expected and realised gain of each batch, on a function drawn from the kernel."""
    rng = np.random.default_rng(seed)
    X = rng.random((N, 2))
    f = np.linalg.cholesky(KERNEL.matrix(X, X) + 1e-9 * np.eye(N)) @ rng.standard_normal(N)
    opt = ma.Optimizer(ma.Pool(X), ma.GPUCB(kernel=KERNEL, noise_std=NOISE, width=2.0), seed=seed)
    start = rng.choice(N, BATCH, replace=False)
    opt.tell(arms=start, rewards=f[start] + NOISE * rng.standard_normal(BATCH))
    expected, realised = [], []
    for _ in range(rounds):
        expected.append(opt.expected_gain(BATCH).gain)
        before, batch = opt.best().arm, opt.ask(BATCH)
        opt.tell(batch, f[batch.arms] + NOISE * rng.standard_normal(BATCH))
        realised.append(float(f[opt.best().arm] - f[before]))
    return expected, realised


def test_realised_gains_are_as_expected():
    """The mean of realised − expected gain is 0 in each of three rounds (t-tests, α = 0.01 together)."""
    found = np.array([gains(seed, 3) for seed in range(SEEDS)])  # seeds × 2 × rounds
    expected, realised = found[:, 0], found[:, 1]
    for place in range(3):
        p = float(ttest_1samp(realised[:, place] - expected[:, place], 0.0).pvalue)
        means = realised[:, place].mean(), expected[:, place].mean()
        assert p > ALPHA / 3, f"round {place}: realised and expected {means}, p = {p:.4f}"
    wrong = ttest_1samp(realised[:, 0] - 2 * expected[:, 0], 0.0).pvalue
    assert wrong < 1e-6, "an estimate that is twice too large would not be noticed"
    assert np.corrcoef(expected.ravel(), realised.ravel())[0, 1] > 0.5


@pytest.mark.parametrize("seed", range(3))
def test_it_falls_to_zero_when_the_best_is_found(seed):
    expected, _ = gains(seed, 14)
    assert expected[0] > 0.1
    assert max(expected[-3:]) < 0.005

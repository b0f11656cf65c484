"""Rounds with new candidates: regret is sublinear, and the confidence bounds hold without the history.

Seeds are fixed; α is stated at each test.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import manyarms as ma
from tests.contextual.rounds import Stream, play

POLICIES = {
    "BKB": lambda kernel: ma.BKB(kernel=kernel, width=2.0),
    "BBKB": lambda kernel: ma.BBKB(kernel=kernel, width=2.0),
    "SGPTS": lambda kernel: ma.SGPTS(kernel=kernel, width=1.0),
}


def slope(name: str, seed: int, rounds: int) -> tuple[float, np.ndarray]:
    """How fast log R_t grows with log t between a quarter of the rounds and all of them."""
    stream = Stream(seed)
    regret = np.cumsum(play(ma.ContextualBandit(POLICIES[name](stream.kernel), seed), stream, rounds))
    return float(np.log(regret[-1] / regret[rounds // 4 - 1]) / np.log(4)), regret


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
def test_regret_is_sublinear(name):
    """20 seeds, T = 2000: the mean exponent of R_t is below 0.75 (one-sided t-test, α = 0.001)."""
    slopes = [slope(name, seed, 2000)[0] for seed in range(20)]
    assert stats.ttest_1samp(slopes, 0.75, alternative="less").pvalue < 0.001, slopes


@pytest.mark.parametrize("name", POLICIES)
def test_regret_is_far_below_random_choice(name):
    """One seed of the slow test: the last half of 400 rounds has a tenth of the regret of random rows."""
    stream = Stream(0)
    regret = play(ma.ContextualBandit(POLICIES[name](stream.kernel), 0), stream, 400)
    random = np.mean([truth.max() - truth.mean() for _, truth, _ in Stream(0).rounds(400)])
    assert regret[200:].mean() < 0.1 * random


@pytest.mark.slow
@pytest.mark.parametrize("oversampling", [0.2, 2.0])
def test_the_certified_width_covers_without_the_history(oversampling):
    """δ = 0.1, 60 runs of 150 rounds: |f − μ̃| ≤ βσ̃ at all rows of all rounds, except in few runs.

    Fewer than 60·0.1 = 6 failing runs are expected; 13 or more would have probability below 0.006.
    """
    failed = 0
    for seed in range(60):
        stream = Stream(seed)
        policy = ma.BKB(
            kernel=stream.kernel, noise_std=0.1, ridge=0.1, norm_bound=1.0, delta=0.1,
            oversampling=oversampling, width="certified",
        )  # fmt: skip
        bandit, held = ma.ContextualBandit(policy, seed, max_inducing=None), True
        for rows, truth, noise in stream.rounds(150):
            pick = bandit.ask(rows)
            state = bandit._state
            values = state.model.at(rows, state.prior_max)
            beta = state.width(bandit._settings)
            held &= bool((np.abs(truth - values.mean) <= beta * np.sqrt(values.leverage) + 1e-9).all())
            bandit.tell(pick, truth[pick.index] + noise)
        failed += not held
    assert failed < 13

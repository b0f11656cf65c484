"""Hallucinated pulls agree with real pulls in variance, whatever their order and however they are stored."""

from __future__ import annotations

import numpy as np
import pytest

import manyarms as ma
from manyarms.posterior.hallucination import Hallucination
from tests.runs import Problem


@pytest.mark.parametrize("seed", range(5))
def test_long_alternating_batches_agree_with_real_pulls(seed):
    """500 pulls of a few arms in random order: directions are summed up by arm many times over."""
    problem = Problem(seed, n_arms=60)
    posterior = ma.Posterior(problem.pool, problem.kernel, 0.2)
    posterior.update(range(12), range(20), np.zeros(20))
    rng = np.random.default_rng(seed)
    overlay, real = Hallucination(posterior), ma.Posterior(problem.pool, problem.kernel, 0.2)
    real.update(range(12), range(20), np.zeros(20))
    overlay.watch(range(30))
    for step in range(500):
        arm = int(rng.choice([3, 7, 25, 40, 59]))
        overlay.pull(arm)
        real.condition([arm], [0.0])
        if step == 250:
            overlay.watch(range(30, 60))
        if step % 50 == 0:
            np.testing.assert_allclose(overlay.leverage(), real.leverage, rtol=1e-8)
            np.testing.assert_allclose(overlay.leverage([1, 40]), real.leverage[[1, 40]], rtol=1e-8)
            np.testing.assert_allclose(overlay.watched_leverage, real.leverage[overlay.watched], rtol=1e-8)
    assert overlay._n_past < 50, "one direction per different arm, not per pull"


def test_undo_takes_back_and_the_posterior_never_moves():
    problem = Problem(0, n_arms=60)
    posterior = ma.Posterior(problem.pool, problem.kernel, 0.2)
    posterior.update([1, 2], [1, 2, 2], [0.1, 0.2, 0.3])
    before = posterior.leverage.copy()
    overlay = Hallucination(posterior)
    overlay.watch([5, 6])
    for arm in (4, 4, 5, 4):
        overlay.pull(arm)
    overlay.undo(2)
    assert overlay.pulls == [4, 4]
    other = Hallucination(posterior)
    other.pull(4, times=2)
    np.testing.assert_allclose(overlay.leverage(), other.leverage(), rtol=1e-12)
    np.testing.assert_allclose(overlay.watched_leverage, other.leverage([5, 6]), rtol=1e-12)
    assert (posterior.leverage == before).all()

"""Joint draws of the posterior at the arms that may be the best, for estimates of the gap (theory §4.12)."""

from __future__ import annotations

import math

import numpy as np

from manyarms.choice.highest import BoundRule, highest
from manyarms.embeddings.nystrom import covariances
from manyarms.pool.allowance import Allowance
from manyarms.run.belief import Belief
from manyarms.support.linalg import times_transposed
from manyarms.support.validation import Floats, Ints

CONFIDENCE = 0.95  # of an estimate
MOST_ARMS = 500  # arms of a joint draw
N_DRAWS = 1000
_JITTER = 1e-8
_REACH = 3.0  # posterior standard deviations above the mean by which arms are preferred


def joint_draws(belief: Belief, arm: int, rng: np.random.Generator) -> tuple[Ints, Floats]:
    """The arms drawn, which include `arm`, and N_DRAWS joint draws of f at them, on the model's scale.

    The others are the arms with the highest mean + 3 posterior standard deviations.
    """
    state = belief.state
    rule, everyone = BoundRule(_REACH * math.sqrt(state.ridge)), Allowance(state.over_pool.n_arms)
    rivals = highest(state.over_pool, rule, everyone, np.array([arm]), MOST_ARMS - 1).arms
    arms = np.sort(np.append(rivals, arm))
    normal = rng.standard_normal((N_DRAWS, len(arms)))
    covariance = belief.std_factor**2 * posterior_covariance(belief, arms)
    return arms, state.at(arms).mean + _correlated(normal, covariance)


def _correlated(normal: Floats, covariance: Floats) -> Floats:
    """Independent normal draws as rows, turned into draws with this covariance.

    That is normal @ Rᵀ with R Rᵀ equal to the covariance, up to _JITTER of its average variance.

    Neighbouring arms make the covariance singular to machine precision, which the jitter repairs; where it
    does not suffice, eigenvectors take ten times as long.
    """
    jitter = _JITTER * float(np.trace(covariance)) / len(covariance)
    try:
        factor = np.linalg.cholesky(covariance + jitter * np.eye(len(covariance)))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(covariance)
        return np.asarray(normal @ (vectors * np.sqrt(np.maximum(values, 0.0))).T)
    return times_transposed(normal, np.asarray(factor, dtype=np.float64))


def posterior_covariance(belief: Belief, arms: Ints) -> Floats:
    """The posterior covariance of f between these arms, λ c(x, y) of theory §2.5."""
    state, process = belief.state, belief.process
    z = state.rows(arms)
    covariance = state.ridge * (z @ state.weights.precision.apply(z.T))
    if state.keeps_residual:
        features = process.pool.take(arms)
        covariance += covariances(process.kernel, features, features) - z @ z.T
    return np.asarray(0.5 * (covariance + covariance.T))

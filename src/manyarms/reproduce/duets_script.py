"""What the authors' public script of DUETS does differently from the paper, built from this package's parts.

The script has T = 100, T₁ = 5, epochs of ⌈√(T·T_{j−1})⌉ steps and, for h₁ and h₂, points on the unit sphere
instead of the ball. Three of its rules are other rules than the paper's:

* a drawn point is inducing with probability 4 log(N·T_j)/(N·T_j), whatever the variances are;
* the trim is pointwise: x stays if μ̃(x) + βσ̃(x) ≥ max (μ̃ − βσ̃), instead of using the largest variance. The
  script's β counts σ̃ = σ/√λ; here it counts standard deviations σ, as for the other algorithms;
* in its ApproxDisKernelUCB every agent adds up the numbers zᵀz instead of the matrices zzᵀ, so that a scalar
  is added to every entry of the Gram matrix.

Its thresholds are D = T/(N log(NT)) = 1.45 for DisKernelUCB and D = 1/N = 0.1 for ApproxDisKernelUCB, which
has q̄ = 4.

The communication of this DUETS is that of the paper's messages. The agents need the variances of the inducing
points too in order to trim pointwise; that is not counted, and the script does not count it either.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import manyarms as ma
from manyarms.agents.baselines.approx_dis_kernel_ucb import ApproxAgent, ApproxDisKernelUCB
from manyarms.agents.protocol.coins import Coin
from manyarms.embeddings.nystrom import Nystrom
from manyarms.problems import Problem
from manyarms.support.validation import Floats, Ints

Evaluate = Callable[[Ints], Floats]  # the rewards of one step, one per agent


class ScalarGramAgent(ApproxAgent):
    """An agent that reports Σ zᵀz in every entry of its Gram matrix."""

    def _own_sums(self, embedding: Nystrom) -> tuple[Floats, Floats]:
        gram, vector = super()._own_sums(embedding)
        return np.full_like(gram, np.trace(gram)), vector


class ScalarGramUCB(ApproxDisKernelUCB):
    """ApproxDisKernelUCB as in the script."""

    def agent(self, number: int, domain: Any, coin: Coin) -> ScalarGramAgent:
        """One agent."""
        return ScalarGramAgent(self, number, domain, coin)


def epoch_lengths(horizon: int, first: int) -> list[int]:
    """T_1 = `first`, T_j = ⌈√(T·T_{j−1})⌉, the last one cut so that they sum to T."""
    lengths: list[int] = []
    length = first
    while (left := horizon - sum(lengths)) > 0:
        lengths.append(min(length, left))
        length = math.ceil(math.sqrt(horizon * length))
    return lengths


def inclusion(pulls: int) -> float:
    """The probability 4 log(n)/n with which each of the n pulls of an epoch is inducing."""
    return min(1.0, 4.0 * math.log(pulls) / pulls)


def kept(mean: Floats, std: Floats, width: float) -> NDArray[np.bool_]:
    """The pointwise trim: the arms whose upper bound is at least the highest lower bound."""
    return np.asarray(mean + width * std >= np.max(mean - width * std))


def on_sphere(problem: Problem, n_arms: int, seed: int) -> Floats:
    """Points of the domain; those of a ball are moved to its surface."""
    points = problem.points(n_arms, seed)
    return points / np.linalg.norm(points, axis=1, keepdims=True) if problem.shape == "ball" else points


def run(
    pool: ma.Pool, kernel: Any, settings: dict[str, Any], width: float, evaluate: Evaluate, seed: int
) -> tuple[Ints, Floats]:
    """The arms of every step and agent, and the real numbers sent at each step."""
    n_agents, horizon = settings["agents"], settings["horizon"]
    rng = np.random.default_rng([seed, 4])
    active, steps, sent = np.arange(pool.n_arms), [], np.zeros(horizon + 1)
    for length in epoch_lengths(horizon, settings["first_epoch"]):
        draws = active[rng.integers(len(active), size=(length, n_agents))]
        rewards = np.array([evaluate(step) for step in draws])
        steps.append(draws)
        done = sum(len(block) for block in steps)
        if done == horizon:
            break
        inducing = np.unique(draws[rng.random(draws.shape) < inclusion(draws.size)])
        posterior = ma.Posterior(pool, kernel, settings["ridge"])
        posterior.update(inducing, draws.ravel(), rewards.ravel())
        active = active[
            kept(posterior.mean[active], np.sqrt(np.maximum(posterior.variance[active], 0.0)), width)
        ]
        sent[done] = len(inducing) * (pool.n_features + 2) + 2
    return np.concatenate(steps), sent

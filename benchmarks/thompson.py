"""Thompson sampling: a step of S-GP-TS on 10⁵ arms against an exact joint draw, and its cost as t grows.

The textbook draw builds the posterior covariance of all arms and factorises it at every step, O(A³). It is
timed on the largest pool that is reasonable and extrapolated with the cube of the number of arms, once
counting the factorisation alone. The package's own exact form (`GPTS`, joint prior factorised once) is
extrapolated with the square, from its steps alone. CPU time, one thread.
"""

from __future__ import annotations

import time

import numpy as np

import manyarms as ma
from benchmarks import Row, at_least, at_most
from benchmarks.timing import cpu_seconds, one_thread

KERNEL, RIDGE, NOISE = ma.RBF(0.3), 0.04, 0.2
SETTINGS = {"kernel": KERNEL, "ridge": RIDGE, "noise_std": NOISE, "width": 1.0}


def problem(n_arms: int) -> tuple[ma.Pool, np.ndarray]:
    rng = np.random.default_rng(0)
    features, centres = rng.random((n_arms, 3)), rng.random((40, 3))
    values = KERNEL.matrix(features, centres) @ rng.normal(size=40)
    return ma.Pool(features), values / values.max()


def steps(opt: ma.Optimizer, truth: np.ndarray, n: int) -> float:
    """Run n steps and return the CPU seconds per step."""
    noise = np.random.default_rng(2).normal(size=n) * NOISE
    start = time.process_time()
    for error in noise:
        batch = opt.ask()
        opt.tell(batch, truth[batch.arms] + error)
    return (time.process_time() - start) / n


def started(policy: ma.Policy, n_arms: int, pulls: int) -> tuple[ma.Optimizer, np.ndarray]:
    """A run that has used `pulls` results, half of them of 300 good arms."""
    pool, truth = problem(n_arms)
    rng = np.random.default_rng(3)
    good = rng.choice(np.argsort(truth)[-n_arms // 10 :], size=300)
    arms = np.concatenate([rng.integers(n_arms, size=pulls // 2), rng.choice(good, size=pulls - pulls // 2)])
    opt = ma.Optimizer(pool, policy, seed=0, storage="float32")
    opt.tell(arms=arms, rewards=truth[arms] + NOISE * rng.normal(size=pulls))
    steps(opt, truth, 2)
    return opt, truth


def textbook_draw(n_arms: int, pulls: int) -> tuple[float, float]:
    """CPU seconds of one exact joint posterior draw, and of its factorisation alone."""
    pool, truth = problem(n_arms)
    rng = np.random.default_rng(3)
    X, arms = pool.features, rng.integers(n_arms, size=pulls)
    rewards = truth[arms] + NOISE * rng.normal(size=pulls)
    start = time.process_time()
    cross = KERNEL.matrix(X[arms], X)
    noisy = cross[:, arms] + RIDGE * np.eye(pulls)
    mean = cross.T @ np.linalg.solve(noisy, rewards)
    covariance = KERNEL.matrix(X, X) - cross.T @ np.linalg.solve(noisy, cross)
    covariance[np.diag_indices(n_arms)] += 1e-6
    seconds = cpu_seconds(lambda: mean + np.linalg.cholesky(covariance) @ rng.normal(size=n_arms))
    return time.process_time() - start, seconds


def exact_against_sparse(smoke: bool) -> list[Row]:
    """A step with rules (6) and (7) at t = 2 000 on 10⁵ arms, compared with the extrapolated exact draw."""
    n_arms, fits, pulls, n = (2_000, 500, 200, 3) if smoke else (100_000, 8_000, 2_000, 20)
    rows = []
    with one_thread():
        whole, factorised = textbook_draw(fits, min(pulls, fits // 4))
        cubed, squared = (n_arms / fits) ** 3, (n_arms / fits) ** 2
        opt, truth = started(ma.GPTS(**SETTINGS), fits // 2, pulls // 2)
        own = steps(opt, truth, n) * 4 * squared
        for name, policy in {
            "rule (6)": ma.SGPTS(**SETTINGS),
            "rule (7)": ma.SGPTS(**SETTINGS, rule="features", size=300),
        }.items():
            opt, truth = started(policy, n_arms, pulls)
            each = steps(opt, truth, n)
            label = f"S-GP-TS {name}, {n_arms} arms, t = {pulls}, m = {opt.posterior.state.sketch_size}"
            rows += [
                Row(f"{label}: seconds per step", each, "s"),
                at_least(f"{label}: times faster than a textbook draw", factorised * cubed / each, 50, "×"),
                Row(f"{label}: times faster than GPTS", own / each, "×"),
            ]
        rows.append(Row(f"textbook draw on {fits} arms", whole, "s"))
    return rows


def flat_in_t(smoke: bool) -> list[Row]:
    """CPU seconds per step at t = 8 000 relative to t = 2 000, when the sketch has reached its size."""
    n_arms, early, late, n = (1_000, 100, 200, 5) if smoke else (20_000, 2_000, 8_000, 100)
    with one_thread():
        opt, truth = started(ma.SGPTS(**SETTINGS), n_arms, early)
        first, size = steps(opt, truth, n), opt.posterior.state.sketch_size
        steps(opt, truth, late - early)
        last = steps(opt, truth, n)
    label = f"S-GP-TS (6), {n_arms} arms, m {size} → {opt.posterior.state.sketch_size}"
    return [at_most(f"{label}: step at t = {late} relative to t = {early}", last / first, 1.5)]


BENCHMARKS = [exact_against_sparse, flat_in_t]

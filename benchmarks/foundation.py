"""The posterior: a step compared with recomputing, a step compared with one pass over memory, peak memory.

All three use a pool of standard normal features with 8 columns, the kernel `RBF(5 ** 0.5)` and ridge 0.2
(the published settings of the BBKB experiments).
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

import numpy as np

import manyarms as ma
from benchmarks import Row, at_least, at_most
from benchmarks.timing import cpu_seconds, peak_of

KERNEL = ma.RBF(5**0.5)
RIDGE = 0.2


@dataclass(frozen=True)
class Settings:
    """Sizes of the three measurements."""

    n_arms: int = 20_000
    steps: int = 300
    every: int = 10  # the slow textbook version is timed only at every tenth step
    sketch_size: int = 400
    repeats: int = 41
    large_n_arms: int = 1_000_000
    large_sketch_size: int = 300


FULL = Settings()
SMOKE = Settings(
    n_arms=300, steps=20, every=5, sketch_size=24, repeats=3, large_n_arms=2_000, large_sketch_size=20
)


def _settings(smoke: bool) -> Settings:
    return SMOKE if smoke else FULL


def _features(n_arms: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n_arms, 8))


def step(posterior: ma.Posterior, arm: int, reward: float) -> tuple[np.ndarray, np.ndarray]:
    """Append an arm, pull it, and read mean and variance of every arm."""
    posterior.update([arm], [arm], [reward])
    return posterior.mean, posterior.variance


def textbook(features: np.ndarray, arms: np.ndarray, rewards: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same mean and variance with kernel matrix, embedding and V computed from scratch (theory §2.2)."""
    K_S = KERNEL.matrix(features[arms], features[arms])
    values, vectors = np.linalg.eigh(K_S)
    kept = values > 1e-10 * values[-1]
    Z = KERNEL.matrix(features, features[arms]) @ (vectors[:, kept] / np.sqrt(values[kept]))
    V = Z[arms].T @ Z[arms] + RIDGE * np.eye(Z.shape[1])
    mean = Z @ np.linalg.solve(V, Z[arms].T @ rewards)
    quadratic = np.einsum("ij,ij->i", Z @ np.linalg.inv(V), Z)
    residual = np.maximum(KERNEL.diag(features) - np.einsum("ij,ij->i", Z, Z), 0.0)
    return mean, residual + RIDGE * quadratic


def steps_against_scratch(smoke: bool) -> list[Row]:
    """CPU time of all steps: incremental updates compared with recomputing from scratch.

    The incremental steps are timed twice: alone, at the start of the process, and alternating with the
    textbook version, so that other load on the machine affects both. Alone they are slower, because memory
    that the process uses for the first time has to be requested from the system page by page.
    """
    s = _settings(smoke)
    features, rng = _features(s.n_arms), np.random.default_rng(1)
    arms, rewards = rng.permutation(s.n_arms)[: s.steps], rng.normal(size=s.steps)
    step(ma.Posterior(ma.Pool(features[:50]), KERNEL, RIDGE), 0, 0.0)  # loads libraries at their first use
    posterior = ma.Posterior(ma.Pool(features), KERNEL, RIDGE)
    alone = cpu_seconds(lambda: [step(posterior, *pull) for pull in zip(arms, rewards, strict=True)])
    posterior = ma.Posterior(ma.Pool(features), KERNEL, RIDGE)
    in_turns = scratch = 0.0
    for t in range(1, s.steps + 1):
        in_turns += cpu_seconds(lambda t=t: step(posterior, arms[t - 1], rewards[t - 1]))
        if t % s.every == 0:
            scratch += s.every * cpu_seconds(lambda t=t: textbook(features, arms[:t], rewards[:t]))
    mean, variance = textbook(features, arms, rewards)
    error = max(np.abs(posterior.mean - mean).max(), np.abs(posterior.variance - variance).max())
    size, sampled = f"{s.steps} steps, {s.n_arms} × 8 pool", f"every {s.every}th step timed, times {s.every}"
    return [
        Row(f"{size}: from scratch", scratch, "s CPU", note=sampled),
        Row(f"{size}: incremental, in turns", in_turns, "s CPU"),
        Row(f"{size}: incremental, alone", alone, "s CPU", note="first use of its memory"),
        at_least(f"{size}: from scratch / incremental, in turns", scratch / in_turns, 20, "times"),
        at_least(f"{size}: from scratch / incremental, alone", scratch / alone, 20, "times"),
        at_most(f"{size}: largest difference of the two", error, 1e-6, note="in the same run"),
    ]


def step_against_pass(smoke: bool) -> list[Row]:
    """A step at sketch size m compared with a matrix–vector product of the same size, alternating."""
    s = _settings(smoke)
    rng = np.random.default_rng(2)
    arms = rng.permutation(s.n_arms)[: s.sketch_size + s.repeats]
    posterior = ma.Posterior(ma.Pool(_features(s.n_arms)), KERNEL, RIDGE)
    first = arms[: s.sketch_size - s.repeats // 2]
    posterior.update(first, first, rng.normal(size=len(first)))
    columns, vector = rng.normal(size=(s.n_arms, s.sketch_size)), rng.normal(size=s.sketch_size)
    ours, plain = [], []
    for arm in arms[len(first) : len(first) + s.repeats].tolist():
        ours.append(cpu_seconds(lambda arm=arm: step(posterior, arm, 0.5)))
        plain.append(cpu_seconds(lambda: columns @ vector))
    step_ms, pass_ms = 1e3 * statistics.median(ours), 1e3 * statistics.median(plain)
    size = f"{s.n_arms} × {s.sketch_size}"
    return [
        Row(f"{size}: step (append + pull + all values)", step_ms, "ms CPU", note="median"),
        Row(f"{size}: matrix–vector product", pass_ms, "ms CPU", note="median"),
        at_most(f"{size}: step / matrix–vector product", step_ms / pass_ms, 1.3, "times"),
    ]


def fill_large_pool(n_arms: int, sketch_size: int) -> None:
    """Grow a sketch in single precision, ten inducing arms and ten pulls at a time."""
    rng = np.random.default_rng(3)
    pool = ma.Pool(rng.standard_normal((n_arms, 8), dtype=np.float32))
    posterior = ma.Posterior(pool, KERNEL, RIDGE, storage=np.float32)
    for arms in rng.permutation(n_arms)[:sketch_size].reshape(-1, 10):
        posterior.update(arms, arms, rng.normal(size=10))
    assert posterior.state.sketch_size == sketch_size
    assert np.isfinite(posterior.mean).all()
    assert (posterior.variance > 0).all()


def memory(smoke: bool) -> list[Row]:
    """Peak resident memory of a fresh process."""
    s = _settings(smoke)
    peak = peak_of("benchmarks.foundation", "fill_large_pool", s.large_n_arms, s.large_sketch_size)
    name = f"{s.large_n_arms} × 8 pool, m = {s.large_sketch_size}, float32: peak resident"
    return [at_most(name, peak / 1e9, 3, "GB", note="includes Python and its libraries")]


BENCHMARKS = [steps_against_scratch, step_against_pass, memory]

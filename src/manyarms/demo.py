"""What `make demo` runs: BBKB finds a good arm among 20 000 from 2 000 noisy evaluations."""

from __future__ import annotations

import sys
import time

import numpy as np

import manyarms as ma
from manyarms.validation import Floats

N_ARMS, BUDGET, NOISE, LENGTHSCALE = 20_000, 2_000, 0.1, 0.25


def generated_problem(seed: int, n_arms: int) -> tuple[ma.Pool, Floats]:
    """Candidates in the unit cube and their true values: 40 smooth hills and hollows, the highest at 1."""
    rng = np.random.default_rng(seed)
    features, centres = rng.random((n_arms, 3)), rng.random((40, 3))
    values = ma.RBF(LENGTHSCALE).matrix(features, centres) @ rng.normal(size=40)
    return ma.Pool(features), values / values.max()


def main() -> None:
    """Run and report."""
    pool, truth = generated_problem(seed=0, n_arms=N_ARMS)
    noise = np.random.default_rng(1)
    policy = ma.BBKB(kernel=ma.RBF(LENGTHSCALE), noise_std=NOISE, width=3.0)
    print(f"{N_ARMS} candidates, {BUDGET} evaluations with noise of standard deviation {NOISE}")
    started = time.perf_counter()
    result = ma.maximize(
        lambda arm: float(truth[arm.index] + NOISE * noise.standard_normal()),
        pool,
        budget=BUDGET,
        policy=policy,
        seed=0,
        progress=sys.stderr.isatty(),
    )
    seconds = time.perf_counter() - started
    report(result, truth, seconds)


def report(result: ma.Result, truth: Floats, seconds: float) -> None:
    """Print what was found."""
    best, trace = result.best, result.optimizer.trace
    regrets = truth.max() - truth[result.arms]
    sizes = [len(record.arms) for record in trace]
    print(f"best arm found    {best.id}: model {best.mean:.3f} ± {best.std:.3f}, true {truth[best.arm]:.4f}")
    print(f"known optimum     {int(truth.argmax())}: true {truth.max():.4f}")
    print(f"regret            {regrets.sum():.1f} in all, {regrets.mean():.4f} a step, "
          f"{regrets[-len(regrets) // 10 :].mean():.4f} a step in the last tenth")  # fmt: skip
    random = (truth.max() - truth).mean()
    print(f"random choice     {random * len(regrets):.1f} in all, {random:.4f} a step")
    print(f"batches           {len(sizes)}, the largest {max(sizes)}")
    tried = len(result.optimizer.history)
    print(f"sketch            {trace[-1].dictionary_size} inducing arms, {tried} arms tried")
    print(f"seconds           {seconds:.1f}")


if __name__ == "__main__":
    main()

"""The precision of the stored columns that a run chooses by itself."""

from __future__ import annotations

import numpy as np
import pytest

import manyarms as ma
from manyarms.posterior.storage import SINGLE_FROM

KERNEL = ma.RBF(1.0)


@pytest.mark.parametrize(
    ("n_arms", "n_features", "policy", "expected"),
    [
        (SINGLE_FROM, 3, ma.BKB(kernel=KERNEL), "float32"),
        (SINGLE_FROM, 3, ma.SGPTS(kernel=KERNEL), "float32"),
        (SINGLE_FROM - 1, 3, ma.BKB(kernel=KERNEL), "float64"),
        (SINGLE_FROM, 2, ma.BKB(kernel=KERNEL), "float64"),
        (SINGLE_FROM, 3, ma.GPUCB(kernel=KERNEL), "float64"),
        (SINGLE_FROM, 3, ma.GPBUCB(kernel=KERNEL), "float64"),
    ],
    ids=["large", "Thompson draws", "smaller", "two features", "exact", "exact batches"],
)
def test_single_precision_is_for_sketches_on_large_pools(n_arms, n_features, policy, expected) -> None:
    pool = ma.Pool(np.zeros((n_arms, n_features), dtype=np.float32))
    run = ma.Optimizer(pool, policy)
    assert run.context.settings()["storage"] == expected
    assert run.posterior.storage == np.dtype(expected)
    other = {"float32": "float64", "float64": "float32"}[expected]
    assert ma.Optimizer(pool, policy, storage=other).posterior.storage == np.dtype(other)


def test_both_precisions_choose_the_same_arms() -> None:
    """A learned model on a smooth function; arms with nearly equal bounds may change places."""
    X = np.random.default_rng(0).random((3000, 4))
    truth = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2]
    arms = []
    for storage in ("float64", "float32"):
        run = ma.Optimizer(ma.Pool(X), seed=1, budget=80, storage=storage)
        for _ in range(4):
            batch = run.ask(20)
            run.tell(batch, truth[batch.arms])
        arms.append(run.history.arms)
    assert len(np.intersect1d(*arms)) >= 76

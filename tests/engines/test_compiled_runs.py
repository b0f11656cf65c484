"""Whole runs with compiled passes: the arms of numpy, in any division of the pool."""

from __future__ import annotations

import numpy as np
import pytest

import manyarms as ma
from manyarms.engines import base
from manyarms.support import compiled

KERNEL = ma.RBF(0.6)
POLICIES = {
    "BKB": ma.BKB(kernel=KERNEL),
    "BBKB": ma.BBKB(kernel=KERNEL),
    "GPBUCB": ma.GPBUCB(kernel=KERNEL),
    "SGPTS": ma.SGPTS(kernel=KERNEL, prior_size=60),
}


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "BLOCK", 64)
    monkeypatch.setattr("manyarms.pool.pool._MAX_BLOCK_ROWS", 64)
    monkeypatch.setattr("manyarms.posterior.shard._REBUILD_ROWS", 64)


def chosen(policy: ma.Policy, storage: type, shards: int, threads: int = 1) -> tuple[list[int], np.ndarray]:
    """The arms of a run, and the variance of every arm at its end."""
    rng = np.random.default_rng(1)
    features = rng.random((900, 3))
    truth = np.sin(5 * features[:, 0]) + features[:, 1] ** 2
    engine = ma.engines.Local(shards=shards, threads=threads)
    opt = ma.Optimizer(ma.Pool(features), policy, seed=2, storage=storage, engine=engine)
    arms: list[int] = []
    for n in [1] * 20 + [3, 1, 12, 1, 1]:
        batch = opt.ask(n)
        arms += batch.arms.tolist()
        opt.tell(batch, truth[batch.arms] + 0.1 * rng.normal(size=len(batch)))
    return arms, opt.predict(np.arange(900))[1]


@pytest.mark.parametrize("storage", [np.float64, np.float32])
@pytest.mark.parametrize("name", POLICIES)
def test_compiled_runs_choose_the_arms_of_numpy(name, storage, monkeypatch) -> None:
    arms, std = chosen(POLICIES[name], storage, 1)
    monkeypatch.setattr(compiled, "COMPILED_FROM", 0)
    compiled_arms, compiled_std = chosen(POLICIES[name], storage, 1)
    assert compiled_arms == arms
    np.testing.assert_allclose(compiled_std, std, atol=1e-6 if storage is np.float64 else 1e-3)
    if storage is np.float32:  # compiled sums are in double precision
        assert not np.array_equal(compiled_std, std), "the passes were not compiled"


@pytest.mark.parametrize("name", POLICIES)
def test_compiled_runs_do_not_depend_on_the_division(name, monkeypatch) -> None:
    monkeypatch.setattr(compiled, "COMPILED_FROM", 0)
    arms, std = chosen(POLICIES[name], np.float32, 1)
    for shards, threads in ((2, 2), (5, 1), (14, 2)):
        found, found_std = chosen(POLICIES[name], np.float32, shards, threads)
        assert found == arms
        np.testing.assert_array_equal(found_std, std)

"""Columns in memory, in files, or computed again: the same values to the last bit, and the same arms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import manyarms as ma
from manyarms.engines import base

N_ARMS, SMALL_BLOCK = 1500, 64
KERNEL = ma.Matern(lengthscale=0.7)
POLICIES = {
    "BKB": ma.BKB(kernel=KERNEL),
    "BBKB": ma.BBKB(kernel=KERNEL),
    "BBKB, local rule": ma.BBKB(kernel=KERNEL, local=True),
    "GPBUCB": ma.GPBUCB(kernel=KERNEL),
    "SGPTS": ma.SGPTS(kernel=KERNEL, prior_size=60),
    "RFFTS": ma.RFFTS(kernel=ma.RBF(0.7)),
    "learned": None,
}


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "BLOCK", SMALL_BLOCK)
    monkeypatch.setattr("manyarms.pool.pool._MAX_BLOCK_ROWS", SMALL_BLOCK)
    monkeypatch.setattr("manyarms.posterior.shard._REBUILD_ROWS", SMALL_BLOCK)
    monkeypatch.setattr("manyarms.support.column_store.PRODUCT_ROWS", SMALL_BLOCK)
    monkeypatch.setattr("manyarms.support.recomputed_columns.PRODUCT_ROWS", SMALL_BLOCK)
    monkeypatch.setattr("manyarms.support.column_store.PANEL", 16)  # so that there are several panels
    monkeypatch.setattr("manyarms.support.column_room.PANEL", 16)


def campaign(name: str, seed: int, engine: object, storage: type = np.float64) -> tuple:
    """The arms of a run, and mean and standard deviation of every arm at its end."""
    rng = np.random.default_rng(seed)
    features = rng.random((N_ARMS, 3))
    features[700:720] = features[20:40]  # ties have to be broken by index
    truth = np.sin(5 * features[:, 0]) + features[:, 1] ** 2
    opt = ma.Optimizer(ma.Pool(features), POLICIES[name], seed=seed, storage=storage, engine=engine)
    arms: list[int] = []
    for n in [24, 25, 25, 24] if name == "learned" else [12, 5, None, None, 7, 1, 1, 30, 2]:
        batch = opt.ask(n) if n else opt.ask(at_most=30)
        arms += batch.arms.tolist()
        rewards = truth[batch.arms] + 0.1 * rng.normal(size=len(batch))
        late = len(batch) // 3
        opt.tell(batch.tickets[late:], rewards[late:])
    return arms, *opt.predict()


def same(found: tuple, expected: tuple) -> bool:
    """Whether arms, means and standard deviations are equal to the last bit."""
    return found[0] == expected[0] and all(map(np.array_equal, found[1:], expected[1:]))


@pytest.mark.parametrize("way", ["disk", "recompute"])
def test_a_learned_run_is_the_same_as_in_memory(way: str, tmp_path: Path) -> None:
    expected = campaign("learned", 0, ma.engines.Local(shards=1, storage="memory"), np.float32)
    engine = ma.engines.Local(shards=3, storage=way, folder=tmp_path)
    assert same(campaign("learned", 0, engine, np.float32), expected)


@pytest.mark.slow
@pytest.mark.parametrize("storage", [np.float64, np.float32])
@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_is_the_same_as_in_memory(name: str, storage: type, tmp_path: Path) -> None:
    expected = campaign(name, 1, ma.engines.Local(shards=1, storage="memory"), storage)
    one_panel = 16 * N_ARMS * 8  # the first panel fits into memory, further ones do not
    for engine in (
        ma.engines.Local(shards=3, storage="disk", folder=tmp_path),
        ma.engines.Local(shards=3, storage="recompute"),
        ma.engines.Local(shards=2, folder=tmp_path, memory=one_panel),
    ):
        assert same(campaign(name, 1, engine, storage), expected), engine

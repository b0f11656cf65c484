"""The arms chosen do not depend on how the pool is cut into shards, or on the number of threads."""

from __future__ import annotations

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
    "MiniGPUCB": ma.MiniGPUCB(kernel=KERNEL),
    "SGPTS": ma.SGPTS(kernel=KERNEL, prior_size=60),
    "SGPTS, distinct": ma.SGPTS(kernel=KERNEL, prior_size=60, distinct=True),
    "EpsGreedy": ma.EpsGreedy(kernel=KERNEL),
    "SOFUL": ma.SOFUL(),
    "learned": None,
}


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shards of a few hundred arms, cut at multiples of 64."""
    monkeypatch.setattr(base, "BLOCK", SMALL_BLOCK)
    monkeypatch.setattr("manyarms.pool.pool._MAX_BLOCK_ROWS", SMALL_BLOCK)
    monkeypatch.setattr("manyarms.posterior.shard._REBUILD_ROWS", SMALL_BLOCK)


def problem(seed: int) -> tuple[ma.Pool, np.ndarray]:
    """Some rows are equal, so that ties have to be broken by index."""
    rng = np.random.default_rng(seed)
    features = rng.random((N_ARMS, 3))
    features[700:720] = features[20:40]
    return ma.Pool(features), np.sin(5 * features[:, 0]) + features[:, 1] ** 2


def chosen(
    policy: ma.Policy | None, seed: int, engine: ma.engines.Local, sizes: list[int | None]
) -> list[int]:
    pool, truth = problem(seed)
    rng = np.random.default_rng(seed)
    opt = ma.Optimizer(pool, policy, seed=seed, engine=engine)
    arms: list[int] = []
    for n in sizes:
        batch = opt.ask(n) if n else opt.ask(at_most=30)
        arms += batch.arms.tolist()
        rewards = truth[batch.arms] + 0.1 * rng.normal(size=len(batch))
        late = len(batch) // 3  # some results stay out, so that pending pulls count
        opt.tell(batch.tickets[late:], rewards[late:])
    opt.predict(np.arange(0, N_ARMS, 7))
    return arms


def sizes(policy: str) -> list[int | None]:
    return [24, 25, 25, 24] if policy == "learned" else [None, 5, None, None, 7, None, None, None, 30, None]


@pytest.mark.parametrize("name", POLICIES)
def test_the_same_arms_in_1_and_5_shards(name: str) -> None:
    expected = chosen(POLICIES[name], 0, ma.engines.Local(shards=1), sizes(name))
    assert chosen(POLICIES[name], 0, ma.engines.Local(shards=5, threads=2), sizes(name)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("name", POLICIES)
def test_the_same_arms_in_any_number_of_shards_and_threads(name: str, seed: int) -> None:
    expected = chosen(POLICIES[name], seed, ma.engines.Local(shards=1), sizes(name))
    for engine in (
        ma.engines.Local(shards=2, threads=1),
        ma.engines.Local(shards=2, threads=2),
        ma.engines.Local(shards=5, threads=1),
        ma.engines.Local(shards=16, threads=2),
    ):
        assert chosen(POLICIES[name], seed, engine, sizes(name)) == expected, engine


@pytest.mark.parametrize("storage", [np.float64, np.float32])
def test_every_value_is_the_same_to_the_last_bit(storage: type) -> None:
    pool, truth = problem(3)
    found = []
    for shards in (1, 2, 5, 16):
        opt = ma.Optimizer(
            pool, ma.BBKB(kernel=KERNEL), seed=3, storage=storage, engine=ma.engines.Local(shards=shards)
        )
        for _ in range(6):
            batch = opt.ask(20)
            opt.tell(batch, truth[batch.arms])
        found.append(opt.predict())
        assert len(opt.posterior.state.over_pool.ranges) == shards
    for mean, std in found[1:]:
        assert np.array_equal(mean, found[0][0])
        assert np.array_equal(std, found[0][1])


def test_a_run_goes_on_with_another_number_of_shards(tmp_path) -> None:
    """Saved with two shards, loaded with five, grown by some arms, and restored from its compact form."""
    pool, truth = problem(4)
    runs = {}
    for shards in (1, 2):
        opt = ma.Optimizer(pool, ma.BKB(kernel=KERNEL), seed=4, engine=ma.engines.Local(shards=shards))
        for _ in range(30):
            batch = opt.ask()
            opt.tell(batch, truth[batch.arms])
        opt.save(tmp_path / f"{shards}.npz")
        runs[shards] = opt
    other = ma.Optimizer.load(tmp_path / "2.npz", engine=ma.engines.Local(shards=5))
    more = np.random.default_rng(0).random((100, 3))
    for opt in (runs[1], runs[2], other):
        opt.add_arms(more)
    asked = []
    for opt in (runs[1], runs[2], other):
        batches = []
        for _ in range(10):
            batch = opt.ask()
            batches += batch.arms.tolist()
            opt.tell(batch, np.cos(batch.arms))
        asked.append(batches)
    assert asked[0] == asked[1] == asked[2]


def test_versions_are_forgotten_when_nothing_refers_to_them() -> None:
    pool, truth = problem(5)
    opt = ma.Optimizer(pool, ma.BKB(kernel=KERNEL), seed=5, engine=ma.engines.Local(shards=2))
    for _ in range(20):
        batch = opt.ask()
        opt.tell(batch, truth[batch.arms])
    shards = opt.posterior.state.over_pool.shards
    assert all(len(shard.versions) <= 3 for shard in shards.shards)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "two", True])
def test_a_wrong_number_of_shards_is_refused(wrong: object) -> None:
    with pytest.raises(ma.errors.InvalidParameterError):
        ma.engines.Local(shards=wrong)
    with pytest.raises(ma.errors.InvalidParameterError):
        ma.engines.Local(threads=wrong)
    with pytest.raises(ma.errors.InvalidParameterError):
        ma.Optimizer(problem(0)[0], engine="threads")

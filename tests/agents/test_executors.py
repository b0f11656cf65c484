"""A run is the same wherever its agents execute."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import manyarms as ma
from manyarms import agents, errors
from tests.agents.support import KERNEL, coins, rewards, small_pool

POOL = small_pool(100)
ALGORITHMS: dict[str, Callable[[], Any]] = {
    "duets": lambda: agents.DUETS(KERNEL, 0.2, 2, 20, width=0.5),
    "dis": lambda: agents.DisKernelUCB(KERNEL, 0.2, 2, 8),
    "approx": lambda: agents.ApproxDisKernelUCB(KERNEL, 0.2, 2, 8),
    "separate": lambda: agents.NKernelUCB(KERNEL, 0.2, 2, 8),
}


def compare(name: str, executor: Any) -> None:
    plain = agents.run(ALGORITHMS[name](), POOL, rewards(1), seed=1)
    other = agents.run(ALGORITHMS[name](), POOL, rewards(1), seed=1, executor=executor)
    assert plain.cost == other.cost
    for one, two in (
        (plain.arms, other.arms),
        (plain.rewards, other.rewards),
        (plain.features, other.features),
    ):
        assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_threads(name: str) -> None:
    compare(name, "threads")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_processes(name: str) -> None:
    compare(name, "processes")


def test_processes_once() -> None:
    compare("duets", "processes")


def failing(pulls: agents.Pulls) -> Any:
    raise ZeroDivisionError(f"agent {pulls.agent}")


@pytest.mark.parametrize(
    "executor", ["sequential", "threads", pytest.param("processes", marks=pytest.mark.slow)]
)
def test_an_evaluation_that_fails_is_the_callers_to_see(executor: Any) -> None:
    with pytest.raises(ZeroDivisionError, match="agent 0"):
        agents.run(ALGORITHMS["duets"](), POOL, failing, seed=0, executor=executor)


def dying(pulls: agents.Pulls) -> Any:
    """Evaluate pulls; the process of agent 1 dies in the second epoch."""
    if pulls.agent == 1 and pulls.step > 0:
        os._exit(1)
    return np.zeros(len(pulls))


@pytest.mark.slow
def test_a_process_that_dies_in_the_middle_of_an_epoch_is_left_out() -> None:
    result = agents.run(ALGORITHMS["duets"](), POOL, dying, seed=0, executor="processes")
    assert [record.left_out for record in result.server.records] == [(), (1,), (1,), (1,)][
        : len(result.server.records)
    ]
    assert result.unfinished == (1,)
    assert len(result.arms[0]) == 20


def test_rewards_nobody_asked_for_are_refused() -> None:
    for make in ALGORITHMS.values():
        agent = make().agent(0, POOL, agents.Coin.of_agent(0, 0))
        with pytest.raises(errors.InvalidRewardError, match="no pending"):
            agent.tell({0: 1.0})


@pytest.mark.parametrize("send", ["indices", "features"])
def test_fingerprints(send: Any) -> None:
    """Packed bits keep their type, whether they are sent as indices or as features."""
    bits = np.packbits(np.random.default_rng(0).random((80, 64)) < 0.3, axis=1)
    pool, settings = ma.Pool(bits), {"kernel": ma.Tanimoto(), "ridge": 0.2, "n_agents": 2, "send": send}
    for algorithm in (
        agents.DUETS(horizon=20, width=0.5, **settings),
        agents.DisKernelUCB(horizon=8, sync_threshold=2.0, **settings),
        agents.ApproxDisKernelUCB(horizon=8, sync_threshold=5.0, **settings),
    ):
        result = agents.run(algorithm, pool, lambda pulls: pulls.arms / 80, seed=0)
        assert result.cost.total > 0
        assert result.refused == 0


def test_strings_cannot_be_sent_as_features() -> None:
    pool = ma.Pool(["acg", "act", "agt"])
    for settings in (
        agents.DUETS(ma.Hamming(), 0.2, 2, 5, send="features"),
        agents.DisKernelUCB(ma.Hamming(), 0.2, 2, 5, send="features"),
    ):
        with pytest.raises(errors.InvalidParameterError, match="indices"):
            settings.server(pool, coins(0, 2))


@pytest.mark.parametrize("wrong", [[1.0], [np.nan] * 2, "many"])
def test_wrong_rewards_are_refused(wrong: Any) -> None:
    with pytest.raises(errors.InvalidRewardError):
        agents.run(ALGORITHMS["duets"](), POOL, lambda pulls: wrong, seed=0)


def test_an_impossible_seed_is_refused() -> None:
    for seed in (-1, 0.5, "x"):
        with pytest.raises(errors.InvalidParameterError, match="seed"):
            agents.run(ALGORITHMS["duets"](), POOL, rewards(0), seed=seed)  # type: ignore[arg-type]


def test_an_unknown_executor_is_refused() -> None:
    with pytest.raises(errors.InvalidParameterError, match="cloud"):
        agents.run(ALGORITHMS["duets"](), POOL, rewards(0), executor="cloud")  # type: ignore[arg-type]

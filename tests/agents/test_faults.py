"""Network faults never lead to a crash, a wrong posterior or a run that hangs."""

from __future__ import annotations

import numpy as np
import pytest

import manyarms as ma
from manyarms import agents
from manyarms.agents.executors import make_host
from manyarms.agents.protocol import messages as m
from tests.agents.faults import ALGORITHMS, HORIZON, POOL, Faults, N, duets, faulty_run
from tests.agents.oracle import exact_posterior
from tests.agents.support import KERNEL, coins, rewards


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "kind",
    [
        {"lose": 0.2},
        {"repeat": 0.5},
        {"delay": 0.3},
        {"damage": 0.2},
        {"lose": 0.1, "repeat": 0.3, "delay": 0.2},
    ],
    ids=str,
)
def test_a_bad_network(kind: dict[str, float], seed: int) -> None:
    settings = duets()
    result = faulty_run(settings, Faults(seed, **kind), seed)
    left_out = [record.left_out for record in result.server.records]
    for n, arms in enumerate(result.arms):  # an agent pulls in every epoch that it is not left out of
        missed = sum(length for length, lost in zip(settings.lengths, left_out, strict=True) if n in lost)
        assert settings.horizon - missed <= len(arms) <= settings.horizon, f"agent {n}"
    if "lose" in kind or "damage" in kind:  # an agent that missed the last epoch may stay unreachable
        assert set(result.unfinished) <= set(left_out[-1])
    else:
        assert result.unfinished == ()
    if set(kind) == {"repeat"}:
        assert left_out == [()] * settings.n_epochs
    assert (result.refused > 0) == ("damage" in kind)


def test_everything_twice_changes_nothing() -> None:
    plain = agents.run(duets(), POOL, rewards(1), seed=1)
    twice = faulty_run(duets(), Faults(1, repeat=1.0), 1)
    assert all(np.array_equal(a, b) for a, b in zip(plain.arms, twice.arms, strict=True))
    assert twice.server.ignored > 0
    assert (twice.cost.uplink, twice.cost.downlink) == (plain.cost.uplink, plain.cost.downlink)


@pytest.mark.parametrize("epoch", [1, 2, 3, 4])
@pytest.mark.parametrize("when", ["before it is ready", "before it has reported"])
def test_an_agent_that_dies_is_left_out_and_the_run_finishes(epoch: int, when: str) -> None:
    settings = duets()

    def dead(direction: str, agent: int, message: m.Message) -> bool:
        reported = isinstance(message, m.ProjectedRewards)
        late = message.epoch > epoch or (
            message.epoch == epoch and (reported or when.startswith("before it is"))
        )
        return agent == 2 and late

    result = faulty_run(settings, Faults(0, dead=dead), 5)
    for record in result.server.records[:-1]:
        assert record.left_out == ((2,) if record.epoch >= epoch else ())
    assert [len(result.arms[n]) for n in (0, 1, 3)] == [60, 60, 60]
    assert result.unfinished == ((2,) if epoch < 4 or when == "before it is ready" else ())


def test_an_agent_that_was_away_for_an_epoch_comes_back() -> None:
    settings, now = duets(), {"epoch": 1}

    def watch(run: agents.Run, outgoing: list[agents.Outgoing]) -> list[agents.Outgoing]:
        now["epoch"] = run.server.epoch
        return outgoing

    away = Faults(0, dead=lambda direction, agent, message: agent == 1 and now["epoch"] == 2)
    result = faulty_run(settings, away, 3, watch)
    assert [record.left_out for record in result.server.records] == [(), (1,), (), ()]
    assert len(result.arms[1]) == 60 - settings.lengths[1]
    assert result.unfinished == ()
    assert result.cost.resent > 0


def test_without_any_agent_the_server_still_comes_to_an_end() -> None:
    result = faulty_run(duets(), Faults(0, dead=lambda *_: True), 0)
    assert all(record.present == () for record in result.server.records)
    assert result.unfinished == (0, 1, 2, 3)
    assert len(result.server.active.arms) == POOL.n_arms


@pytest.mark.parametrize("name", ["dis", "approx"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "kind",
    [{"lose": 0.15}, {"repeat": 0.5}, {"damage": 0.15}, {"delay": 0.2}, {"delay": 0.2, "repeat": 0.3}],
    ids=lambda kind: "-".join(kind),
)
def test_baselines_on_a_bad_network(name: str, kind: dict[str, float], seed: int) -> None:
    """All pulls are made, and no agent counts a pull twice or loses one of its own."""
    settings = ALGORITHMS[name]()
    members = [settings.agent(n, POOL, agents.Coin.of_agent(seed, n)) for n in range(N)]
    server = settings.server(POOL, coins(seed))
    with make_host("sequential", list(members), rewards(seed)) as host:
        agents.Run(server, host, agents.Ledger(N), Faults(seed, **kind)).finish()
        assert host.unfinished == ()
        arms = [np.concatenate([p.arms for p in own]) for own in host.pulls]
        values = [np.concatenate(own) for own in host.rewards]
    for member in members:
        mean, leverage = member.model.at(None)
        if name == "dis":
            upto = [sum(len(r) for _, r in own[: member.synced]) for own in server.data]
            upto[member.number] = settings.horizon
            known = np.concatenate([a[:k] for a, k in zip(arms, upto, strict=True)])
            seen = np.concatenate([v[:k] for v, k in zip(values, upto, strict=True)])
            right = exact_posterior(KERNEL, POOL.take(known), seen, 0.2, POOL.features)
            assert member.known_pulls == len(known)
            assert np.abs(mean - right[0]).max() < 1e-8
            assert np.abs(leverage - right[1]).max() < 1e-8
        else:
            assert member.known_pulls <= sum(len(a) for a in arms)


@pytest.mark.parametrize("name", ["dis", "approx"])
def test_baselines_go_on_without_a_dead_agent(name: str) -> None:
    settings = ALGORITHMS[name]()
    dead = Faults(0, dead=lambda direction, agent, message: agent == 3 and direction == "up")
    result = agents.run(settings, POOL, rewards(0), seed=0, link=dead)
    assert [len(result.arms[n]) for n in range(3)] == [HORIZON] * 3
    assert all(3 in left_out for left_out in result.server.left_out)
    assert len(result.server.left_out) > 0


def test_a_pool_that_is_not_the_servers_pool_is_left_out() -> None:
    """An agent with another pool never agrees with the server; the run continues without it."""
    settings, other = duets(), ma.Pool(np.random.default_rng(9).random((120, 2)))
    members = [settings.agent(n, other if n == 0 else POOL, agents.Coin.of_agent(0, n)) for n in range(N)]
    server = settings.server(POOL, coins(0))
    with make_host("sequential", list(members), rewards(0)) as host:
        agents.Run(server, host, agents.Ledger(N)).finish()
        assert host.unfinished == (0,)
    assert all(record.left_out == (0,) for record in server.records)

"""Invalid messages are refused with a typed error and change nothing; stale messages are ignored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from manyarms import agents, errors
from manyarms.agents.protocol import messages as m
from manyarms.agents.protocol.wire import decode, encode
from tests.agents.faults import ALGORITHMS, POOL, N, duets
from tests.agents.support import KERNEL, coins


def _collecting() -> tuple[Any, m.Inducing]:
    """A server that waits for projections."""
    settings = duets()
    server = settings.server(POOL, coins(0))
    outgoing: list[agents.Outgoing] = []
    for n in range(N):
        (ready,), _ = settings.agent(n, POOL, agents.Coin.of_agent(0, n)).turn()
        outgoing = server.receive(n, ready)
    (item,) = outgoing
    assert isinstance(item.message, m.Inducing)
    return server, item.message


def receive(server: Any, message: m.Message) -> list[agents.Outgoing]:
    """Deliver a message from the agent that it names."""
    return server.receive(message.sender, message)


def _projection(sender: int, epoch: int, values: Any, points: Any) -> m.ProjectedRewards:
    return m.ProjectedRewards(sender, epoch, m.digest_of(points), np.asarray(values, dtype=float))


@pytest.mark.parametrize(
    ("forge", "error"),
    [
        (lambda s: _projection(N, 1, np.zeros(len(s)), s), errors.UnknownAgentError),
        (lambda s: _projection(-1, 1, np.zeros(len(s)), s), errors.UnknownAgentError),
        (lambda s: _projection(0, 1, np.zeros(len(s) + 1), s), errors.ImpossibleMessageError),
        (lambda s: _projection(0, 1, np.zeros((len(s), 1)), s), errors.ImpossibleMessageError),
        (lambda s: _projection(0, 1, np.full(len(s), np.nan), s), errors.ImpossibleMessageError),
        (lambda s: _projection(0, 9, np.zeros(len(s)), s), errors.ImpossibleMessageError),
        (lambda s: m.Ready(0, 99, bytes(8), bytes(8)), errors.ImpossibleMessageError),
        (lambda s: m.SyncRequest(0, 1), errors.ImpossibleMessageError),
        (lambda s: m.Solution(0, 1, bytes(8), np.zeros(3), 0.0, 0.0), errors.ImpossibleMessageError),
    ],
)
def test_the_duets_server_refuses_and_stays_as_it_was(forge: Any, error: type[Exception]) -> None:
    server, inducing = _collecting()
    before = server.save()
    with pytest.raises(error):
        receive(server, forge(inducing.points))
    assert server.save() == before


def test_stale_and_repeated_messages_are_counted_and_ignored() -> None:
    server, inducing = _collecting()
    message = _projection(0, 1, np.zeros(len(inducing.points)), inducing.points)
    assert receive(server, message) == []
    ignored = server.ignored
    assert receive(server, message) == []
    assert receive(server, m.Ready(1, 1, bytes(8), bytes(8))) == []
    of_another_s = m.ProjectedRewards(2, 1, bytes(8), np.zeros(len(inducing.points)))
    assert receive(server, of_another_s) == []
    assert server.ignored == ignored + 3
    assert set(server.projections) == {0}


@pytest.mark.parametrize(
    "message",
    [
        m.Inducing(m.SERVER, 1, np.array([0, POOL.n_arms])),
        m.Inducing(m.SERVER, 1, np.zeros((3, 2))),
        m.EpochDraws(m.SERVER, 1, np.arange(3)),
        m.ActiveArms(m.SERVER, 1, 1, np.arange(5)),
        m.ActiveArms(m.SERVER, 1, 0, np.empty(0, dtype=np.int64)),
        m.ActiveArms(m.SERVER, 99, 0, np.arange(2)),
        m.ActiveChain(m.SERVER, 1, np.array([1]), np.zeros((1, 2)), np.zeros(1), np.zeros(1)),
        m.Confirm(m.SERVER, 1),
        m.SyncCall(m.SERVER, 1),
    ],
    ids=lambda message: message.name,
)
def test_an_agent_refuses_invalid_messages(message: m.Message) -> None:
    agent = duets().agent(0, POOL, agents.Coin.of_agent(0, 0))
    with pytest.raises(errors.ImpossibleMessageError):
        agent.receive(decode(encode(message)))
    assert (agent.epoch, agent.phase) == (1, "ready")


def test_an_agent_does_not_trim_with_weights_for_another_set_of_inducing_points() -> None:
    agent = duets().agent(0, POOL, agents.Coin.of_agent(0, 0))
    agent.receive(m.Inducing(m.SERVER, 1, np.array([3, 4])))
    agent.tell({0: 0.0, 1: 0.0})
    other = m.digest_of(np.array([5, 6]))
    assert agent.receive(m.Solution(m.SERVER, 1, other, np.ones(2), 0.1, 0.5)) == []
    assert (agent.epoch, len(agent.active.arms)) == (1, POOL.n_arms)
    right = m.digest_of(np.array([3, 4]))
    (ready,) = agent.receive(m.Solution(m.SERVER, 1, right, np.ones(2), 0.1, 0.5))
    assert isinstance(ready, m.Ready)
    assert agent.epoch == 2
    assert len(agent.active.arms) < POOL.n_arms


def test_a_second_set_of_inducing_points_is_answered_with_the_same_rewards() -> None:
    """A server restored from an older state may choose another S_j for the same pulls."""
    agent = duets().agent(0, POOL, agents.Coin.of_agent(0, 0))
    _, drawn = agent.turn([m.Inducing(m.SERVER, 1, np.array([3, 4]))])
    assert drawn is not None
    agent.tell({0: 1.0, 1: 2.0})
    (again,) = agent.receive(m.Inducing(m.SERVER, 1, np.array([5, 6, 7])))
    assert isinstance(again, m.ProjectedRewards)
    expected = KERNEL.matrix(POOL.take([5, 6, 7]), drawn.features) @ np.array([1.0, 2.0])
    assert np.allclose(again.values, expected, rtol=0, atol=1e-14)
    assert agent.turn().pulls is None
    assert agent.receive(m.Inducing(m.SERVER, 1, np.array([5, 6, 7]))) == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dis", m.Upload(N, 1, 0, 0, np.arange(2), np.zeros(2))),
        ("dis", m.Upload(0, 1, 0, 0, np.arange(2), np.zeros(3))),
        ("dis", m.Upload(0, 1, 0, 5, np.arange(2), np.zeros(2))),
        ("dis", m.Upload(0, 7, 0, 0, np.arange(2), np.zeros(2))),
        ("dis", m.Upload(0, 1, 0, 0, np.array([POOL.n_arms]), np.zeros(1))),
        ("dis", m.Upload(0, 1, 0, 0, np.arange(1), np.array([np.inf]))),
        ("dis", m.Ready(0, 1, bytes(8), bytes(8))),
        ("approx", m.Upload(0, 1, 0, 0, np.array([-1]), np.zeros(0))),
        ("approx", m.Statistics(0, 9, bytes(8), np.arange(1), np.zeros(1), np.zeros(1), 1)),
        ("approx", m.ProjectedRewards(0, 1, bytes(8), np.zeros(1))),
    ],
)
def test_baseline_servers_refuse_invalid_messages(name: str, message: m.Message) -> None:
    server = ALGORITHMS[name]().server(POOL, coins(0))
    receive(server, m.SyncRequest(1, 1))
    before = server.save()
    with pytest.raises(errors.MessageError):
        receive(server, message)
    assert server.save() == before

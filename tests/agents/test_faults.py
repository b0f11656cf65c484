"""Nothing that a network or a crash does leads to a crash, a wrong posterior or a run that hangs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import manyarms as ma
from manyarms import agents, errors
from manyarms.agents import messages as m
from manyarms.agents.executors import make_host
from manyarms.agents.wire import decode, encode
from tests.agents.oracle import exact_posterior, sparse_posterior
from tests.agents.support import KERNEL, NOISE, Witness, rewards, small_pool

POOL = small_pool(120)
N, HORIZON = 4, 11


def duets(horizon: int = 60, **changes: Any) -> agents.DUETS:
    return agents.DUETS(KERNEL, 0.2, N, horizon, width=0.5, noise_std=NOISE, **changes)


DOMAINS = {"pool": POOL, "box": agents.Box([0, 0], [1, 1], n_probes=300)}
ALGORITHMS: dict[str, Callable[[], Any]] = {
    "duets": duets,
    "dis": lambda: agents.DisKernelUCB(KERNEL, 0.2, N, HORIZON, sync_threshold=5.0),
    "approx": lambda: agents.ApproxDisKernelUCB(KERNEL, 0.2, N, HORIZON, sync_threshold=8.0),
}


@dataclass
class Faults:
    """A link that loses, repeats, delays and damages messages at random, and can be cut to some agents."""

    seed: int
    lose: float = 0.0
    repeat: float = 0.0
    delay: float = 0.0
    damage: float = 0.0
    dead: Callable[[str, int, m.Message], bool] = lambda direction, agent, message: False
    held: dict[tuple[str, int], list[bytes]] = field(default_factory=dict)
    witness: Witness = field(default_factory=Witness)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    def __call__(self, direction: str, agent: int, data: bytes) -> list[bytes]:
        self.witness(direction, agent, data)
        if self.dead(direction, agent, decode(data)) or self.rng.random() < self.lose:
            return []
        late = self.held.pop((direction, agent), [])
        if self.rng.random() < self.delay:  # comes after the next one to or from this agent
            self.held[direction, agent] = [data]
            return late
        if self.rng.random() < self.damage:
            position = int(self.rng.integers(len(data)))
            data = data[:position] + bytes([data[position] ^ 0x5A]) + data[position + 1 :]
        return [data, *late, data] if self.rng.random() < self.repeat else [data, *late]


@dataclass
class Recorded:
    """Rewards that remember who pulled what in which epoch."""

    settings: agents.DUETS
    noisy: Any
    epochs: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    def __call__(self, pulls: agents.Pulls) -> np.ndarray:
        values = self.noisy(pulls)
        starts = np.cumsum([0, *self.settings.lengths]).tolist()
        self.epochs[pulls.agent, starts.index(pulls.step) + 1] = (pulls.arms, values)
        return values


def faulty_run(settings: agents.DUETS, faults: Faults, seed: int, watch: Any = None) -> agents.RunResult:
    """A run in which every Solution is checked against the agents recorded as present."""
    recorded = Recorded(settings, rewards(seed))
    result = agents.run(settings, POOL, recorded, seed=seed, link=faults, before_sending=watch)
    witness = faults.witness
    for record in result.server.records:
        if record.epoch not in witness.solutions or not record.present:
            continue
        arms, values = (
            np.concatenate(column)
            for column in zip(*(recorded.epochs[n, record.epoch] for n in record.present), strict=True)
        )
        solution, inducing = witness.solutions[record.epoch], POOL.take(witness.inducing[record.epoch].points)
        mean, _ = sparse_posterior(KERNEL, inducing, POOL.take(arms), values, 0.2, POOL.features)
        found = KERNEL.matrix(POOL.features, inducing) @ solution.weights
        assert np.abs(found - mean).max() < 1e-9, f"epoch {record.epoch}: wrong posterior"
        _, leverage = exact_posterior(KERNEL, POOL.take(arms), values, 0.2, POOL.features)
        assert solution.sigma_max <= np.sqrt(0.2 * leverage.max()) * (1 + 1e-6)
    assert result.server.done
    return result


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
    faults = Faults(seed, **kind)
    result = faulty_run(duets(), faults, seed)
    assert result.unfinished == () or "lose" in kind or "damage" in kind or "delay" in kind
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
        reported = isinstance(message, m.Projection)
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


# ------------------------------------------------------------------ restarts


@dataclass
class Restart:
    """The server crashes at the given change of its state and is started again from what it saved.

    `saved` says what it had saved: the state with this message taken in, before anything was sent, or, if
    it lost the message too, the state before.
    """

    settings: Any
    domain: Any
    seed: int
    at: int
    saved: str
    count: int = 0
    state: bytes = b""

    def __call__(self, run: agents.Run, outgoing: list[agents.Outgoing]) -> list[agents.Outgoing]:
        self.count += 1
        before, self.state = self.state, run.server.save()
        if self.count != self.at:
            return outgoing
        state = before if self.saved == "before" and before else self.state
        run.server = self.settings.resume_server(self.domain, self.seed, state)
        assert run.server.save() == state
        return run.server.resume()


@pytest.mark.parametrize(
    ("name", "domain", "saved"),
    [
        ("duets", "pool", "after"),
        ("duets", "pool", "before"),
        ("dis", "contexts", "after"),
        ("approx", "contexts", "after"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [
                ("duets", "box", "after"),
                ("duets", "box", "before"),
                ("dis", "pool", "after"),
                ("dis", "pool", "before"),
                ("dis", "contexts", "before"),
                ("approx", "pool", "after"),
                ("approx", "pool", "before"),
                ("approx", "contexts", "before"),
            ]
        ),
    ],
)
def test_a_server_restarted_at_any_point_continues(name: str, domain: str, saved: str) -> None:
    space, settings = _space(domain), ALGORITHMS[name]()
    plain = agents.run(settings, space, rewards(2), seed=2)
    at, finished = 1, False
    while not finished:
        restart = Restart(settings, space, 2, at, saved)
        result = agents.run(settings, space, rewards(2), seed=2, before_sending=restart)
        for now, then in zip(result.features, plain.features, strict=True):
            assert len(now) == len(then)
            # a lost request delays a baseline's sync while others pull on; an epoch of DUETS waits
            same = np.array_equal(now, then) or (saved == "before" and name != "duets")
            assert same, f"restart at change {at}"
        assert result.unfinished == ()
        finished, at = restart.count < at, at + 1
    assert at > 10, f"only {at} points of restart: the test shows nothing"


def _space(domain: str) -> Any:
    if domain == "contexts":
        return agents.Contexts(_arms, 2)
    return DOMAINS[domain]


def _arms(agent: int, step: int) -> np.ndarray:
    return np.random.default_rng([agent, step]).random((20, 2))


@dataclass
class OldBackups:
    """The server crashes now and then and comes back from one of its last six states."""

    settings: agents.DUETS
    seed: int
    states: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    def __call__(self, run: agents.Run, outgoing: list[agents.Outgoing]) -> list[agents.Outgoing]:
        self.states.append(run.server.save())
        if self.rng.random() > 0.08:
            return outgoing
        back = int(self.rng.integers(1, min(len(self.states), 6) + 1))
        run.server = self.settings.resume_server(POOL, self.seed, self.states[-back])
        return run.server.resume()


@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(s, marks=pytest.mark.slow) for s in range(6, 80))]
)
def test_old_backups_and_a_bad_network_together_never_give_a_wrong_posterior(seed: int) -> None:
    """What was lost may cost an agent an epoch; every Solution still fits the agents recorded as present."""
    settings = duets(retries=seed % 3)
    faults = Faults(seed, lose=0.1 * (seed % 2), repeat=0.2, delay=0.1, damage=0.05)
    result = faulty_run(settings, faults, seed, OldBackups(settings, seed))
    assert len(result.server.records) == len(settings.lengths)


@pytest.mark.parametrize("name", ["duets", "dis", "approx"])
def test_a_state_that_belongs_elsewhere_is_refused(name: str) -> None:
    settings = ALGORITHMS[name]()
    state = settings.server(POOL, 0).save()
    settings.resume_server(POOL, 0, state)
    other = {"duets": "dis", "dis": "approx", "approx": "duets"}[name]
    with pytest.raises(errors.SavedStateError):
        ALGORITHMS[other]().resume_server(POOL, 0, state)
    for wrong in (b"", b"PK nonsense", state[:-30], state[: len(state) // 2]):
        with pytest.raises(errors.SavedStateError):
            settings.resume_server(POOL, 0, wrong)
    with pytest.raises(errors.SavedStateError):
        settings.resume_server(small_pool(100), 0, state)


def test_a_state_of_another_seed_or_setting_is_refused() -> None:
    state = duets().server(POOL, 0).save()
    with pytest.raises(errors.SavedStateError, match="coin"):
        duets().resume_server(POOL, 1, state)
    with pytest.raises(errors.SavedStateError, match="settings"):
        duets(horizon=61).resume_server(POOL, 0, state)


def test_a_saved_state_holds_no_coin_and_no_pickle() -> None:
    server = duets().server(POOL, 7)
    state = server.save()
    for n in range(N):
        assert agents.Coin.of_agent(7, n).key not in state
    assert b"pickle" not in state


# ------------------------------------------------------------------ messages that cannot be


def _collecting() -> tuple[Any, m.Inducing]:
    """A server that waits for projections."""
    settings = duets()
    server = settings.server(POOL, 0)
    outgoing: list[agents.Outgoing] = []
    for n in range(N):
        (ready,) = settings.agent(n, POOL, agents.Coin.of_agent(0, n)).start()
        outgoing = server.receive(ready)
    (item,) = outgoing
    assert isinstance(item.message, m.Inducing)
    return server, item.message


def _projection(sender: int, epoch: int, values: Any, points: Any) -> m.Projection:
    return m.Projection(sender, epoch, m.digest_of(points), np.asarray(values, dtype=float))


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
        server.receive(forge(inducing.points))
    assert server.save() == before


def test_stale_and_repeated_messages_are_counted_and_ignored() -> None:
    server, inducing = _collecting()
    message = _projection(0, 1, np.zeros(len(inducing.points)), inducing.points)
    assert server.receive(message) == []
    ignored = server.ignored
    assert server.receive(message) == []
    assert server.receive(m.Ready(1, 1, bytes(8), bytes(8))) == []
    assert server.receive(m.Projection(2, 1, bytes(8), np.zeros(len(inducing.points)))) == []  # another S
    assert server.ignored == ignored + 3
    assert set(server.projections) == {0}


@pytest.mark.parametrize(
    "message",
    [
        m.Inducing(m.SERVER, 1, np.array([0, POOL.n_arms])),
        m.Inducing(m.SERVER, 1, np.zeros((3, 2))),
        m.Draws(m.SERVER, 1, np.arange(3)),
        m.ActiveArms(m.SERVER, 1, 1, np.arange(5)),
        m.ActiveArms(m.SERVER, 1, 0, np.empty(0, dtype=np.int64)),
        m.ActiveArms(m.SERVER, 99, 0, np.arange(2)),
        m.ActiveChain(m.SERVER, 1, np.array([1]), np.zeros((1, 2)), np.zeros(1), np.zeros(1)),
        m.Confirm(m.SERVER, 1),
        m.SyncCall(m.SERVER, 1),
    ],
    ids=lambda message: message.name,
)
def test_an_agent_refuses_what_cannot_be(message: m.Message) -> None:
    agent = duets().agent(0, POOL, agents.Coin.of_agent(0, 0))
    with pytest.raises(errors.ImpossibleMessageError):
        agent.receive(decode(encode(message)))
    assert (agent.epoch, agent.phase) == (1, "ready")


@pytest.mark.parametrize("name", ["dis", "approx"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "kind",
    [{"lose": 0.15}, {"repeat": 0.5}, {"damage": 0.15}, {"delay": 0.2}, {"delay": 0.2, "repeat": 0.3}],
    ids=lambda kind: "-".join(kind),
)
def test_baselines_on_a_bad_network(name: str, kind: dict[str, float], seed: int) -> None:
    """All pulls are made, and nobody counts a pull twice or forgets one of its own."""
    settings = ALGORITHMS[name]()
    members = [settings.agent(n, POOL, agents.Coin.of_agent(seed, n)) for n in range(N)]
    server = settings.server(POOL, seed)
    with make_host("sequential", list(members), rewards(seed)) as host:
        agents.Run(server, host, agents.Ledger(N), Faults(seed, **kind)).finish()
        assert host.unfinished == ()
        arms = [np.concatenate([p.arms for p in own]) for own in host.pulls]
        values = [np.concatenate(own) for own in host.rewards]
    for member in members:
        mean, leverage = member.model.at(None)
        if name == "dis":
            upto = [sum(len(r) for _, r in own[: member.synced]) for own in server.held]
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
        ("approx", m.Projection(0, 1, bytes(8), np.zeros(1))),
    ],
)
def test_baseline_servers_refuse_what_cannot_be(name: str, message: m.Message) -> None:
    server = ALGORITHMS[name]().server(POOL, 0)
    server.receive(m.SyncRequest(1, 1))
    before = server.save()
    with pytest.raises(errors.MessageError):
        server.receive(message)
    assert server.save() == before


def test_a_pool_that_is_not_the_servers_pool_is_left_out() -> None:
    """An agent with other arms can never agree; the run goes on without it."""
    settings, other = duets(), ma.Pool(np.random.default_rng(9).random((120, 2)))
    members = [settings.agent(n, other if n == 0 else POOL, agents.Coin.of_agent(0, n)) for n in range(N)]
    server = settings.server(POOL, 0)
    with make_host("sequential", list(members), rewards(0)) as host:
        agents.Run(server, host, agents.Ledger(N)).finish()
        assert host.unfinished == (0,)
    assert all(record.left_out == (0,) for record in server.records)

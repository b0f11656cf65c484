"""A server that crashes at any point continues from its saved state; a state of another run is refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from manyarms import agents, errors
from tests.agents.faults import ALGORITHMS, DOMAINS, POOL, Faults, N, duets, faulty_run
from tests.agents.support import coins, rewards, small_pool


@dataclass
class Restart:
    """The server crashes at the given change of its state and is restarted from a saved state.

    With `saved` = "after" the state includes the last message, but nothing has been sent; with "before" the
    last message is lost as well.
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
        run.server = self.settings.resume_server(self.domain, coins(self.seed), state)
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
            # a lost request delays a sync of the baselines while others pull on; an epoch of DUETS waits
            if saved == "after" or name == "duets":
                assert np.array_equal(now, then), f"restart at change {at}"
        assert result.unfinished == ()
        finished, at = restart.count < at, at + 1
    assert at > 10, f"only {at} restarts, so the test checks little"


def _space(domain: str) -> Any:
    if domain == "contexts":
        return agents.Contexts(_arms, 2)
    return DOMAINS[domain]


def _arms(agent: int, step: int) -> np.ndarray:
    return np.random.default_rng([agent, step]).random((20, 2))


@dataclass
class OldBackups:
    """The server crashes at random and is restored from one of its last six states."""

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
        run.server = self.settings.resume_server(POOL, coins(self.seed), self.states[-back])
        return run.server.resume()


@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(s, marks=pytest.mark.slow) for s in range(6, 80))]
)
def test_old_backups_and_a_bad_network_together_never_give_a_wrong_posterior(seed: int) -> None:
    """A lost state may cost an agent an epoch; every Solution still fits the agents recorded as present."""
    settings = duets(retries=seed % 3)
    faults = Faults(seed, lose=0.1 * (seed % 2), repeat=0.2, delay=0.1, damage=0.05)
    result = faulty_run(settings, faults, seed, OldBackups(settings, seed))
    assert len(result.server.records) == len(settings.lengths)


@pytest.mark.parametrize("name", ["duets", "dis", "approx"])
def test_a_state_that_belongs_elsewhere_is_refused(name: str) -> None:
    settings = ALGORITHMS[name]()
    state = settings.server(POOL, coins(0)).save()
    settings.resume_server(POOL, coins(0), state)
    other = {"duets": "dis", "dis": "approx", "approx": "duets"}[name]
    with pytest.raises(errors.SavedStateError):
        ALGORITHMS[other]().resume_server(POOL, coins(0), state)
    for wrong in (b"", b"PK nonsense", state[:-30], state[: len(state) // 2]):
        with pytest.raises(errors.SavedStateError):
            settings.resume_server(POOL, coins(0), wrong)
    with pytest.raises(errors.SavedStateError):
        settings.resume_server(small_pool(100), coins(0), state)


def test_a_state_of_another_seed_or_setting_is_refused() -> None:
    state = duets().server(POOL, coins(0)).save()
    with pytest.raises(errors.SavedStateError, match="coin"):
        duets().resume_server(POOL, coins(1), state)
    with pytest.raises(errors.SavedStateError, match="settings"):
        duets(horizon=61).resume_server(POOL, coins(0), state)


def test_a_saved_state_holds_no_coin_and_no_pickle() -> None:
    server = duets().server(POOL, coins(7))
    state = server.save()
    for n in range(N):
        assert agents.Coin.of_agent(7, n).key not in state
    assert b"pickle" not in state

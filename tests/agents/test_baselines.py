"""The three baselines against direct recomputation: choices, triggers, syncs, and changing arm sets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import manyarms as ma
from manyarms import agents, errors
from manyarms.agents.executors import make_host
from manyarms.agents.protocol import messages as m
from tests.agents.oracle import exact_posterior, sparse_posterior
from tests.agents.support import KERNEL, Witness, coins, rewards, small_pool

POOL = small_pool(150)
N, T, RIDGE, WIDTH = 4, 16, 0.2, 1.0


def settings_of(kind: type[Any], **changes: Any) -> Any:
    return kind(**({"kernel": KERNEL, "ridge": RIDGE, "n_agents": N, "horizon": T, "width": WIDTH} | changes))


def arm_sets(agent: int, step: int) -> np.ndarray:
    return np.random.default_rng([agent, step]).random((12, 2))


CONTEXTS = agents.Contexts(arm_sets, 2)


class Watched:
    """A run that exposes its agents and messages."""

    def __init__(self, settings: Any, domain: Any, seed: int = 0) -> None:
        self.witness = Witness()
        self.members = [
            settings.agent(n, domain, agents.Coin.of_agent(seed, n)) for n in range(settings.n_agents)
        ]
        self.server = settings.server(domain, coins(seed))
        with make_host("sequential", list(self.members), rewards(seed)) as host:
            self.run = agents.Run(self.server, host, agents.Ledger(settings.n_agents), self.witness)
            self.run.finish()
            self.points = [np.concatenate([p.features for p in own]) for own in host.pulls]
            self.values = [np.concatenate(own) for own in host.rewards]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("domain", [POOL, CONTEXTS], ids=["pool", "contexts"])
def test_separate_agents_are_gp_ucb(domain: Any, seed: int) -> None:
    run = Watched(settings_of(agents.NKernelUCB), domain, seed)
    for n in range(N):
        for t in range(1, T):
            at = POOL.features if domain is POOL else arm_sets(n, t)
            mean, leverage = exact_posterior(KERNEL, run.points[n][:t], run.values[n][:t], RIDGE, at)
            bound = mean + WIDTH * np.sqrt(RIDGE * leverage)
            chosen = np.flatnonzero((at == run.points[n][t]).all(axis=1))
            assert len(chosen) == 1
            assert bound[chosen[0]] >= bound.max() - 1e-9, f"agent {n}, step {t}"


def test_the_first_pulls_differ_between_agents() -> None:
    run = Watched(settings_of(agents.NKernelUCB, n_agents=8, horizon=1), POOL)
    assert len(np.unique(np.concatenate(run.points), axis=0)) > 4


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("domain", [POOL, CONTEXTS], ids=["pool", "contexts"])
def test_after_a_sync_every_dis_agent_has_everybodys_data(domain: Any, seed: int) -> None:
    settings = settings_of(agents.DisKernelUCB, sync_threshold=4.0)
    run = Watched(settings, domain, seed)
    assert run.server.sync > 1
    assert run.server.left_out == [()] * run.server.sync
    at = POOL.features[:60]
    for member in run.members:
        shared = [sum(len(r) for _, r in own) for own in run.server.data]
        shared[member.number] = T
        points = np.concatenate([p[:k] for p, k in zip(run.points, shared, strict=True)])
        values = np.concatenate([v[:k] for v, k in zip(run.values, shared, strict=True)])
        right = exact_posterior(KERNEL, points, values, RIDGE, at)
        found = member.model.at(np.arange(60) if domain is POOL else at)
        assert np.abs(found[0] - right[0]).max() < 1e-8
        assert np.abs(found[1] - right[1]).max() < 1e-8
        assert member.known_pulls == len(points)


@pytest.mark.parametrize("seed", range(3))
def test_dis_trigger(seed: int) -> None:
    """A single agent requests a sync exactly when (new points)·(log det now − log det at sync) > D."""
    settings = settings_of(agents.DisKernelUCB, n_agents=1, sync_threshold=3.0)
    run = Watched(settings, POOL, seed)
    log_dets = [0.0]
    for t in range(1, T + 1):
        gram = KERNEL.matrix(run.points[0][:t], run.points[0][:t])
        log_dets.append(np.linalg.slogdet(np.eye(t) + gram / RIDGE)[1])
    last, expected = 0, []
    for t in range(1, T):
        if (t - last) * (log_dets[t] - log_dets[last]) > 3.0:
            expected.append(t - last)
            last = t
    uploads = [len(x.rewards) for _, _, x, _ in run.witness.seen if isinstance(x, m.Upload)]
    assert uploads == expected
    assert len(expected) > 1


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("domain", [POOL, CONTEXTS], ids=["pool", "contexts"])
def test_approx_agents_hold_the_centralised_sparse_posterior(domain: Any, seed: int) -> None:
    """The posterior on the common S contains all data up to the sync and the agent's own data since."""
    settings = settings_of(agents.ApproxDisKernelUCB, sync_threshold=8.0)
    run = Watched(settings, domain, seed)
    assert run.server.sync > 0
    inducing = run.witness.inducing[run.server.sync].points
    inducing = POOL.take(inducing) if domain is POOL else inducing
    sent = {
        x.sender: x.pulls
        for d, _, x, _ in run.witness.seen
        if isinstance(x, m.Statistics) and d == "up" and x.epoch == run.server.sync
    }
    at = POOL.features[:60]
    for member in run.members:
        upto = [T if n == member.number else sent[n] for n in range(N)]
        points = np.concatenate([p[:k] for p, k in zip(run.points, upto, strict=True)])
        values = np.concatenate([v[:k] for v, k in zip(run.values, upto, strict=True)])
        right = sparse_posterior(KERNEL, inducing, points, values, RIDGE, at)
        found = member.model.at(np.arange(60) if domain is POOL else at)
        assert np.abs(found[0] - right[0]).max() < 1e-10
        assert np.abs(found[1] - right[1]).max() < 1e-10
        assert member.known_pulls == len(points)


def test_approx_trigger() -> None:
    """Before the first sync every new point adds k/λ = 5, so D = 20 triggers a sync after the fifth."""
    settings = settings_of(agents.ApproxDisKernelUCB, sync_threshold=20.0)
    run = Watched(settings, POOL)
    first = [x for _, _, x, _ in run.witness.seen if isinstance(x, m.Statistics)][:N]
    assert [x.pulls for x in first] == [5] * N


def test_before_the_first_sync_an_approx_agent_knows_nothing() -> None:
    settings = settings_of(agents.ApproxDisKernelUCB, horizon=3)
    member = Watched(settings, POOL).members[0]
    mean, leverage = member.model.at(None)
    assert not mean.any()
    assert np.allclose(leverage, 1 / RIDGE)


def test_a_larger_threshold_means_fewer_syncs_and_a_lower_cost() -> None:
    for kind in (agents.DisKernelUCB, agents.ApproxDisKernelUCB):
        runs = [Watched(settings_of(kind, sync_threshold=d), POOL) for d in (5.0, 20.0, 80.0, 1e9)]
        syncs = [run.server.sync for run in runs]
        costs = [run.run.ledger.cost.total for run in runs]
        assert syncs == sorted(syncs, reverse=True)
        assert syncs[0] > syncs[-1] == 0
        assert costs[-1] == 0


def test_sending_features_or_indices_changes_the_cost_only() -> None:
    for kind in (agents.DisKernelUCB, agents.ApproxDisKernelUCB):
        one, other = (Watched(settings_of(kind, send=send), POOL) for send in ("indices", "features"))
        assert all(np.array_equal(a, b) for a, b in zip(one.points, other.points, strict=True))
        assert one.run.ledger.cost.total < other.run.ledger.cost.total


@pytest.mark.parametrize("kind", [agents.DisKernelUCB, agents.ApproxDisKernelUCB, agents.NKernelUCB])
def test_theoretical_widths_run(kind: Any) -> None:
    run = Watched(settings_of(kind, width="theory", norm_bound=2.0, noise_std=0.2, horizon=8), POOL)
    assert [len(p) for p in run.points] == [8] * N


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ridge", -1),
        ("n_agents", 0),
        ("horizon", 0.5),
        ("width", "wide"),
        ("send", "x"),
        ("sync_threshold", 0),
    ],
)
@pytest.mark.parametrize("kind", [agents.DisKernelUCB, agents.ApproxDisKernelUCB])
def test_impossible_settings_are_refused(kind: Any, name: str, value: Any) -> None:
    with pytest.raises(errors.InvalidParameterError):
        settings_of(kind, **{name: value})


@pytest.mark.parametrize(
    "arms",
    [lambda a, t: np.zeros((0, 2)), lambda a, t: np.zeros((3, 3)), lambda a, t: np.full((3, 2), np.nan)],
)
def test_impossible_arm_sets_are_refused(arms: Any) -> None:
    member = settings_of(agents.DisKernelUCB).agent(0, agents.Contexts(arms, 2), agents.Coin.of_agent(0, 0))
    with pytest.raises(errors.InvalidFeaturesError):
        member.turn()


def test_impossible_contexts_are_refused() -> None:
    for arms, n_features in ((arm_sets, 0), (np.zeros((3, 2)), 2)):
        with pytest.raises(errors.InvalidParameterError):
            agents.Contexts(arms, n_features)  # type: ignore[arg-type]


def test_a_pool_with_equal_rows() -> None:
    pool = ma.Pool(np.repeat(np.random.default_rng(0).random((10, 2)), 2, axis=0))
    for kind in (agents.DisKernelUCB, agents.ApproxDisKernelUCB):
        for send in ("indices", "features"):
            run = Watched(settings_of(kind, send=send), pool)
            assert [len(p) for p in run.points] == [T] * N

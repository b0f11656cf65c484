"""DUETS: the distributed run equals the centralised computation, and all active sets are the same."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import stats

import manyarms as ma
from manyarms import agents
from manyarms.agents.duets.schedule import delta_prime, epoch_lengths, theoretical_oversampling, trim_width
from manyarms.agents.executors import make_host
from manyarms.agents.protocol.messages import Confirm, Ready
from manyarms.errors import InvalidParameterError
from manyarms.problems import Noisy
from tests.agents.oracle import CentralDuets, exact_posterior, information, sparse_posterior
from tests.agents.support import (
    KERNEL,
    NOISE,
    PROBLEM,
    Expansion,
    Witness,
    by_epoch,
    coins,
    rewards,
    small_pool,
)

SEEDS = range(50)
ALPHA = 1e-3


def duets(n_agents: int = 4, horizon: int = 60, **changes: Any) -> agents.DUETS:
    settings = {"kernel": KERNEL, "ridge": 0.2, "width": 0.5, "noise_std": NOISE}
    return agents.DUETS(n_agents=n_agents, horizon=horizon, **(settings | changes))


@pytest.mark.parametrize(
    ("horizon", "first", "expected"),
    [(50, 2, (2, 10, 22, 16)), (1, 1, (1,)), (5, 9, (5,)), (2, 1, (1, 1)), (100, 100, (100,))],
)
def test_epoch_lengths(horizon: int, first: int, expected: tuple[int, ...]) -> None:
    assert epoch_lengths(horizon, first) == expected


@pytest.mark.parametrize("horizon", [3, 17, 50, 800, 12_345])
@pytest.mark.parametrize("first", [1, 2, 7])
def test_epochs_follow_the_square_root_rule_and_sum_to_the_horizon(horizon: int, first: int) -> None:
    lengths = epoch_lengths(horizon, first)
    assert sum(lengths) == horizon
    for before, after in pairwise(lengths[:-1]):
        assert after == math.floor(math.sqrt(horizon * before))


def test_theoretical_constants() -> None:
    share = delta_prime(0.1, 4, 300)
    assert share == 0.1 / (2 * 4 * 300)
    deviation = 0.3 * math.sqrt(2 / 0.2 * math.log(2 / share))
    assert trim_width("printed", 2.0, 0.3, 0.2, share) == pytest.approx(2.0 + deviation, rel=1e-14)
    proved = math.sqrt(3) * ((1 + math.sqrt(2)) * 2.0 + deviation)
    assert trim_width("proved", 2.0, 0.3, 0.2, share) == pytest.approx(proved, rel=1e-14)
    assert trim_width(0.7, 2.0, 0.3, 0.2, share) == 0.7
    assert theoretical_oversampling(10, 50, share) == pytest.approx(72 * math.log(4 * 10 * 50 / share))
    with pytest.raises(InvalidParameterError, match="wide"):
        trim_width("wide", 2.0, 0.3, 0.2, share)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kernel", [KERNEL, ma.Matern(0.3, nu=2.5), ma.RBF(0.8)], ids=str)
def test_server_posterior_is_the_centralised_sparse_posterior(kernel: Any, seed: int) -> None:
    pool, settings, witness = small_pool(), duets(kernel=kernel, oversampling=1.0), Witness()
    result = agents.run(settings, pool, rewards(seed), seed=seed, link=witness)
    arms = [by_epoch(a, settings.lengths) for a in result.arms]
    values = [by_epoch(r, settings.lengths) for r in result.rewards]
    for epoch, solution in witness.solutions.items():
        points = pool.take(np.concatenate([a[epoch - 1] for a in arms]))
        seen = np.concatenate([v[epoch - 1] for v in values])
        inducing = pool.take(witness.inducing[epoch].points)
        mean, _ = sparse_posterior(kernel, inducing, points, seen, 0.2, pool.features)
        difference = np.abs(kernel.matrix(pool.features, inducing) @ solution.weights - mean).max()
        assert difference < 1e-10, f"epoch {epoch}, m = {len(inducing)}: {difference:.2e}"


@pytest.mark.parametrize("seed", range(6))
def test_sigma_max_is_the_exact_posterior_of_this_epochs_draws_alone(seed: int) -> None:
    pool, settings, witness = small_pool(), duets(), Witness()
    result = agents.run(settings, pool, rewards(seed), seed=seed, link=witness)
    arms = [by_epoch(a, settings.lengths) for a in result.arms]
    active = np.arange(pool.n_arms)
    for epoch, solution in sorted(witness.solutions.items()):
        drawn = pool.take(np.concatenate([a[epoch - 1] for a in arms]))
        _, leverage = exact_posterior(KERNEL, drawn, np.zeros(len(drawn)), 0.2, pool.take(active))
        assert solution.sigma_max == pytest.approx(math.sqrt(0.2 * leverage.max()), rel=1e-7)
        mean = KERNEL.matrix(pool.take(active), pool.take(witness.inducing[epoch].points)) @ solution.weights
        kept = mean >= mean.max() - 2 * 0.5 * solution.sigma_max
        assert (kept == (mean >= solution.cutoff)).all()
        active = active[kept]
    assert np.array_equal(active, result.server.active.arms)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("n_arms", "oversampling"), [(200, 10.0), (200, 0.2), (20, 0.5)])
def test_one_agent_is_the_centralised_form(seed: int, n_arms: int, oversampling: float) -> None:
    """With 20 arms most are drawn several times, and are included in S with probability 1 − (1 − p)ⁿ."""
    pool = small_pool(n_arms)
    settings = duets(n_agents=1, horizon=80, oversampling=oversampling)
    result = agents.run(settings, pool, rewards(seed), seed=seed)
    noisy = rewards(seed)
    central = CentralDuets(KERNEL, pool.features, 0.2, settings.lengths, 0.5, oversampling, seed)
    pulled, sets = central.run(
        lambda arms: noisy(agents.Pulls(0, np.arange(len(arms)), arms, pool.take(arms)))
    )
    assert np.array_equal(result.arms[0], np.concatenate(pulled))
    assert np.array_equal(result.server.active.arms, sets[-1])


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_active_sets_are_equal_after_every_epoch_in_50_runs(precision: str) -> None:
    """The server compares digests before an agent pulls; this test compares the sets themselves."""
    pool, settings = small_pool(), duets(precision=precision)
    trimmed = corrections = 0
    for seed in SEEDS:
        server, members = checked_run(settings, pool, seed)
        assert [record.left_out for record in server.records] == [()] * len(settings.lengths)
        trimmed += pool.n_arms - len(server.active.arms)
        corrections += sum(record.corrections for record in server.records)
        assert all(member.done for member in members)
    assert trimmed > 50 * 30, f"only {trimmed} arms were trimmed in 50 runs, so the test checks nothing"
    if precision == "float64":
        assert corrections == 0


def checked_run(
    settings: agents.DUETS, pool: ma.Pool, seed: int, precisions: tuple[str | None, ...] = ()
) -> tuple[Any, list[Any]]:
    """A run in which every pull checks that its agent and the server hold the same set and draws."""
    precisions = precisions or (None,) * settings.n_agents
    members = [
        settings.agent(n, pool, agents.Coin.of_agent(seed, n), precision)
        for n, precision in enumerate(precisions)
    ]
    server, noisy = settings.server(pool, coins(seed, settings.n_agents)), rewards(seed)

    def evaluate(pulls: agents.Pulls) -> Any:
        member = members[pulls.agent]
        assert member.epoch == server.epoch
        assert np.array_equal(member.active.arms, server.active.arms), (seed, member.epoch, pulls.agent)
        return noisy(pulls)

    with make_host("sequential", list(members), evaluate) as host:
        run = agents.Run(server, host, agents.Ledger(settings.n_agents))
        run.finish()
    server.cost = run.ledger.cost
    return server, members


def test_a_coarse_machine_that_disagrees_is_put_right_and_counted() -> None:
    """One agent computes in half precision, so its sets differ; the server sends its own and counts them."""
    pool, settings = small_pool(), duets(precision="float32")
    corrections, resent = 0, 0.0
    for seed in range(10):
        server, _ = checked_run(settings, pool, seed, ("float16", "float32", "float64", None))
        assert all(record.left_out == () for record in server.records)
        corrections += sum(record.corrections for record in server.records)
        resent += server.cost.resent
    assert corrections > 0, "no disagreement in 10 runs, so the test checks nothing"
    words = math.ceil(pool.n_arms / 64)  # one bit per arm in 64-bit words, or fewer indices
    assert 0 < resent <= corrections * words / settings.n_agents


@pytest.mark.parametrize("width", ["printed", "proved"])
def test_best_arm_is_never_trimmed_at_the_theoretical_width_in_50_runs(width: str) -> None:
    """δ = 0.05 allows 2.5 failures in 50 runs on average; the bound is loose, so none is expected."""
    pool, trimmed, lost = small_pool(200), 0, []
    settings = duets(
        n_agents=4,
        horizon=200,
        ridge=0.01,
        width=width,
        norm_bound=1.5,
        noise_std=0.02,
        oversampling="theory",
    )
    for seed in SEEDS:
        f = Expansion.random(KERNEL, norm=1.5, seed=seed)
        result = agents.run(settings, pool, Noisy(f, 0.02, seed), seed=seed)
        active = result.server.active.arms
        trimmed += pool.n_arms - len(active)
        if int(np.argmax(f(pool.features))) not in active:
            lost.append(seed)
    assert not lost, f"x* was trimmed in runs {lost}"
    assert trimmed > 50 * 10, f"only {trimmed} arms were trimmed in 50 runs, so the test checks nothing"


def test_four_agents_learn_as_much_as_one_with_four_times_the_steps() -> None:
    """NT_1 uniform draws carry the same information, whichever agents make them.

    Two-sample Kolmogorov-Smirnov test on ½ log det(I + K/λ) of the first epoch, 200 seeds, α = 1e-3.
    """
    pool = small_pool(500)
    gains: dict[int, list[float]] = {1: [], 4: []}
    for n_agents, drawn in gains.items():
        first = 24 // n_agents
        for seed in range(200):
            coins = [agents.Coin.of_agent(1000 * n_agents + seed, n) for n in range(n_agents)]
            settings = duets(n_agents=n_agents, first_epoch=first)
            members = [settings.agent(n, pool, coin) for n, coin in enumerate(coins)]
            keys = np.concatenate([member._drawn.keys for member in members])
            drawn.append(information(KERNEL, pool.take(keys), 0.2))
    test = stats.ks_2samp(gains[1], gains[4])
    means = {n: float(np.mean(values)) for n, values in gains.items()}
    assert test.pvalue > ALPHA, f"p = {test.pvalue:.2e}, mean information {means}"


def test_four_agents_with_a_quarter_of_the_steps_behave_like_one() -> None:
    """N = 4, T = 60, T_1 = 2 against N = 1, T = 240, T_1 = 8: equally many draws per epoch, up to rounding.

    Kolmogorov-Smirnov tests on σ_max of epochs 2 and 3 and on the regret, 60 fresh seeds each, α = 1e-3.
    """
    pool = small_pool(200)
    best, found = PROBLEM(pool.features).max(), {}
    for n_agents, horizon, first in ((4, 60, 2), (1, 240, 8)):
        settings = duets(n_agents=n_agents, horizon=horizon, first_epoch=first)
        runs = [
            agents.run(settings, pool, rewards(seed), seed=seed)
            for seed in range(1000 * n_agents, 1000 * n_agents + 60)
        ]
        regret = [sum(float((best - PROBLEM(f)).sum()) for f in run.features) for run in runs]
        deviations = [[run.server.records[j].sigma_max for run in runs] for j in (1, 2)]
        found[n_agents] = (*deviations, regret)
    for name, one, four in zip(("σ_max 2", "σ_max 3", "regret"), found[1], found[4], strict=True):
        p = stats.ks_2samp(one, four).pvalue
        assert p > ALPHA / 3, f"{name}: p = {p:.2e}, means {np.mean(one):.4f} and {np.mean(four):.4f}"


def test_last_epoch_sends_no_real_number() -> None:
    settings, witness = duets(), Witness()
    agents.run(settings, small_pool(), rewards(0), seed=0, link=witness)
    last = [message for _, _, message, _ in witness.seen if message.epoch == len(settings.lengths)]
    assert {type(message) for message in last} == {Ready, Confirm}
    assert sum(message.real_numbers for message in last) == 0


def test_a_single_epoch_needs_no_inducing_points() -> None:
    result = agents.run(duets(horizon=5, first_epoch=9), small_pool(), rewards(0), seed=0)
    assert result.cost.total == 0
    assert [len(a) for a in result.arms] == [5] * 4


def test_sending_features_or_indices_changes_the_cost_only() -> None:
    pool = small_pool()
    by_index = agents.run(duets(), pool, rewards(3), seed=3)
    by_features = agents.run(duets(send="features"), pool, rewards(3), seed=3)
    assert all(np.array_equal(a, b) for a, b in zip(by_index.arms, by_features.arms, strict=True))
    n_points = sum(record.n_inducing for record in by_index.server.records)
    assert by_features.cost.downlink - by_index.cost.downlink == n_points
    assert by_features.cost.uplink == by_index.cost.uplink == n_points
    assert by_index.cost.downlink == 2 * n_points + 2 * 3


def test_a_pool_of_strings() -> None:
    names = ["".join(letters) for letters in np.random.default_rng(0).choice(list("acgt"), (60, 6))]
    pool = ma.Pool(names)
    settings = duets(kernel=ma.Hamming(), horizon=30)
    result = agents.run(settings, pool, lambda pulls: pulls.arms % 7 / 7, seed=0)
    assert [len(a) for a in result.arms] == [30] * 4


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ridge", 0.0),
        ("n_agents", 0),
        ("horizon", 0),
        ("first_epoch", 0),
        ("oversampling", -1.0),
        ("oversampling", "much"),
        ("width", "wide"),
        ("width", -1.0),
        ("delta", 0.0),
        ("send", "arms"),
        ("precision", "float16"),
        ("n_points", -3.0),
    ],
)
def test_impossible_settings_are_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidParameterError) as error:
        duets(**{name: value})
    assert str(value) in str(error.value)


def test_a_domain_must_be_a_pool_or_a_box() -> None:
    with pytest.raises(InvalidParameterError):
        duets().server(np.zeros((3, 2)), coins(0))  # type: ignore[arg-type]


def test_coins_are_private_and_replayable() -> None:
    one, other = agents.Coin.of_agent(7, 0), agents.Coin.of_agent(7, 1)
    assert one.key != other.key
    assert one == agents.Coin.of_agent(7, 0)
    assert np.array_equal(one.stream(3, 1).uniform(5), one.stream(3, 1).uniform(5))
    streams = [one.stream(3, 1), one.stream(4, 1), one.stream(3, 2), other.stream(3, 1)]
    firsts = {float(stream.uniform(1)[0]) for stream in streams}
    assert len(firsts) == 4
    assert one.key.hex() not in repr(one.fingerprint)


def test_draws_are_uniform_on_the_active_set() -> None:
    """χ² test of 30 000 draws on 60 arms, fixed seed, α = 1e-3."""
    pool = small_pool(60)
    settings = duets(n_agents=1, horizon=30_000, first_epoch=30_000)
    keys = settings.agent(0, pool, agents.Coin.of_agent(5, 0))._drawn.keys
    counts = np.bincount(keys, minlength=60)
    test = stats.chisquare(counts)
    assert test.pvalue > ALPHA, f"p = {test.pvalue:.2e}, counts {counts.tolist()}"

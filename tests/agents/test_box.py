"""DUETS on a continuous box: rejection sampling, its cap, and machines that round differently."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from manyarms import agents
from manyarms.agents.active_region import ActiveRegion
from manyarms.agents.active_set import Trim
from manyarms.agents.executors import make_host
from manyarms.agents.protocol import messages as m
from manyarms.agents.protocol.coins import Coin
from manyarms.agents.protocol.wire import decode, encode
from manyarms.errors import ImpossibleMessageError, InvalidParameterError, SamplingCapError
from tests.agents.oracle import sparse_posterior
from tests.agents.support import KERNEL, NOISE, PROBLEM, Witness, by_epoch, coins, rewards

BOX = agents.Box([0, 0], [1, 1], n_probes=500)
ALPHA = 1e-3


def duets(**changes: Any) -> agents.DUETS:
    settings = {"n_agents": 4, "horizon": 60, "width": 0.3, "noise_std": NOISE} | changes
    return agents.DUETS(KERNEL, 0.2, **settings)


def region(cutoff: float, **box: Any) -> ActiveRegion:
    """Points whose k(·, centre) is at least `cutoff`: a disc."""
    trim = Trim(np.array([[0.5, 0.5]]), np.array([1.0]), cutoff)
    return ActiveRegion(agents.Box([0, 0], [1, 1], **box), KERNEL, (trim,))


@pytest.mark.parametrize("seed", range(8))
def test_draws_lie_in_the_region_and_the_posterior_is_the_centralised_one(seed: int) -> None:
    settings, witness = duets(), Witness()
    result = agents.run(settings, BOX, rewards(seed), seed=seed, link=witness)
    points = [by_epoch(p, settings.lengths) for p in result.features]
    values = [by_epoch(r, settings.lengths) for r in result.rewards]
    trims: list[tuple[np.ndarray, m.Solution]] = []
    for epoch in range(1, len(settings.lengths) + 1):
        drawn = np.concatenate([p[epoch - 1] for p in points])
        assert ((drawn >= 0) & (drawn <= 1)).all()
        for inducing, solution in trims:
            mean = KERNEL.matrix(drawn, inducing) @ solution.weights
            assert (mean >= solution.cutoff - 1e-9).all()
        if epoch in witness.solutions:
            inducing, solution = witness.inducing[epoch].points, witness.solutions[epoch]
            seen = np.concatenate([v[epoch - 1] for v in values])
            mean, _ = sparse_posterior(KERNEL, inducing, drawn, seen, 0.2, BOX.at(_uniform(400)))
            found = KERNEL.matrix(BOX.at(_uniform(400)), inducing) @ solution.weights
            assert np.abs(found - mean).max() < 1e-10
            trims.append((inducing, solution))
    assert result.server.active.size < 0.6


def _uniform(n: int) -> np.ndarray:
    return np.random.default_rng(0).random(2 * n)


def test_rejection_draws_are_uniform_on_the_region() -> None:
    """χ² test of the angle and the squared radius of 4 000 draws on a disc, fixed seed, α = 1e-3."""
    keys = region(0.5).draw(Coin.of_agent(1, 0), 1, 4000).keys - 0.5
    squared = (keys**2).sum(axis=1) / (2 * 0.2**2 * np.log(2))
    assert squared.max() <= 1
    angle = (np.arctan2(keys[:, 1], keys[:, 0]) / (2 * np.pi)) % 1
    for name, share in (("squared radius", squared), ("angle", angle)):
        test = stats.chisquare(np.histogram(share, bins=20, range=(0, 1))[0])
        assert test.pvalue > ALPHA, f"{name}: p = {test.pvalue:.2e}"


def test_at_the_cap_points_are_repeated_and_without_any_point_it_is_an_error() -> None:
    few = region(0.9, max_tries=12).draw(Coin.of_agent(0, 0), 1, 40)
    assert not few.complete
    assert len(few) == 40
    different = np.unique(few.keys, axis=0)
    assert 0 < len(different) < 40
    assert region(0.9, max_tries=2000).draw(Coin.of_agent(0, 0), 1, 40).complete
    with pytest.raises(SamplingCapError, match="none of the 20 points"):
        region(0.999_999, max_tries=2).draw(Coin.of_agent(0, 0), 1, 10)


def test_a_trim_that_nobody_could_sample_is_withheld_and_recorded() -> None:
    box = agents.Box([0, 0], [1, 1], n_probes=500, max_tries=2)
    result = agents.run(duets(width=0.0), box, rewards(0), seed=0)
    withheld = [record for record in result.server.records if record.trim_withheld]
    assert withheld
    assert all(record.cutoff == -np.inf for record in withheld)
    assert [len(p) for p in result.features] == [60] * 4


def test_the_best_point_stays_in_the_region() -> None:
    for seed in range(10):
        active = agents.run(duets(width=1.0), BOX, rewards(seed), seed=seed).server.active
        assert active.contains(PROBLEM.maximisers).any(), f"seed {seed}"


def test_single_precision_agents_pull_the_servers_draws() -> None:
    """Half precision accepts other points; the server then sends its draws and counts them."""
    settings, corrections, resent = duets(precision="float32"), 0, 0.0
    for seed in range(6):
        members: list[Any] = [
            settings.agent(n, BOX, Coin.of_agent(seed, n), precision)
            for n, precision in enumerate(("float16", "float32", "float64", None))
        ]
        server, noisy = settings.server(BOX, coins(seed, settings.n_agents)), rewards(seed)

        def evaluate(pulls: agents.Pulls, server: Any = server, noisy: Any = noisy) -> Any:
            assert np.array_equal(pulls.features, server._drawn(pulls.agent).keys)
            return noisy(pulls)

        with make_host("sequential", members, evaluate) as host:
            run = agents.Run(server, host, agents.Ledger(4))
            run.finish()
            assert host.unfinished == ()
        assert all(record.left_out == () for record in server.records)
        corrections += sum(record.corrections for record in server.records)
        resent += run.ledger.cost.resent
    assert corrections > 0, "no disagreement in 6 runs, so the test checks nothing"
    assert resent > 0


def test_a_region_survives_the_wire() -> None:
    active = region(0.5).trimmed(Trim(np.array([[0.1, 0.2], [0.3, 0.4]]), np.array([1.0, -2.0]), -3.0))
    again = ActiveRegion(active.box, KERNEL).adopted(decode(encode(active.message(3))))
    assert again.digest == active.digest
    assert active.message(3).real_numbers == 3 * 2 + 3 + 2


@pytest.mark.parametrize(
    "message",
    [
        m.ActiveChain(m.SERVER, 1, np.array([2]), np.zeros((1, 2)), np.zeros(1), np.zeros(1)),
        m.ActiveChain(m.SERVER, 1, np.array([1]), np.zeros((1, 2)), np.zeros(1), np.zeros(2)),
        m.ActiveChain(m.SERVER, 1, np.array([-1, 2]), np.zeros((1, 2)), np.zeros(1), np.zeros(2)),
        m.ActiveChain(m.SERVER, 1, np.array([1]), np.zeros((1, 3)), np.zeros(1), np.zeros(1)),
        m.ActiveChain(m.SERVER, 1, np.array([1]), np.full((1, 2), 1.5), np.zeros(1), np.zeros(1)),
        m.ActiveChain(m.SERVER, 1, np.array([1]), np.full((1, 2), np.nan), np.zeros(1), np.zeros(1)),
        m.ActiveArms(m.SERVER, 1, 0, np.arange(3)),
        m.EpochDraws(m.SERVER, 1, np.arange(2)),
        m.EpochDraws(m.SERVER, 1, np.full((2, 2), 3.0)),
        m.Inducing(m.SERVER, 1, np.arange(2)),
    ],
)
def test_impossible_regions_and_points_are_refused(message: m.Message) -> None:
    agent = duets().agent(0, BOX, Coin.of_agent(0, 0))
    with pytest.raises(ImpossibleMessageError):
        agent.receive(message)
    assert (agent.epoch, agent.phase) == (1, "ready")


@pytest.mark.parametrize(
    ("lower", "upper"), [([0], [0]), ([0, 0], [1]), ([0], [np.inf]), ([[0]], [[1]]), ([2], [1])]
)
def test_impossible_boxes_are_refused(lower: Any, upper: Any) -> None:
    with pytest.raises(InvalidParameterError):
        agents.Box(lower, upper)

"""Ada-BKB on a box: the same pulls as the plain version, sound bounds, pruning, its end and its batches."""

from __future__ import annotations

import numpy as np
import pytest

import manyarms as ma
from manyarms.errors import NothingToAskError
from manyarms.run.certificate import CERTIFICATE
from tests.continuous.oracle import PlainAdaBKB

UNIT = ma.Box([0.0, 0.0], [1.0, 1.0])
SETTINGS = {"noise_std": 0.1, "norm_bound": 2.0, "delta": 0.05}


def function(seed: int, kernel: ma.RBF, norm: float, d: int = 2):
    """A function of this norm in the RKHS of the kernel."""
    rng = np.random.default_rng(seed)
    centres, weights = rng.random((12, d)), rng.normal(size=12)
    weights *= norm / np.sqrt(weights @ kernel.matrix(centres, centres) @ weights)
    return lambda points: kernel.matrix(np.atleast_2d(points), centres) @ weights


@pytest.mark.parametrize("d", [1, 2])
def test_the_same_points_as_the_plain_version(d: int) -> None:
    kernel = ma.RBF(0.3)
    f, rng = function(3, kernel, 2.0, d), np.random.default_rng(0)
    plain = PlainAdaBKB(d, 0.3, 0.01, 0.1, 2.0, 0.05)
    run = ma.Optimizer(ma.Box([0.0] * d, [1.0] * d), ma.GPUCB(kernel=kernel, **SETTINGS))
    for _ in range(30):
        batch, expected = run.ask(), plain.next_point()
        np.testing.assert_allclose(run.points(batch)[0], expected, atol=1e-9)
        reward = float(f(expected)[0] + 0.1 * rng.normal())
        run.tell(batch, [reward])
        plain.tell(expected, reward)
    cells = {tuple(np.round([*cell.low, *cell.high], 9)) for cell in plain.leaves}
    tree = run.partition.tree
    ours = {tuple(np.round([*tree.low[i], *tree.high[i]], 9)) for i in tree.active}
    assert len(ours) > 5
    assert ours - cells == set()  # the plain version prunes at its next step


def test_bkb_with_a_full_dictionary_is_the_same() -> None:
    kernel, f = ma.RBF(0.3), function(3, ma.RBF(0.3), 2.0)
    runs = []
    for policy in (ma.GPUCB(kernel=kernel, **SETTINGS), ma.BKB(kernel=kernel, oversampling=1e9, **SETTINGS)):
        result = ma.maximize(lambda arm: float(f(arm.features)[0]), UNIT, 25, policy)
        runs.append(result.optimizer.pool.take(result.arms))
    np.testing.assert_allclose(runs[0], runs[1], atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_indices_bound_the_function_in_every_cell_and_pruning_keeps_the_maximum(seed: int) -> None:
    """With norm and noise as assumed the bounds fail with probability δ = 0.05 a run (Bonferroni: 0.15)."""
    kernel, rng = ma.RBF(0.3), np.random.default_rng(seed)
    f = function(seed, kernel, 2.0)
    policy = ma.BKB(kernel=kernel, noise_std=0.02, norm_bound=2.0, delta=0.05)
    run = ma.Optimizer(UNIT, policy)
    places = rng.random((4000, 2))
    values = f(places)
    for _ in range(60):
        batch = run.ask()
        run.tell(batch, f(run.points(batch)) + 0.02 * rng.normal(size=len(batch.arms)))
    run.ask()
    tree = run.partition.tree
    assert tree.pruned.any()
    owner = tree.leaf_of(places)
    assert not tree.pruned[owner[np.argmax(values)]]
    certificate = run.certificate()
    assert certificate.kind == CERTIFICATE
    assert certificate.best_value_bound >= values.max()
    assert certificate.gap >= values.max() - f(run.best().features)[0]
    assert certificate.regret >= 0


def test_the_gap_shrinks_and_ends_a_run() -> None:
    kernel, f = ma.RBF(0.5), function(1, ma.RBF(0.5), 1.0, 1)
    policy = ma.BKB(kernel=kernel, noise_std=0.01, norm_bound=1.0)
    result = ma.maximize(
        lambda arm: float(f(arm.features)[0]), ma.Box([0.0], [1.0]), 500, policy, until_gap=0.3
    )
    assert result.gap_reached
    assert len(result.rewards) < 500
    best = f(np.linspace(0, 1, 2001)[:, None]).max()
    assert best - f(result.best.features)[0] <= 0.3


def test_a_run_ends_early_when_the_depth_is_reached() -> None:
    kernel, f = ma.RBF(0.5), function(1, ma.RBF(0.5), 1.0, 1)
    policy = ma.BKB(kernel=kernel, noise_std=0.01, norm_bound=1.0)
    box = ma.Box([0.0], [1.0])
    result = ma.maximize(lambda arm: float(f(arm.features)[0]), box, 2000, policy, max_depth=2)
    assert len(result.rewards) < 2000
    assert result.optimizer.partition.tree.depth.max() <= 2
    with pytest.raises(NothingToAskError, match="max_depth"):
        result.optimizer.ask()


def test_integers_are_never_left() -> None:
    """Nine points, noise 0.05: the best one is 0.12 above its neighbours, which the certificate shows."""
    box, rng = ma.Box([-4], [4], integer=True), np.random.default_rng(0)
    policy = ma.BKB(kernel=ma.RBF(2.0), noise_std=0.05, norm_bound=1.5)
    result = ma.maximize(
        lambda arm: float(np.exp(-((arm.features[0] - 2) ** 2) / 8) + 0.05 * rng.normal()),
        box,
        1000,
        policy,
        until_gap=0.12,
    )
    assert result.gap_reached
    assert result.best.features.tolist() == [2.0]
    assert set(result.optimizer.pool.take(result.arms)[:, 0]) <= set(range(-4, 5))


def test_a_batch_hallucinates_and_its_rule_ends_it() -> None:
    policy = ma.BBKB(kernel=ma.RBF(0.3), batch_ratio=3.0, **SETTINGS)
    f, run = function(5, ma.RBF(0.3), 2.0), ma.Optimizer(UNIT, policy)
    for _ in range(12):
        batch = run.ask()
        run.tell(batch, f(run.points(batch)))
    assert max(len(record.arms) for record in run.trace) > 1
    exact = run.ask(7)
    assert len(exact.arms) == 7
    assert exact.ended_because == "size asked for"
    assert len(run.pending) == 7
    again = run.ask(3)  # pending pulls count: not the same three as a fresh run would choose
    assert set(again.arms.tolist()) != set(exact.arms[:3].tolist())


def test_a_batch_of_one_is_a_single_ask() -> None:
    f = function(5, ma.RBF(0.3), 2.0)
    first, second = (ma.Optimizer(UNIT, ma.BKB(kernel=ma.RBF(0.3), **SETTINGS)) for _ in range(2))
    for _ in range(15):
        one, other = first.ask(), second.ask(1)
        np.testing.assert_array_equal(first.points(one), second.points(other))
        first.tell(one, f(first.points(one)))
        second.tell(other, f(second.points(other)))


def test_a_failed_centroid_is_not_asked_for_forever() -> None:
    run = ma.Optimizer(UNIT, ma.BKB(kernel=ma.RBF(0.3), width=2.0, noise_std=0.01))
    seen = []
    for _ in range(12):
        batch = run.ask()
        seen += [tuple(row) for row in run.points(batch)]
        run.tell(batch, failed=True)
    assert len(set(seen)) > 5


def test_log_axes_are_seen_by_their_logarithm() -> None:
    """The same run as on the logarithms."""
    kernel = ma.RBF((0.3, 1.0))
    f = function(2, ma.RBF(0.3), 1.0)
    plain = ma.Box([0.0, np.log(0.1)], [1.0, np.log(10.0)])
    log = ma.Box([0.0, 0.1], [1.0, 10.0], log=[1])

    def on_log(arm):
        return float(f([arm.features[0], np.log(arm.features[1]) / 5 + 0.5])[0])

    def on_plain(arm):
        return float(f([arm.features[0], arm.features[1] / 5 + 0.5])[0])

    policy = ma.GPUCB(kernel=kernel, **SETTINGS)
    one, other = ma.maximize(on_log, log, 25, policy), ma.maximize(on_plain, plain, 25, policy)
    points = one.optimizer.pool.take(one.arms)
    points[:, 1] = np.log(points[:, 1])
    np.testing.assert_allclose(points, other.optimizer.pool.take(other.arms), atol=1e-9)

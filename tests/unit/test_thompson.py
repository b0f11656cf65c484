"""Thompson policies and the linear ones through the optimiser: batches, saving, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

import manyarms as ma
from manyarms.choice.prior_draws import keyed_normals, row_names
from manyarms.choice.thompson_draws import Maximisers, draw_functions
from manyarms.errors import (
    InvalidFeaturesError,
    InvalidKernelError,
    InvalidParameterError,
    PoolTooLargeError,
    UnsuitableKernelError,
)
from manyarms.pool.allowance import Allowance
from manyarms.sketch.published_sizes import published_size

POOL = ma.Pool(np.random.default_rng(0).random((80, 2)))
TRUTH = np.sin(6 * POOL.features[:, 0]) + POOL.features[:, 1]
KERNEL = ma.RBF(0.3)

POLICIES = {
    "GPTS": ma.GPTS(kernel=KERNEL),
    "SGPTS-points": ma.SGPTS(kernel=KERNEL, prior_size=100),
    "SGPTS-kdpp": ma.SGPTS(kernel=KERNEL, inducing="kdpp", size=6, prior_size=100),
    "SGPTS-features": ma.SGPTS(kernel=KERNEL, rule="features", size=20, prior_size=60),
    "SGPTS-landmarks": ma.SGPTS(kernel=KERNEL, prior_map="landmarks", prior_size=40),
    "SGPTS-fourier": ma.SGPTS(kernel=KERNEL, prior_map="fourier", prior_size=100),
    "SGPTS-batches": ma.SGPTS(kernel=KERNEL, prior_size=100, batch_size=4, distinct=True),
    "RFFTS": ma.RFFTS(kernel=KERNEL, pairs=12),
    "QFFTS": ma.QFFTS(kernel=KERNEL, nodes=8),
    "OFUL": ma.OFUL(kernel=ma.Linear(bias=1.0)),
    "SOFUL": ma.SOFUL(size=2),
    "SOFUL-TS": ma.SOFUL(size=2, choose="thompson"),
    "CBRAP": ma.CBRAP(size=1),
}


def play(opt: ma.Optimizer, batches: int) -> list[int]:
    arms: list[int] = []
    for _ in range(batches):
        batch = opt.ask()
        opt.tell(batch, TRUTH[batch.arms % 80] + 0.1 * np.sin(batch.tickets))
        arms += batch.arms.tolist()
    return arms


@pytest.mark.parametrize("name", POLICIES)
def test_a_saved_run_goes_on_bit_for_bit(name, tmp_path):
    """Saved with a batch half told; also after more arms were added, for which feature maps were not made."""
    opt = ma.Optimizer(POOL, POLICIES[name], seed=4)
    play(opt, 12)
    opt.add_arms(POOL.features[:5] * 0.9 + 0.05)
    batch = opt.ask(3)
    opt.tell(batch.tickets[:1], [0.3])
    opt.save(tmp_path / "run.npz")
    again = ma.Optimizer.load(tmp_path / "run.npz")
    for run in (opt, again):
        run.tell(batch.tickets[1:], [0.1, 0.2])
    assert np.array_equal(opt.draw(2).values, again.draw(2).values)
    assert play(opt, 8) == play(again, 8)
    assert np.array_equal(opt.posterior.mean, again.posterior.mean)


@pytest.mark.parametrize("name", POLICIES)
def test_equal_seeds_give_equal_runs_and_looking_does_not_move_them(name):
    first, second = (ma.Optimizer(POOL, POLICIES[name], seed=9) for _ in range(2))
    for _ in range(5):
        play(second, 1)
        second.draw(2)
        second.predict()
    assert play(first, 5) == [int(arm) for record in second.trace for arm in record.arms]


@pytest.mark.parametrize("name", ["GPTS", "SGPTS-points", "SGPTS-features", "SGPTS-landmarks", "RFFTS"])
def test_a_draw_is_a_function(name):
    """Called at the arms' features it has the pool's values; elsewhere it is finite and repeatable."""
    opt = ma.Optimizer(POOL, POLICIES[name], seed=2)
    play(opt, 10)
    draws = opt.draw(3)
    assert len(draws) == 3
    assert draws(POOL.features) == pytest.approx(draws.values, abs=1e-5)
    elsewhere = np.random.default_rng(1).random((7, 2))
    assert np.isfinite(draws(elsewhere)).all()
    assert np.array_equal(draws(elsewhere), draws(elsewhere))


@pytest.mark.parametrize("name", ["GPTS", "SGPTS-points", "SGPTS-features", "SGPTS-landmarks", "RFFTS"])
def test_n_draws_are_n_times_one_draw(name):
    opt = ma.Optimizer(POOL, POLICIES[name], seed=2)
    play(opt, 10)
    posterior, prior = opt.posterior, opt.prior
    together = draw_functions(posterior, prior, 1.5, 4, np.random.default_rng(3)).values
    rng = np.random.default_rng(3)
    alone = [draw_functions(posterior, prior, 1.5, 1, rng).values[0] for _ in range(4)]
    assert together == pytest.approx(np.array(alone), abs=1e-12)
    for together_in_memory in (1, 2, 4):
        in_turn = Maximisers(posterior, prior, 1.5, 4, np.random.default_rng(3), once=False)
        in_turn._together = together_in_memory
        everyone = Allowance(posterior.pool.n_arms)
        assert [in_turn.next(everyone) for _ in range(4)] == together.argmax(axis=1).tolist()


def test_a_scale_of_zero_is_the_mean():
    opt = ma.Optimizer(POOL, ma.SGPTS(kernel=KERNEL, prior_size=100, width=0.0), seed=2)
    play(opt, 10)
    assert opt.draw(2).values == pytest.approx(np.tile(opt.predict()[0], (2, 1)), abs=1e-9)


def test_batches_and_distinct_arms():
    opt = ma.Optimizer(POOL, ma.SGPTS(kernel=KERNEL, prior_size=100, width=0.01, distinct=True), seed=3)
    play(opt, 10)
    batch = opt.ask(30)
    assert len(set(batch.arms.tolist())) == 30
    more = opt.ask(100)  # more than there are arms: every arm once, then from the beginning
    assert len(more) == 100
    assert len(set(more.arms.tolist())) == 80
    repeating = ma.Optimizer(POOL, ma.SGPTS(kernel=KERNEL, prior_size=100, width=0.01), seed=3)
    play(repeating, 10)
    assert len(set(repeating.ask(30).arms.tolist())) < 30


def test_batches_have_their_size_and_respect_what_is_allowed():
    policy = ma.SGPTS(kernel=KERNEL, prior_size=100, batch_size=7)
    opt = ma.Optimizer(POOL, policy, seed=3, repeats="forbid")
    play(opt, 1)
    batch = opt.ask()
    assert (len(batch), batch.ended_because) == (7, "fixed size")
    assert len(set(batch.arms.tolist())) == 7
    assert len(opt.ask(at_most=3)) == 3
    used = {int(arm) for record in opt.trace for arm in record.arms}
    free = sorted(set(range(80)) - used)[:2]
    assert set(opt.ask(2, eligible=free).arms.tolist()) == set(free)


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: ma.QFFTS(kernel=ma.Tanimoto()), UnsuitableKernelError, "spectral density"),
        (lambda: ma.QFFTS(kernel=ma.Matern(0.3)), UnsuitableKernelError, "RBF"),
        (lambda: ma.QFFTS(kernel=KERNEL, nodes=200), InvalidParameterError, "at most 100"),
        (lambda: ma.RFFTS(kernel=ma.Linear()), UnsuitableKernelError, "RBF, Matern"),
        (lambda: ma.RFFTS(kernel=KERNEL, pairs=0), InvalidParameterError, "pairs"),
        (lambda: ma.SGPTS(kernel=ma.Tanimoto(), rule="features"), UnsuitableKernelError, "inducing points"),
        (lambda: ma.SGPTS(kernel=KERNEL, inducing="kdpp", size=81), InvalidParameterError, "at most 80"),
        (lambda: ma.SGPTS(kernel=KERNEL, size="points"), InvalidParameterError, "horizon"),
        (lambda: ma.SGPTS(kernel=KERNEL, size="large"), InvalidParameterError, "number or one of points"),
        (lambda: ma.SGPTS(kernel=KERNEL, size=0), InvalidParameterError, "size"),
        (lambda: ma.SGPTS(kernel=KERNEL, rule="both"), InvalidParameterError, "'points' or 'features'"),
        (lambda: ma.SGPTS(kernel=KERNEL, prior_map="nice"), InvalidParameterError, "eigenfunctions"),
        (lambda: ma.SGPTS(kernel=KERNEL, inducing="none"), InvalidParameterError, "inducing"),
        (lambda: ma.SGPTS(kernel=KERNEL, batch_size=0), InvalidParameterError, "batch_size"),
        (lambda: ma.SGPTS(kernel=KERNEL, distinct="no"), InvalidParameterError, "distinct"),
        (lambda: ma.SGPTS(kernel=KERNEL, horizon=-3), InvalidParameterError, "horizon"),
        (
            lambda: ma.SGPTS(kernel=ma.Matern(nu=0.5), rule="features", prior_size="prior", horizon=10**4),
            InvalidParameterError,
            "at most 20000",
        ),
        (lambda: ma.SGPTS(kernel=KERNEL, ridge=1e-16), InvalidParameterError, "ridge"),
        (lambda: ma.OFUL(kernel=KERNEL), UnsuitableKernelError, "Linear"),
        (lambda: ma.CBRAP(size=3), InvalidParameterError, "at most 2"),
        (lambda: ma.CBRAP(kernel=KERNEL, size=2), UnsuitableKernelError, "linear"),
        (lambda: ma.SOFUL(size=1), InvalidParameterError, "size"),
        (lambda: ma.SOFUL(choose="best"), InvalidParameterError, "'ucb' or 'thompson'"),
        (lambda: ma.RFFTS(kernel=ma.RBF((0.1, 0.2, 0.3))), InvalidKernelError, "length-scales"),
    ],
)
def test_refusals_say_what_to_do(make, error, says):
    with pytest.raises(error, match=says):
        ma.Optimizer(POOL, make())


def test_an_exact_joint_draw_refuses_a_pool_that_does_not_fit():
    with pytest.raises(PoolTooLargeError, match="SGPTS"):
        ma.Optimizer(ma.Pool(np.zeros((20_001, 1))), ma.GPTS(kernel=KERNEL))


def test_new_arms_outside_the_box_of_the_eigenfunctions_change_nothing():
    opt = ma.Optimizer(POOL, POLICIES["SGPTS-features"], seed=1)
    arms = play(opt, 5)
    with pytest.raises(InvalidFeaturesError, match="outside the box"):
        opt.add_arms([[50.0, 50.0]])
    other = ma.Optimizer(POOL, POLICIES["SGPTS-features"], seed=1)
    assert arms + play(opt, 5) == play(other, 10)
    assert opt.pool.n_arms == 80


@pytest.mark.parametrize(
    ("role", "kernel", "d", "size"),
    [
        ("points", ma.RBF(), 2, 7),  # log 1000 = 6.9
        ("safe", ma.RBF(), 2, 48),
        ("features", ma.RBF(), 1, 3),
        ("prior", 2.0 * ma.RBF(), 2, 48),
        ("points", ma.Matern(nu=2.5), 2, 100),  # 1000^{2/3}
        ("safe", ma.Matern(nu=2.5), 2, 100),
        ("features", ma.Matern(nu=2.5), 2, 16),  # 1000^{2/5}
        ("prior", ma.Matern(nu=2.5), 2, 3982),  # 1000^{6/5}
    ],
)
def test_published_sizes(role, kernel, d, size):
    assert published_size(role, kernel, 1000, d) == size


def test_a_published_size_gets_its_number_from_the_pool():
    opt = ma.Optimizer(POOL, ma.SGPTS(kernel=KERNEL, inducing="kdpp", size="safe", horizon=500))
    assert opt.policy.size == 39  # log² 500 = 38.6
    for role, kernel in (("points", ma.Matern(nu=1.0)), ("prior", ma.Tanimoto()), ("rows", ma.RBF())):
        with pytest.raises(InvalidParameterError):
            published_size(role, kernel, 1000, 2)


def test_equal_rows_do_not_count_as_different_arms():
    pool = ma.Pool(np.repeat(POOL.features[:5], 600, axis=0))
    with pytest.raises(InvalidParameterError, match="at most 5"):
        ma.Optimizer(pool, ma.SGPTS(kernel=KERNEL, inducing="kdpp", size=100))


@pytest.mark.parametrize(
    ("features", "kernel"),
    [
        (["ACGT", "ACGA", "TTGT", "CCCC"] * 5, ma.Hamming(1.0)),
        (np.random.default_rng(1).random((40, 64)) < 0.3, ma.Tanimoto()),
        (POOL.features, ma.RBF(0.3) + ma.Linear()),
        (POOL.features, ma.RBF(0.3) * ma.Matern(1.0)),
        (POOL.features[:, 0], 3.0 * ma.Matern(0.3)),
        (np.random.default_rng(2).random((60, 20)), ma.RBF(2.0)),
    ],
    ids=["strings", "bits", "sum", "product", "one feature", "20 features"],
)
def test_every_kernel_has_a_prior_to_draw_from(features, kernel):
    opt = ma.Optimizer(ma.Pool(features), ma.SGPTS(kernel=kernel, prior_size=80), seed=1)
    for _ in range(5):
        batch = opt.ask()
        opt.tell(batch, np.cos(batch.arms))
    draws = opt.draw(2)
    assert draws(opt.pool.features) == pytest.approx(draws.values, abs=1e-6)


def test_policies_that_never_draw_can_be_drawn_from():
    """Before any pull a draw from GP-UCB's posterior has the prior's variance: 400 draws, five errors."""
    values = ma.Optimizer(POOL, ma.GPUCB(kernel=KERNEL, width=1.0)).draw(400).values
    assert np.abs(values.var(axis=0).mean() - 1) < 5 * np.sqrt(2 / 400)


def test_arms_far_outside_can_be_added_where_the_sketch_stands_on_arms():
    opt = ma.Optimizer(POOL, POLICIES["SGPTS-points"], seed=1)
    play(opt, 5)
    opt.add_arms([[50.0, 50.0]])
    draws = opt.draw(400).values[:, -1]
    assert np.abs(draws.std() / opt.draw(1).scale - 1) < 0.25, (
        "the prior's standard deviation, far from all data"
    )


@pytest.mark.parametrize("name", ["SGPTS-kdpp", "SGPTS-features", "GPTS"])
def test_a_horizon_is_extended_only_where_there_is_oversampling(name):
    opt = ma.Optimizer(POOL, POLICIES[name], seed=1)
    with pytest.raises(InvalidParameterError, match="leverage scores"):
        opt.extend_horizon(10.0)


def test_a_projection_keeps_its_own_leverage():
    """‖z‖² may exceed k there; zᵀV⁻¹z is written out."""
    opt = ma.Optimizer(POOL, ma.CBRAP(size=1, ridge=0.5), seed=3)
    opt.tell(arms=np.full(50, int(np.argmax(np.linalg.norm(POOL.features, axis=1)))), rewards=np.ones(50))
    opt.ask(1)
    state, Z = opt.posterior.state, opt.posterior.rows(np.arange(80))
    V = 50 * np.outer(Z[state.arms[0]], Z[state.arms[0]]) + 0.5 * np.eye(1)
    assert opt.posterior.leverage == pytest.approx(np.einsum("ij,jk,ik->i", Z, np.linalg.inv(V), Z))


def test_noise_belongs_to_the_point():
    points = np.random.default_rng(3).random((20_000, 3))
    names = row_names(points)
    assert np.array_equal(row_names(points[5:9]), names[5:9])
    one, other = keyed_normals(names, np.uint64(1)), keyed_normals(names, np.uint64(2))
    assert np.array_equal(one[5:9], keyed_normals(names[5:9], np.uint64(1)))
    for values in (one, other):  # 20 000 numbers: five standard errors, α < 1e-5
        assert abs(values.mean()) < 5 / np.sqrt(20_000)
        assert abs(values.var() - 1) < 5 * np.sqrt(2 / 20_000)
    assert abs(np.corrcoef(one, other)[0, 1]) < 5 / np.sqrt(20_000)
    assert len(set(row_names(np.array(["a", "b", "a"], dtype=object)).tolist())) == 2

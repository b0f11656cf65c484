"""What a run does with failed trials: nothing without any, retries if random, avoidance if they depend."""

from __future__ import annotations

import numpy as np
import pytest

import manyarms as ma
from manyarms import errors
from manyarms.engines import base

KERNEL = ma.Matern(lengthscale=0.5)
POLICIES = {
    "learned": None,
    "BBKB": ma.BBKB(kernel=KERNEL),
    "GPUCB": ma.GPUCB(kernel=KERNEL),
    "MiniGPUCB": ma.MiniGPUCB(kernel=KERNEL),
    "GPBUCB": ma.GPBUCB(kernel=KERNEL),
    "EpsGreedy": ma.EpsGreedy(kernel=KERNEL),
    "SGPTS": ma.SGPTS(kernel=KERNEL, prior_size=40),
}


def problem(n: int = 400) -> tuple[ma.Pool, np.ndarray]:
    """A hill in the half of the square where x > 0.6, in which trials fail, and a lower one elsewhere."""
    X = np.random.default_rng(1).random((n, 2))
    values = 2 * np.exp(-9 * ((X[:, 0] - 0.8) ** 2 + (X[:, 1] - 0.5) ** 2))
    return ma.Pool(X), values + np.exp(-9 * ((X[:, 0] - 0.2) ** 2 + (X[:, 1] - 0.3) ** 2))


def step(opt: ma.Optimizer, values: np.ndarray, lost: np.ndarray, n: int = 8, late: int = 0) -> ma.Batch:
    """Ask for n arms and tell all but the first `late` of them; those in `lost` fail."""
    batch = opt.ask(n)
    arms, tickets = batch.arms[late:], batch.tickets[late:]
    noise = np.array([0.05 * np.random.default_rng((3, t)).normal() for t in tickets.tolist()])
    opt.tell(tickets, values[arms] + noise, failed=lost[arms].tolist())
    return batch


def failing_right(pool: ma.Pool) -> np.ndarray:
    return np.asarray(pool.features[:, 0] > 0.6)


@pytest.mark.parametrize("name", POLICIES)
def test_without_failures_nothing_changes(name):
    runs = []
    for failures in ("learn", "drop"):
        pool, values = problem()
        opt = ma.Optimizer(pool, POLICIES[name], seed=3, failures=failures)
        batches = [step(opt, values, np.zeros(400, bool), 24, late=3) for _ in range(4)]
        runs.append((batches, opt.predict()))
    for one, other in zip(runs[0][0], runs[1][0], strict=True):
        assert one.arms.tolist() == other.arms.tolist()
        assert (one.why, one.ratio, one.ended_because) == (other.why, other.ratio, other.ended_because)
    assert np.array_equal(runs[0][1], runs[1][1])


@pytest.mark.parametrize("name", ["learned", "BBKB", "MiniGPUCB", "GPUCB"])
def test_failures_that_depend_on_the_features_are_avoided(name):
    trials = {}
    for failures in ("learn", "drop"):
        pool, values = problem()
        lost = failing_right(pool)
        opt = ma.Optimizer(pool, POLICIES[name], seed=3, failures=failures, max_failures=1, repeats="forbid")
        for _ in range(12):
            step(opt, values, lost)
        trials[failures] = sum(int(record.failed.sum()) for record in opt.trace)
    assert trials["learn"] < 0.7 * trials["drop"], trials


def test_the_report_says_what_was_found():
    pool, values = problem()
    lost = failing_right(pool)
    named = ma.Pool(pool.features, names=["heat", "time"])
    opt = ma.Optimizer(named, seed=3)
    assert opt.failures().text == "no trial has failed"
    assert opt.success([0, 1]).tolist() == [1.0, 1.0]
    for _ in range(8):
        step(opt, values, lost)
    found = opt.failures()
    assert found.depends
    assert found.dependence > 0.5
    assert found.columns == ("heat",)
    assert "depend on 'heat'" in found.text
    success = opt.success(np.arange(400))
    assert success[lost].mean() < 0.4 < 0.8 < success[~lost].mean()
    right, left = opt.explain([int(np.flatnonzero(lost)[0]), int(np.flatnonzero(~lost)[0])])
    assert right.success < left.success
    assert sum(each.failures for each in opt.explain(np.arange(400))) == found.failed
    dropped = ma.Optimizer(named, seed=3, failures="drop")
    step(dropped, values, np.ones(400, bool))
    assert dropped.explain([3])[0].success is None
    assert "is not offered again" in dropped.failures().text


def test_arms_that_fail_at_random_come_again_and_say_so():
    pool, values = problem(60)
    rng = np.random.default_rng(2)
    opt, failed, again = ma.Optimizer(pool, seed=1, repeats="forbid"), {}, 0
    for _ in range(14):
        batch = opt.ask(at_most=6)
        lost = rng.random(len(batch)) < 0.3
        for arm, why, bad in zip(batch.arms.tolist(), batch.why, lost, strict=True):
            assert ("again after a failure" in why) == (arm in failed)
            again += arm in failed
            failed[arm] = failed.get(arm, 0) + 1 if bad else failed.get(arm, 0)
            failed = {each: times for each, times in failed.items() if times}
        assert max(failed.values(), default=0) <= 3
        opt.tell(batch, values[batch.arms], failed=lost.tolist())
        if len(opt.history) >= 50:
            break
    assert again > 3
    assert "look random" in opt.failures().text


@pytest.mark.parametrize("policy", [None, ma.BBKB(kernel=KERNEL)])
@pytest.mark.parametrize("failures", ["learn", "drop"])
def test_a_pool_in_which_everything_fails_is_used_up(policy, failures):
    pool, _ = problem(30)
    opt = ma.Optimizer(pool, policy, seed=1, failures=failures, repeats="forbid")
    handed_out = 0
    while any(opt.state.tickets.failures.get(arm, 0) < (opt.failures().tries or 0) for arm in range(30)):
        batch = opt.ask(at_most=5)
        handed_out += len(batch)
        opt.tell(batch, failed=True)
    with pytest.raises(errors.NothingToAskError, match="failed too often"):
        opt.ask()
    assert max(opt.state.tickets.failures.values()) <= 3
    assert handed_out <= 90
    if failures == "drop":
        assert handed_out == 30
    with pytest.raises(errors.NoResultsError, match=f"all {handed_out} trials failed"):
        opt.best()


def test_failed_arms_of_unasked_results_are_known_too():
    pool, values = problem()
    lost = failing_right(pool)
    opt = ma.Optimizer(pool, seed=3)
    arms = np.arange(60)
    opt.tell(arms=arms, rewards=values[arms], failed=lost[arms].tolist())
    assert opt.failures().trials == 60
    assert opt.failures().depends
    assert lost[opt.ask(10).arms].mean() < 0.5


def test_a_saved_run_continues_as_if_it_had_not_been_interrupted(tmp_path):
    pool, values = problem()
    lost = failing_right(pool)
    opt = ma.Optimizer(pool, seed=3)
    for _ in range(6):
        step(opt, values, lost, 10, late=2)
    opt.save(tmp_path / "run.npz")
    again = ma.Optimizer.load(tmp_path / "run.npz")
    assert (again.context.failures, again.max_failures) == ("learn", "auto")
    for _ in range(3):
        one, other = step(opt, values, lost, 10, late=2), step(again, values, lost, 10, late=2)
        assert one.arms.tolist() == other.arms.tolist()
        assert one.why == other.why
    assert opt.failures() == again.failures()


def test_runs_of_earlier_versions_drop_failed_arms(monkeypatch, tmp_path):
    """Their settings do not have the name, and one failure was enough."""
    pool, values = problem()
    opt = ma.Optimizer(pool, seed=3, failures="drop", max_failures=1)
    step(opt, values, failing_right(pool))
    plain = type(opt.context).settings
    monkeypatch.setattr(
        type(opt.context), "settings", lambda self: {k: v for k, v in plain(self).items() if k != "failures"}
    )
    opt.save(tmp_path / "run.npz")
    monkeypatch.undo()
    again = ma.Optimizer.load(tmp_path / "run.npz")
    assert (again.context.failures, again.max_failures) == ("drop", 1)
    assert again.ask(20).arms.tolist() == opt.ask(20).arms.tolist()


@pytest.mark.parametrize("policy", [None, ma.BBKB(kernel=KERNEL), ma.MiniGPUCB(kernel=KERNEL)])
def test_the_lazy_contest_finds_the_same_arms(policy):
    chosen = []
    for lazy in (True, False):
        pool, values = problem()
        opt = ma.Optimizer(pool, policy, seed=3, lazy=lazy)
        chosen.append([step(opt, values, failing_right(pool), 10, late=2).arms.tolist() for _ in range(6)])
        assert opt.failures().depends
    assert chosen[0] == chosen[1]


@pytest.mark.parametrize("per_cost", [False, True])
def test_the_first_pick_is_the_highest_value_of_the_formula(per_cost):
    """log p log(1 + e^((U − r)/s)) with the median r of the means of arms tried; log EI − log c + log p."""
    from manyarms.choice.acquisition import LogExpectedImprovement

    pool, values = problem()
    lost, costs = failing_right(pool), 1 + np.random.default_rng(0).random(400)
    spent = ma.Costs(costs, per_cost=True) if per_cost else None
    opt = ma.Optimizer(pool, ma.BBKB(kernel=KERNEL), seed=3, repeats="forbid", costs=spent)
    for _ in range(6):
        step(opt, values, lost, 10)
    state, width = opt._looked_ahead(), opt._looked_ahead().belief.width()
    posterior, p = state.belief.state, opt.success(np.arange(400))
    mean, leverage = posterior.mean, posterior.leverage
    tried = posterior.at(posterior.arms).mean
    if per_cost:
        above = mean - tried.max()
        score = (
            LogExpectedImprovement(0.0).values(above, posterior.ridge * leverage) - np.log(costs) + np.log(p)
        )
    else:
        bound, r = mean + width * np.sqrt(leverage), float(np.median(tried))
        score = np.log(p * np.log1p(np.exp((bound - r) / (0.3 * tried.std()))))
    failures = state.tickets.failures
    tries = opt.failures().tries
    closed = [*opt.history.arms.tolist(), *(arm for arm, times in failures.items() if times >= tries)]
    score[closed] = -np.inf
    assert opt.failures().depends
    assert opt.ask(1).arms[0] == np.argmax(score)


def test_the_arms_do_not_depend_on_the_shards(monkeypatch):
    monkeypatch.setattr(base, "BLOCK", 64)
    monkeypatch.setattr("manyarms.pool.pool._MAX_BLOCK_ROWS", 64)
    monkeypatch.setattr("manyarms.posterior.shard._REBUILD_ROWS", 64)
    chosen = []
    for engine in (ma.engines.Local(shards=1, threads=1), ma.engines.Local(shards=5, threads=2)):
        pool, values = problem(1000)
        opt = ma.Optimizer(pool, seed=3, engine=engine)
        chosen.append([step(opt, values, failing_right(pool), 24, late=4).arms.tolist() for _ in range(4)])
        assert opt.failures().depends
    assert chosen[0] == chosen[1]


def test_settings_are_checked():
    pool, _ = problem(10)
    for settings in (
        {"failures": "forget"},
        {"max_failures": "often"},
        {"max_failures": 0},
        {"failures": None},
    ):
        with pytest.raises(errors.InvalidParameterError, match=next(iter(settings))):
            ma.Optimizer(pool, **settings)
    box = ma.Box([0.0], [1.0])
    with pytest.raises(errors.InvalidParameterError, match="failures"):
        ma.Optimizer(box, failures="learn")
    assert ma.Optimizer(box, failures="drop").max_failures == 1


def test_a_batch_of_one_label_prefers_the_label_that_succeeds():
    """The labels are the halves; the bounds of the failing one are higher, but hardly any trial succeeds."""
    pool, values = problem()
    lost = failing_right(pool)
    opt = ma.Optimizer(pool, seed=3)
    arms = np.arange(120)
    opt.tell(arms=arms, rewards=values[arms], failed=lost[arms].tolist())
    labels = np.where(lost, "right", "left")
    batch = opt.ask(4, structure=ma.BatchStructure(same=labels))
    assert not lost[batch.arms].any()


def test_certificates_name_failures_among_their_conditions():
    """Bounds need failures that do not depend on the noise; no rate is promised where success matters."""
    pool, values = problem(100)
    said = {}
    for failures in ("learn", "drop"):
        opt = ma.Optimizer(pool, ma.BBKB(kernel=KERNEL, norm_bound=5.0), seed=1, failures=failures)
        opt.tell(arms=np.arange(20), rewards=values[:20])
        before = {each.text: each.status for each in opt.certificate().conditions}
        opt.tell(arms=[30], failed=True)
        said[failures] = {each.text: each.status for each in opt.certificate().conditions}
        assert before["whether a result is missing does not depend on its noise"] == "holds"
        assert said[failures]["whether a result is missing does not depend on its noise"] == "assumed"
        assert "failures do not guide the choice of arms" not in before
    assert said["learn"]["failures do not guide the choice of arms"] == "does not hold"
    assert "failures do not guide the choice of arms" not in said["drop"]


def test_the_benchmark_gives_rows():
    from benchmarks import failures

    rows = failures.equal_successes(True)
    assert [row.name for row in rows] == [
        "failures none, 24 measured",
        "failures random 30 %, 24 measured",
    ]
    assert all(0 <= row.measured <= 100 for row in rows)
    assert len({failures.table(0, kind, 50).values[0] for kind in failures.KINDS}) == 2, (
        "one more by its label"
    )


def test_exploration_arms_mostly_succeed():
    pool, _ = problem(1000)
    lost, arms = failing_right(pool), np.arange(150)
    values = np.exp(-9 * (pool.features[:, 1] - 0.5) ** 2)
    explored: list[int] = []
    for seed in range(4):
        run = ma.Optimizer(pool, seed=seed)
        run.tell(arms=arms, rewards=values[arms], failed=lost[arms].tolist())
        batch = run.ask(60)
        explored += [arm for arm, why in zip(batch, batch.why, strict=True) if why.startswith("exploration")]
    assert len(explored) > 8
    assert lost[explored].mean() < 0.2


def test_failures_with_old_results_and_with_more_arms(tmp_path):
    """The columns of old results are no cause of failures; new arms have a probability, too."""
    pool, values = problem()
    rng = np.random.default_rng(4)
    X = rng.random((40, 2))
    opt = ma.Optimizer(pool, seed=3, prior=ma.PriorResults(X, X[:, 1]))
    for _ in range(6):
        step(opt, values, failing_right(pool), 10)
    assert opt.failures().depends
    new = opt.add_arms(np.array([[0.95, 0.2], [0.1, 0.2]]))
    right, left = opt.success(new)
    assert right < 0.5 < left
    opt.save(tmp_path / "run.npz")
    assert ma.Optimizer.load(tmp_path / "run.npz").ask(5).arms.tolist() == opt.ask(5).arms.tolist()

"""Runs with default settings, which learn kernel, noise and the scale of the rewards from the results."""

from __future__ import annotations

import numpy as np
import pytest

import manyarms as ma
from manyarms.errors import AllFailedError, InvalidKernelError, InvalidParameterError, UnsuitableKernelError
from manyarms.learning import prepare

SCALES = np.array([1.0, 100.0, 1e-9, 1e9])
FEATURES = np.random.default_rng(0).random((400, 4)) * SCALES
TRUTH = 1000 + 50 * (np.sin(5 * FEATURES[:, 0]) + np.cos(FEATURES[:, 1] / 20))
POLICIES = {
    "default": None,
    "GPUCB": ma.GPUCB(),
    "BKB": ma.BKB(),
    "SGPTS": ma.SGPTS(prior_size=60),
    "SGPTS-features": ma.SGPTS(rule="features", size=20, prior_size=60),
    "RFFTS": ma.RFFTS(pairs=20),
    "EpsGreedy": ma.EpsGreedy(),
}


def reward(arm: int, ticket: int) -> float:
    return float(TRUTH[arm % 400] + 2 * np.sin(7.0 * ticket + arm))


def play(opt: ma.Optimizer, pulls: int) -> list[int]:
    arms: list[int] = []
    while len(arms) < pulls:
        batch = opt.ask(at_most=pulls - len(arms))
        opt.tell(batch, [reward(a, t) for a, t in zip(batch.arms, batch.tickets, strict=True)])
        arms += batch.arms.tolist()
    return arms


def test_a_run_without_any_setting_finds_a_good_arm():
    result = ma.maximize(lambda arm: reward(arm.index, arm.index), ma.Pool(FEATURES), budget=120)
    good = np.sort(TRUTH)[-20]
    assert TRUTH[result.best.arm] >= good
    model = result.optimizer.model
    assert model is not None
    assert model.n_unique >= 10
    mean, std = result.optimizer.predict()
    assert np.mean(np.abs(mean - TRUTH) <= 4 * np.hypot(std, 2)) > 0.9, "in the units of the rewards"
    assert result.best.lower <= result.best.mean <= result.best.upper


@pytest.mark.parametrize(
    "name", ["default", *(pytest.param(name, marks=pytest.mark.slow) for name in list(POLICIES)[1:])]
)
def test_a_saved_run_goes_on_bit_for_bit(name, tmp_path):
    """With a model learned again, results pending, and arms added before and after the model was learned."""
    opt = ma.Optimizer(ma.Pool(FEATURES), POLICIES[name], seed=3)
    play(opt, 15)
    opt.add_arms(FEATURES[:4] * 0.9)
    play(opt, 25)
    opt.add_arms(FEATURES[4:7] * 0.9)
    batch = opt.ask(3)
    opt.tell(batch.tickets[:1], [1010.0])
    opt.save(tmp_path / "run.npz")
    again = ma.Optimizer.load(tmp_path / "run.npz")
    assert again.model == opt.model
    assert play(opt, 60) == play(again, 60)
    assert opt.model.n_pulls > 43, "learned again since then"
    assert again.model == opt.model
    assert np.array_equal(opt.predict()[0], again.predict()[0])
    assert opt.best() == again.best()


def test_queries_do_not_change_the_run():
    plain, queried = (ma.Optimizer(ma.Pool(FEATURES), seed=5) for _ in range(2))
    for _ in range(12):
        batches = [opt.ask() for opt in (plain, queried)]
        for opt, batch in zip((plain, queried), batches, strict=True):
            opt.tell(batch, [reward(a, t) for a, t in zip(batch.arms, batch.tickets, strict=True)])
        queried.predict([0])
        queried.best()
        queried.draw(1)
        assert batches[0].arms.tolist() == batches[1].arms.tolist()
    assert plain.model == queried.model


def test_the_first_batch_is_a_design_and_has_the_size_asked_for():
    opt = ma.Optimizer(ma.Pool(FEATURES), seed=1)
    batch = opt.ask()
    assert batch.ended_because == "initial design"
    assert len(set(batch.arms.tolist())) == len(batch) >= 10
    large = ma.Optimizer(ma.Pool(FEATURES), seed=1).ask(96)
    assert len(set(large.arms.tolist())) == 96
    one_by_one = ma.Optimizer(ma.Pool(FEATURES), seed=1)
    assert [int(one_by_one.ask(1).arms[0]) for _ in range(len(batch))] == batch.arms.tolist()
    known = ma.Optimizer(ma.Pool(FEATURES), seed=1)
    known.tell(arms=np.arange(40), rewards=TRUTH[:40])
    assert known.ask().ended_because != "initial design"


def test_a_design_respects_what_is_eligible():
    opt = ma.Optimizer(ma.Pool(FEATURES), seed=1)
    assert set(opt.ask(3, eligible=[5, 6, 7]).arms.tolist()) == {5, 6, 7}
    opt.tell(opt.pending, TRUTH[list(opt.pending.values())])
    assert opt.ask(eligible=[8, 9]).arms.tolist()[0] in (8, 9)


@pytest.mark.parametrize(
    ("features", "rewards"),
    [
        (FEATURES, lambda i: 7.0),
        (FEATURES[[0, 1] * 10], lambda i: float(i % 2)),
        (np.column_stack([FEATURES[:, 0], np.full(400, 3.0)]), lambda i: float(FEATURES[i, 0])),
        (FEATURES, lambda i: 1e12 if i == 17 else float(TRUTH[i])),
        (np.ones((30, 2)), lambda i: float(i)),
        (FEATURES[:1], lambda i: 1.0),
        (np.array(["red", "green", "blue"] * 20, dtype=object), lambda i: float(i % 3)),
        (np.random.default_rng(1).random((200, 64)) < 0.3, lambda i: float(i % 7)),
    ],
    ids=["constant", "two arms", "constant column", "outlier", "all equal", "one arm", "words", "bits"],
)
def test_unusual_pools_and_rewards_do_not_fail_and_assumptions_are_reported(features, rewards):
    result = ma.maximize(lambda arm: rewards(arm.index), ma.Pool(features), budget=60, seed=2)
    assert len(result.rewards) == 60
    mean, std = result.optimizer.predict()
    assert np.isfinite(mean).all()
    assert (std >= 0).all()
    assert all(isinstance(said, str) and said for said in result.optimizer.model.assumptions)


def test_all_results_failed():
    def fails(arm: ma.Arm) -> float:
        raise RuntimeError("no signal")

    with pytest.raises(AllFailedError, match="no signal"):
        ma.maximize(fails, ma.Pool(FEATURES), budget=60)


def test_what_is_learned_cannot_also_be_given():
    with pytest.raises(InvalidParameterError, match="noise_std"):
        ma.BBKB(noise_std=0.1)
    with pytest.raises(InvalidParameterError, match="ridge"):
        ma.BKB(ridge=0.1)
    with pytest.raises(InvalidKernelError, match="'auto'"):
        ma.BKB(kernel="best")


def test_widths_by_default_and_by_name():
    given = ma.Optimizer(ma.Pool(FEATURES), ma.BBKB(kernel=ma.RBF()))
    named = ma.Optimizer(ma.Pool(FEATURES), ma.BBKB(kernel=ma.RBF(), width="certified"))
    assert play(given, 3) == play(named, 3)
    assert given.trace[-1].width == named.trace[-1].width
    learned, theorem = (ma.Optimizer(ma.Pool(FEATURES), ma.BBKB(width=w)) for w in ("auto", "bbkb"))
    for opt in (learned, theorem):
        play(opt, 20)
    assert learned.policy.width == ma.BBKB.practical
    assert theorem.policy.width == "bbkb"
    assert theorem.trace[-1].width > learned.trace[-1].width


def test_no_arm_comes_again_before_all_have_been_tried():
    opt = ma.Optimizer(ma.Pool(FEATURES[:30]), seed=4)
    arms = play(opt, 30)
    assert sorted(arms) == list(range(30))
    assert len(play(opt, 10)) == 10, "then arms are repeated"
    short = ma.Optimizer(ma.Pool(FEATURES[:30]), seed=4)
    play(short, 20)
    assert len(short.ask(25)) == 25, "a batch larger than the arms left may repeat some"
    allowed = ma.Optimizer(ma.Pool(FEATURES[:30]), seed=4, repeats="allow")
    assert len(set(play(allowed, 30))) < 30


def test_an_interval_counts_the_noise_and_is_in_the_user_s_units():
    given = ma.Optimizer(ma.Pool(FEATURES), ma.GPUCB(kernel=ma.RBF(SCALES), noise_std=0.3))
    given.tell(arms=np.arange(40), rewards=TRUTH[:40] / 50)
    mean, std = given.predict([3, 300])
    lower, upper = given.interval([3, 300])
    np.testing.assert_allclose(0.5 * (lower + upper), mean)
    np.testing.assert_allclose(upper - lower, 2 * 1.6448536 * np.hypot(std, 0.3))
    learned = ma.Optimizer(ma.Pool(FEATURES), seed=6)
    learned.tell(arms=np.arange(300), rewards=[reward(arm, 0) for arm in range(300)])
    lower, upper = learned.interval(np.arange(300, 400))
    assert np.mean((lower <= TRUTH[300:]) & (TRUTH[300:] <= upper)) >= 0.8
    assert (upper - lower > 2 * 1.6 * learned.predict(np.arange(300, 400))[1]).mean() > 0.9
    with pytest.raises(InvalidParameterError, match="share"):
        given.interval([3], share=1.0)


def test_a_pool_prepared_before_gives_the_same_run_and_another_is_refused():
    pool = ma.Pool(FEATURES)
    prepared = prepare(pool)
    assert play(ma.Optimizer(pool, seed=7), 30) == play(ma.Optimizer(pool, seed=7, prepared=prepared), 30)
    with pytest.raises(InvalidParameterError, match="400 arms"):
        ma.Optimizer(pool, prepared=prepare(ma.Pool(FEATURES[:9])))


def test_an_arm_of_the_design_that_was_forgotten_comes_again():
    opt = ma.Optimizer(ma.Pool(FEATURES), seed=1)
    batch = opt.ask(at_most=4)
    opt.forget(batch.tickets[:1])
    opt.tell(batch.tickets[1:], TRUTH[batch.arms[1:]])
    assert int(opt.ask(1).arms[0]) == int(batch.arms[0])


def test_a_batch_larger_than_the_untried_arms_has_all_of_them() -> None:
    features = np.random.default_rng(0).random((40, 2))
    truth = -((features - 0.3) ** 2).sum(axis=1)
    run = ma.Optimizer(ma.Pool(features), seed=0)
    first = run.ask(30)
    run.tell(first, truth[first.arms])
    batch = run.ask(20)
    untried = np.setdiff1d(np.arange(40), first.arms)
    assert batch.arms[:10].tolist() == untried.tolist()
    run.tell(batch, truth[batch.arms])
    few = run.ask(4, eligible=[7, 8, 9])
    assert len(few) == 4
    assert set(few.arms.tolist()) <= {7, 8, 9}


def test_the_model_shown_is_the_one_predictions_come_from() -> None:
    run = ma.Optimizer(ma.Pool(np.arange(12.0)[:, None]), seed=0)
    run.tell(arms=[0, 5, 9, 3], rewards=[10.0, 25.0, 31.0, 17.0])
    assert run.model is not None
    assert run.model.n_pulls == 4


def test_only_kernels_are_learned_that_the_policy_can_use() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 5, size=(600, 6))
    truth = rng.normal(size=(6, 5))[np.arange(6), codes].sum(axis=1)  # for which Hamming is right
    families = {}
    for policy in (ma.SGPTS(), ma.RFFTS()):
        run = ma.Optimizer(ma.Pool(codes), policy, seed=0)
        run.tell(arms=np.arange(100), rewards=truth[:100])
        run.ask()
        assert run.model is not None
        families[type(policy).__name__] = run.model.family
    assert families["SGPTS"] == "Hamming" or "as names" in families["SGPTS"]
    assert families["RFFTS"].startswith("Matérn")
    assert "as names" not in families["RFFTS"]
    with pytest.raises(UnsuitableKernelError):
        ma.Optimizer(ma.Pool(["abc", "abd", "xbc"]), ma.RFFTS())


def test_rare_hits_are_found_and_followed() -> None:
    """One arm in twenty gives 1, all others 0: random choice finds 7 or 8 hits in 150."""
    features = np.random.default_rng(1).uniform(-1, 1, (3000, 2))
    hit = np.linalg.norm(features - 0.6, axis=1) < 0.25
    for seed in range(3):
        run = ma.Optimizer(ma.Pool(features), seed=seed)
        for _ in range(15):
            batch = run.ask(10)
            run.tell(batch, hit[batch.arms].astype(float))
        assert hit[run.history.arms].sum() > 50
        assert run.best().average == 1.0


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_arms_added_may_differ_where_all_were_alike(scale, tmp_path) -> None:
    """The second column is constant until arms are added; its units do not matter afterwards."""
    rng = np.random.default_rng(0)
    few, more = np.c_[rng.random(100), np.zeros(100)], np.c_[rng.random((200, 2))] * [1.0, scale]
    features = np.vstack([few, more])
    truth = -((features[:, 0] - 0.5) ** 2) - (features[:, 1] / scale - 0.7) ** 2
    run = ma.Optimizer(ma.Pool(few), seed=1)
    first = run.ask(30)
    run.tell(first.tickets[:25], truth[first.arms[:25]])
    run.add_arms(more)
    run.tell(first.tickets[25:], truth[first.arms[25:]])
    run.save(tmp_path / "run")
    again = ma.Optimizer.load(tmp_path / "run")
    for _ in range(8):
        batch = run.ask(10)
        assert again.ask(10).arms.tolist() == batch.arms.tolist()
        for each in (run, again):
            each.tell(batch.tickets, truth[batch.arms])
    assert np.isin(np.argsort(-truth)[:20], run.history.arms).sum() >= 15


@pytest.mark.parametrize("told", [0, 12])
def test_numbers_may_follow_what_looked_like_codes(told) -> None:
    """Twelve arms have few, unevenly spaced values; added arms show that they are numbers."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        features, more, noise = rng.normal(size=(12, 2)), rng.normal(size=(30, 2)) * 3, rng.normal(size=12)
        run = ma.Optimizer(ma.Pool(features), seed=seed)
        if told:
            first = run.ask(told)
            run.tell(first, noise[first.arms])
            run.ask(1)
        added = run.add_arms(more)
        if told:
            assert np.ptp(run.predict(added)[1]) > 0, "the added arms differ"
        assert len(run.ask(5)) == 5


def test_that_all_trials_failed_is_reported() -> None:
    run = ma.Optimizer(ma.Pool(FEATURES), seed=0)
    run.tell(run.ask(3), [0.0] * 3, failed=True)
    with pytest.raises(ma.errors.NoResultsError, match="all 3 trials failed"):
        run.best()

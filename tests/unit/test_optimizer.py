"""Ask and tell: sizes, order of results, late and lost workers, limits, and every kind of bad call."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import manyarms as ma
from manyarms import errors
from manyarms.posterior.hallucination import Hallucination
from tests.runs import Problem


@pytest.fixture
def problem():
    return Problem(0)


def optimizer(problem, seed=0, policy=ma.BBKB, **settings):
    return ma.Optimizer(problem.pool, policy(**problem.settings()), seed=seed, **settings)


def fingerprint(opt):
    """Everything a caller can see of a run."""
    mean, std = opt.predict()
    return (
        mean.tolist(), std.tolist(), opt.pending, opt.history.arms.tolist(), opt.history.sums.tolist(),
        [r.rewards.tolist() for r in opt.trace if np.isfinite(r.rewards).all()], opt.spent,
        opt.n_batches,
    )  # fmt: skip


def assert_refused(opt, error, call, match=None):
    """The call raises this error and changes nothing."""
    before = fingerprint(opt)
    with pytest.raises(error, match=match):
        call()
    assert fingerprint(opt) == before


def test_the_first_arm_is_random_and_its_own_batch(problem):
    firsts = {int(optimizer(problem, seed=seed).ask().arms[0]) for seed in range(20)}
    assert len(firsts) > 10
    batch = optimizer(problem).ask()
    assert len(batch) == 1
    assert batch.ended_because == "first arm"
    assert batch.ids == [batch.arms[0]]


def test_same_seed_same_run_and_another_seed_another_run(problem):
    runs = [problem.run(optimizer(problem, seed=seed), 80) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_batches_end_by_rule_limit_or_size(problem):
    opt = optimizer(problem)
    problem.run(opt, 100)
    assert opt.ask().ended_because == "variance ratio"
    capped = opt.ask(at_most=1)
    assert len(capped) == 1
    batch = opt.ask(96)
    assert len(batch) == 96
    assert batch.ended_because == "size asked for"
    assert batch.ratio > 2.0, "a batch goes past C̃ and says how far"


def test_a_batch_widens_the_interval_by_the_root_of_the_excess_ratio(problem):
    """Only a width with a theorem is widened, and by the realised ratio: each pick recomputed plainly."""
    kernel, features = problem.kernel, problem.pool.features
    for width, widened in (("bbkb", True), (2.0, False)):
        policy = ma.BBKB(**problem.settings(width=width))
        opt = ma.Optimizer(problem.pool, policy, seed=0)
        problem.run(opt, 20)
        batch = opt.ask(40)
        posterior = opt.posterior
        Z = posterior.rows(np.arange(300))
        C = Z @ posterior.state.weights.precision.apply(Z.T)
        C += (kernel.matrix(features, features) - Z @ Z.T) / posterior.ridge
        start, now, factors = C, C, []
        for place, arm in enumerate(batch.arms.tolist()):
            picked = batch.arms[:place]
            ratio = 1 + max(np.linalg.eigvalsh(start[np.ix_(picked, picked)]), default=0.0)
            factors.append(max(1.0, ratio / 2.0) ** 0.5 if widened else 1.0)
            bounds = posterior.mean + factors[-1] * opt.trace[-1].width * np.sqrt(np.maximum(np.diag(now), 0))
            assert bounds[arm] >= bounds.max() - 1e-9
            now = now - np.outer(now[:, arm], now[arm]) / (1 + now[arm, arm])
        assert (factors[-1] > 1.1) == widened


def test_the_order_of_tells_does_not_matter(problem):
    one, other = optimizer(problem), optimizer(problem)
    rng = np.random.default_rng(0)
    for _ in range(25):
        batch, same = one.ask(6), other.ask(6)
        assert batch.arms.tolist() == same.arms.tolist()
        one.tell(batch, problem.rewards(batch))
        rewards = problem.rewards(same)
        for place in rng.permutation(6):
            other.tell(same.tickets[place], rewards[place])
    assert one.predict()[0].tolist() == other.predict()[0].tolist()


def test_looking_does_not_change_the_run(problem):
    quiet, curious = optimizer(problem), optimizer(problem)
    for _ in range(40):
        batch, same = quiet.ask(), curious.ask()
        assert batch.arms.tolist() == same.arms.tolist()
        quiet.tell(batch, problem.rewards(batch))
        curious.tell(same, problem.rewards(same))
        curious.best()
        curious.predict([0, 1])


def test_predict_is_the_exact_posterior_in_reward_units_right_after_tell(problem):
    opt = optimizer(problem, policy=ma.GPUCB)
    problem.run(opt, 30)
    arms, counts, sums = opt.history.arms, opt.history.counts, opt.history.sums
    K = problem.kernel.matrix(problem.pool.features[arms], problem.pool.features[arms])
    k = problem.kernel.matrix(problem.pool.features, problem.pool.features[arms])
    system = K + 0.2 * np.diag(1 / counts)
    mean = k @ np.linalg.solve(system, sums / counts)
    variance = 1.0 - np.einsum("ij,ji->i", k, np.linalg.solve(system, k.T))
    got_mean, got_std = opt.predict()
    np.testing.assert_allclose(got_mean, mean, atol=1e-9)
    np.testing.assert_allclose(got_std, np.sqrt(variance), atol=1e-7)


def test_best_is_the_highest_mean_among_pulled_arms(problem):
    opt = optimizer(problem)
    problem.run(opt, 120)
    best, (mean, std) = opt.best(), opt.predict()
    arms = opt.history.arms
    assert best.arm == arms[np.argmax(mean[arms])]
    assert best.mean == pytest.approx(mean[best.arm])
    assert best.std == pytest.approx(std[best.arm])
    assert best.lower < best.mean < best.upper
    assert best.pulls == opt.history.count_of(best.arm)


def test_several_batches_out_late_and_partial_results(problem):
    opt = optimizer(problem)
    problem.run(opt, 20)
    first, second, third = opt.ask(5), opt.ask(5), opt.ask()
    assert len(set(first.tickets) | set(second.tickets) | set(third.tickets)) == 10 + len(third)
    opt.tell(second.tickets[1:4], problem.rewards(second)[1:4])
    opt.ask()
    opt.tell(first, problem.rewards(first))
    opt.tell(third, problem.rewards(third))
    opt.tell(second.tickets[[0, 4]], problem.rewards(second)[[0, 4]])
    assert opt.history.pulls == 20 + 10 + len(third)


def test_pending_pulls_are_hallucinated_so_a_second_worker_looks_elsewhere(problem):
    opt = optimizer(problem, policy=ma.GPUCB)
    problem.run(opt, 15)
    asked = [int(opt.ask().arms[0]) for _ in range(6)]
    assert len(set(asked)) > 1


def test_forgotten_tickets_count_as_never_asked(problem):
    opt, other = optimizer(problem, budget=50), optimizer(problem, budget=50)
    for run in (opt, other):
        problem.run(run, 20)
    lost = opt.ask(7)
    opt.forget(lost)
    assert opt.spent == 20
    assert opt.ask(7).arms.tolist() == other.ask(7).arms.tolist()
    assert_refused(opt, errors.AlreadyToldError, lambda: opt.tell(lost, np.zeros(7)), "forget")


def test_unasked_results_are_taken_in(problem):
    opt = optimizer(problem)
    arms = np.arange(40)
    opt.tell(arms=arms, rewards=problem.truth[arms])
    assert opt.history.pulls == 40
    assert np.corrcoef(opt.predict(arms)[0], problem.truth[arms])[0, 1] > 0.8
    assert opt.ask().ended_because != "first arm"


def test_failed_pulls_teach_nothing_and_an_arm_that_keeps_failing_is_dropped(problem):
    opt = optimizer(problem, max_failures=2)
    batch = opt.ask()
    opt.tell(batch, failed=True)
    assert opt.history.pulls == 0
    assert opt.trace[0].failed.tolist() == [True]
    problem.run(opt, 10)
    batch = opt.ask(4)
    opt.tell(batch, [1.0, np.nan, 0.5, np.nan], failed=[False, True, False, True])
    assert opt.history.pulls == 12
    loser = int(batch.arms[1])
    opt.tell(arms=[loser], failed=True)
    assert all(loser not in opt.ask(3).arms for _ in range(20))


@pytest.mark.parametrize("most", ["forbid", 2])
@pytest.mark.parametrize("policy", [ma.BBKB, ma.GPUCB, ma.EpsGreedy, ma.MiniGPUCB, ma.GPBUCB, ma.BKB])
def test_repeats_are_limited(most, policy):
    problem = Problem(4, n_arms=40)
    opt = optimizer(problem, policy=policy, repeats=most)
    limit = 1 if most == "forbid" else most
    pulled = problem.run(opt, 40 * limit)
    assert np.bincount(pulled, minlength=40).tolist() == [limit] * 40
    assert_refused(opt, errors.NothingToAskError, opt.ask)


def test_eligible_masks_and_indices(problem):
    opt = optimizer(problem)
    mask = np.zeros(300, dtype=bool)
    mask[[3, 8, 11]] = True
    for _ in range(10):
        batch = opt.ask(2, eligible=mask)
        assert set(batch.arms) <= {3, 8, 11}
        opt.tell(batch, problem.rewards(batch))
    assert set(opt.ask(2, eligible=[5, 6]).arms) <= {5, 6}
    nobody = np.zeros(300, dtype=bool)
    assert_refused(opt, errors.NothingToAskError, lambda: opt.ask(eligible=nobody), "^no arm is eligible$")
    assert_refused(opt, errors.InvalidParameterError, lambda: opt.ask(eligible=mask[:5]), "eligible")
    assert_refused(opt, errors.UnknownArmError, lambda: opt.ask(eligible=[300]))
    ones = mask.astype(int)  # as indices they would mean arms 0 and 1
    assert_refused(opt, errors.InvalidParameterError, lambda: opt.ask(eligible=ones), "eligible")


def test_added_arms_behave_like_arms_that_were_always_there(problem):
    grown = ma.Optimizer(ma.Pool(problem.pool.features[:200]), ma.GPUCB(**problem.settings()), seed=0)
    whole = optimizer(problem, policy=ma.GPUCB)
    for opt in (grown, whole):
        opt.tell(arms=range(30), rewards=problem.truth[:30])
        opt.ask()
    assert grown.add_arms(problem.pool.features[200:]).tolist() == list(range(200, 300))
    for got, expected in zip(grown.predict(), whole.predict(), strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-7)
    problem.run(grown, 30)


def test_budget_stops_the_run(problem):
    opt = optimizer(problem, budget=30)
    problem.run(opt, 29)
    assert_refused(opt, errors.BudgetSpentError, lambda: opt.ask(5), "1 left")
    batch = opt.ask()
    assert len(batch) == 1
    assert_refused(opt, errors.BudgetSpentError, opt.ask)
    opt.tell(batch, problem.rewards(batch))


def test_trace_tells_what_happened(problem):
    opt = optimizer(problem)
    problem.run(opt, 60)
    record = opt.trace[-1]
    assert record.dictionary_size == opt.posterior.state.sketch_size
    assert record.width > 0
    assert record.effective_dimension > 0
    assert record.seconds > 0
    assert np.isfinite(record.rewards).all()
    assert sum(len(r.arms) for r in opt.trace) == 60


def test_norm_bound_doubles_only_when_rewards_contradict_it(problem):
    policy = ma.BBKB(**problem.settings(norm_bound="double"))
    calm = ma.Optimizer(problem.pool, policy, seed=0)
    problem.run(calm, 100)
    assert calm.norm_bound == 1.0
    loud = ma.Optimizer(problem.pool, policy, seed=0)
    for _ in range(60):
        batch = loud.ask()
        loud.tell(batch, 50.0 * problem.rewards(batch))
    assert 8.0 <= loud.norm_bound <= 512.0, loud.norm_bound


BAD_TELLS = {
    "twice": (errors.AlreadyToldError, lambda opt, old, new: opt.tell(old, np.zeros(len(old)))),
    "ticket named twice": (
        errors.AlreadyToldError,
        lambda opt, old, new: opt.tell([new.tickets[0]] * 2, [1, 2]),
    ),
    "unknown ticket": (errors.UnknownTicketError, lambda opt, old, new: opt.tell([99999], [1.0])),
    "negative ticket": (errors.UnknownTicketError, lambda opt, old, new: opt.tell([-1], [1.0])),
    "text ticket": (errors.UnknownTicketError, lambda opt, old, new: opt.tell("abc", [1.0])),
    "fractional ticket": (errors.UnknownTicketError, lambda opt, old, new: opt.tell([0.5], [1.0])),
    "NaN": (errors.InvalidRewardError, lambda opt, old, new: opt.tell(new, [1.0, np.nan, 2.0])),
    "infinite": (errors.InvalidRewardError, lambda opt, old, new: opt.tell(new, [1.0, np.inf, 2.0])),
    "too many rewards": (errors.InvalidRewardError, lambda opt, old, new: opt.tell(new, np.zeros(4))),
    "too few rewards": (errors.InvalidRewardError, lambda opt, old, new: opt.tell(new, np.zeros(2))),
    "text reward": (errors.InvalidRewardError, lambda opt, old, new: opt.tell(new, ["a", "b", "c"])),
    "no reward": (errors.InvalidRewardError, lambda opt, old, new: opt.tell(new)),
    "huge reward": (errors.InvalidRewardError, lambda opt, old, new: opt.tell(new, [1e300, 0, 0])),
    "nothing": (errors.InvalidParameterError, lambda opt, old, new: opt.tell()),
    "both": (errors.InvalidParameterError, lambda opt, old, new: opt.tell(new, [1, 2, 3], arms=[1, 2, 3])),
    "unknown arm": (errors.UnknownArmError, lambda opt, old, new: opt.tell(arms=[300], rewards=[1.0])),
    "failed of wrong length": (
        errors.InvalidParameterError,
        lambda opt, old, new: opt.tell(new, failed=[True]),
    ),
    "failed of wrong type": (errors.InvalidParameterError, lambda opt, old, new: opt.tell(new, failed="yes")),
    "forget unknown": (errors.UnknownTicketError, lambda opt, old, new: opt.forget([12345])),
    "forget told": (errors.AlreadyToldError, lambda opt, old, new: opt.forget(old)),
    "ask nothing": (errors.InvalidParameterError, lambda opt, old, new: opt.ask(0)),
    "ask a fraction": (errors.InvalidParameterError, lambda opt, old, new: opt.ask(1.5)),
    "ask both": (errors.InvalidParameterError, lambda opt, old, new: opt.ask(3, at_most=3)),
    "cap at zero": (errors.InvalidParameterError, lambda opt, old, new: opt.ask(at_most=0)),
}


@pytest.mark.parametrize("name", BAD_TELLS)
def test_a_bad_call_is_named_and_changes_nothing(problem, name):
    opt = optimizer(problem)
    problem.run(opt, 10)
    old = opt.ask(2)
    opt.tell(old, problem.rewards(old))
    new = opt.ask(3)
    error, call = BAD_TELLS[name]
    assert_refused(opt, error, lambda: call(opt, old, new))
    opt.tell(new, problem.rewards(new))
    problem.run(opt, 5)


def test_an_interrupted_ask_changes_nothing():
    class Interrupting(ma.RBF):
        armed = False

        def matrix(self, X, Y):
            if Interrupting.armed:
                raise KeyboardInterrupt
            return super().matrix(X, Y)

    problem = Problem(0, kernel=Interrupting(0.3))
    opt, smooth = (ma.Optimizer(problem.pool, ma.BBKB(**problem.settings()), seed=0) for _ in range(2))
    problem.run(opt, 30)
    problem.run(smooth, 30)
    Interrupting.armed = True
    with pytest.raises(KeyboardInterrupt):
        opt.ask()
    Interrupting.armed = False
    assert problem.run(opt, 30) == problem.run(smooth, 30)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"budget": 0}, "budget"), ({"repeats": "sometimes"}, "repeats"), ({"repeats": 0}, "repeats"),
        ({"max_failures": 0}, "max_failures"), ({"storage": "int8"}, "storage"), ({"seed": -1}, "seed"),
    ],
)  # fmt: skip
def test_bad_settings_are_named(problem, settings, name):
    with pytest.raises(errors.InvalidParameterError, match=name):
        optimizer(problem, **settings)


@pytest.mark.parametrize(
    ("policy", "settings", "name"),
    [
        (ma.BBKB, {"batch_ratio": 0.5}, "batch_ratio"), (ma.BBKB, {"oversampling": 0}, "oversampling"),
        (ma.BKB, {"inducing": "magic"}, "inducing"), (ma.BKB, {"compaction": 0.5}, "compaction"),
        (ma.BKB, {"ridge": 0.0}, "ridge"), (ma.BKB, {"ridge": None, "noise_std": 0.0}, "ridge"),
        (ma.BKB, {"norm_bound": "guess"}, "norm_bound"), (ma.BKB, {"delta": 0.0}, "delta"),
        (ma.BKB, {"width": "wide"}, "width"), (ma.GPBUCB, {"stop": "never"}, "stop"),
        (ma.GPBUCB, {"stop": "fixed", "batch_size": 0}, "size"), (ma.EpsGreedy, {"explore": 2.0}, "explore"),
        (ma.MiniGPUCB, {"growth": 0.5}, "growth"),
    ],
)  # fmt: skip
def test_bad_policies_are_named(problem, policy, settings, name):
    with pytest.raises(errors.InvalidParameterError, match=name):
        policy(**problem.settings(**settings))


def test_not_a_pool_not_a_policy_not_a_kernel(problem):
    with pytest.raises(errors.InvalidParameterError, match="pool"):
        ma.Optimizer(problem.pool.features, ma.BKB(**problem.settings()))
    with pytest.raises(errors.InvalidParameterError, match="policy"):
        ma.Optimizer(problem.pool, "BKB")
    with pytest.raises(errors.InvalidKernelError, match="kernel"):
        ma.BKB(kernel="rbf")


def test_best_before_any_result(problem):
    with pytest.raises(errors.NoResultsError):
        optimizer(problem).best()


def test_one_arm_pool_and_tiny_pools():
    for n_arms in (1, 2):
        pool = ma.Pool(np.arange(n_arms, dtype=float)[:, None])
        opt = ma.Optimizer(pool, ma.BBKB(kernel=ma.RBF(1.0)), seed=0)
        for _ in range(10):
            batch = opt.ask(at_most=5)
            opt.tell(batch, np.ones(len(batch)))
        assert opt.best().mean == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("policy", [ma.BBKB, ma.GPBUCB, ma.MiniGPUCB])
def test_an_arm_without_variance_does_not_keep_a_batch_open_for_ever(policy):
    features = np.vstack([np.zeros((1, 2)), np.random.default_rng(0).random((10, 2))])
    opt = ma.Optimizer(ma.Pool(features), policy(kernel=ma.Linear(), ridge=1.0, norm_bound=0.01))
    for arm in range(1, 11):
        opt.tell(arms=[arm] * 20, rewards=[-5.0] * 20)
    batch = opt.ask()
    assert 1 <= len(batch) <= 10_000


def test_doubling_leaves_f_alone_where_it_explains_nothing():
    problem = Problem(0, n_arms=60)
    opt = ma.Optimizer(problem.pool, ma.BKB(**problem.settings(width=2.0, norm_bound="double")))
    rng = np.random.default_rng(0)
    for _ in range(60):
        batch = opt.ask()
        opt.tell(batch, 50 * rng.normal(size=len(batch)))
    assert opt.norm_bound == 1.0
    assert np.isfinite(opt.best().upper)


@pytest.mark.parametrize("policy", [ma.BBKB, ma.GPUCB, ma.GPBUCB, ma.BKB, ma.MiniGPUCB, ma.EpsGreedy])
@pytest.mark.parametrize("repeats", ["allow", 4])
def test_exactly_n_is_exactly_n_even_beyond_the_pool(policy, repeats):
    pool = ma.Pool(np.random.default_rng(0).random((3, 2)))
    opt = ma.Optimizer(pool, policy(kernel=ma.RBF(0.3)), repeats=repeats)
    for size in (5, 4, 3):
        batch = opt.ask(size)
        assert len(batch) == size
        opt.tell(batch, np.zeros(size))


@pytest.mark.parametrize(
    "rewards",
    [
        np.ma.array([9.0], mask=[True]),
        np.array(["2020-01-01"], dtype="M8[D]"),
        np.array([1 + 2j]),
        ["1.5"],
        [10**400],
    ],
    ids=["masked", "date", "complex", "text", "huge"],
)
def test_rewards_that_are_no_plain_numbers_are_refused(problem, rewards):
    opt = optimizer(problem)
    batch = opt.ask()
    assert_refused(opt, errors.InvalidRewardError, lambda: opt.tell(batch, rewards))


def test_the_information_gain_counts_pending_pulls_one_after_the_other():
    problem = Problem(1, n_arms=60)
    opt = ma.Optimizer(problem.pool, ma.GPBUCB(**problem.settings(stop="information", width=2.0)), seed=0)
    problem.run(opt, 10)
    first = opt.ask(4)
    second = opt.ask(at_most=1)
    overlay, product = Hallucination(opt.posterior), 1.0
    for arm in [*sorted(first.arms.tolist()), *second.arms.tolist()]:
        product *= 1 + overlay.leverage([arm])[0]
        overlay.pull(arm)
    assert second.ratio == pytest.approx(product)


def test_settings_of_other_number_types_become_plain_numbers(problem):
    policy = ma.BBKB(
        **problem.settings(delta=np.float32(0.0013), ridge=Fraction(1, 5), batch_ratio=np.int64(2))
    )
    assert type(policy.delta) is float
    assert type(policy.ridge) is float
    assert type(policy.batch_ratio) is int


def test_a_refused_horizon_extension_changes_nothing(problem):
    opt = optimizer(problem)
    problem.run(opt, 10)
    assert_refused(opt, errors.InvalidParameterError, lambda: opt.extend_horizon(-1.0), "oversampling")
    exact = optimizer(problem, policy=ma.GPUCB)
    problem.run(exact, 10)
    assert_refused(exact, errors.InvalidParameterError, lambda: exact.extend_horizon(5.0), "policy")


def test_a_batch_cannot_be_rearranged_behind_the_optimizers_back(problem):
    batch = optimizer(problem).ask(3)
    with pytest.raises(ValueError, match="read-only"):
        batch.tickets[0] = 7


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda opt: opt.ask(eligible=[[True], [True, False]]), "eligible"),
        (lambda opt: opt.tell(opt.ask(2), [1.0, 2.0], failed=[[True], [True, False]]), "failed"),
        (lambda opt: ma.Optimizer(opt.pool, opt.policy, repeats=np.array([1, 2])), "repeats"),
        (lambda opt: ma.Optimizer(opt.pool, opt.policy, lazy="no"), "lazy"),
    ],
    ids=["eligible", "failed", "repeats", "lazy"],
)
def test_ragged_and_misread_settings_are_named(call, says):
    opt = ma.Optimizer(ma.Pool(np.eye(4)), ma.BKB(kernel=ma.RBF()), seed=0)
    with pytest.raises(errors.InvalidParameterError, match=says):
        call(opt)

"""Costs of arms: what is refused, what is counted, and what a saved run remembers."""

from __future__ import annotations

import numpy as np
import pytest

import manyarms as ma
from manyarms.errors import (
    BudgetSpentError,
    CostLimitError,
    InvalidParameterError,
    NothingToAskError,
)
from manyarms.run.frames import frame_columns
from tests.runs import Problem

N = 40
BKB = ma.BKB(kernel=ma.RBF(0.5), noise_std=0.1, width=2.0)


@pytest.fixture
def features(rng):
    return rng.uniform(size=(N, 2))


@pytest.fixture
def prices(rng):
    return rng.uniform(1.0, 9.0, N)


def test_wrong_costs_are_refused_with_the_arm(features, prices):
    pool = ma.Pool(features)
    for arm, wrong in ((3, np.nan), (7, np.inf), (0, 0.0), (39, -2.0)):
        bad = prices.copy()
        bad[arm] = wrong
        with pytest.raises(InvalidParameterError, match=f"{wrong} for arm {arm}"):
            ma.Optimizer(pool, BKB, costs=ma.Costs(bad))
    for bad, text in (
        (prices[:-1], r"shape \(39,\)"),
        (np.tile(prices, (2, 1)), r"shape \(2, 40\)"),
        ([str(each) for each in prices], "str"),
        (prices > 3, "bool"),
        (np.ma.masked_greater(prices, prices.max() - 1e-9), f"for arm {prices.argmax()}"),
        ("price", "the pool's columns"),
    ):
        with pytest.raises(InvalidParameterError, match=text):
            ma.Optimizer(pool, BKB, costs=ma.Costs(bad))
    with pytest.raises(InvalidParameterError, match=r"manyarms\.Costs"):
        ma.Optimizer(pool, BKB, costs=prices)


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"budget": 0}, "budget"),
        ({"budget": float("nan")}, "budget"),
        ({"budget": "much"}, "budget"),
        ({"per_cost": 1}, "per_cost"),
        ({"power": -1}, "power"),
        ({"power": float("inf")}, "power"),
    ],
)
def test_wrong_settings_are_refused(prices, wrong, name):
    with pytest.raises(InvalidParameterError, match=name):
        ma.Costs(prices, **wrong)


def test_a_column_of_the_pool_may_hold_the_costs(features, prices):
    pool = ma.Pool(np.column_stack([features, prices]), names=["x", "y", "price"])
    batch = ma.Optimizer(pool, BKB, costs=ma.Costs("price")).ask()
    assert batch.costs.tolist() == prices[batch.arms].tolist()


def test_value_per_cost_needs_upper_bounds(features, prices):
    pool = ma.Pool(features)
    for policy in (ma.SGPTS(), ma.EpsGreedy(kernel=ma.RBF()), ma.GPBUCB(kernel=ma.RBF(), initial_pulls=3)):
        with pytest.raises(InvalidParameterError, match="upper bounds"):
            ma.Optimizer(pool, policy, costs=ma.Costs(prices, per_cost=True))
        run = ma.Optimizer(pool, policy, costs=ma.Costs(prices))
        with pytest.raises(InvalidParameterError, match="upper bounds"):
            run.ask(per_cost=True)


def test_arguments_of_one_batch_need_costs(features):
    run = ma.Optimizer(ma.Pool(features), BKB)
    for wrong in ({"max_cost": 3}, {"per_cost": True}):
        with pytest.raises(InvalidParameterError, match="without costs"):
            run.ask(**wrong)
    with pytest.raises(InvalidParameterError, match="without costs"):
        run.cost_budget = 5.0
    assert (run.cost_budget, run.cost_spent, run.spent) == (None, 0.0, 0)


def test_a_failed_ask_changes_nothing(features, prices):
    run = ma.Optimizer(ma.Pool(features), BKB, costs=ma.Costs(prices, budget=20.0))
    first = run.ask(3)
    state = run.state
    for wrong in (0, -1, float("nan"), "much", True):
        with pytest.raises(InvalidParameterError, match="max_cost"):
            run.ask(max_cost=wrong)
    with pytest.raises(CostLimitError, match=r"at most 0\.5"):
        run.ask(max_cost=0.5)
    with pytest.raises(InvalidParameterError, match="per_cost"):
        run.ask(per_cost="yes")
    assert run.state is state
    assert run.cost_spent == pytest.approx(prices[first.arms].sum())


def test_the_budget_is_never_exceeded_and_forgetting_gives_money_back(features, prices):
    run = ma.Optimizer(ma.Pool(features), BKB, costs=ma.Costs(prices, budget=30.0), repeats="forbid")
    batch = run.ask(4)
    run.forget(batch.tickets[1:3])
    assert run.cost_spent == pytest.approx(prices[batch.arms[[0, 3]]].sum())
    run.tell(batch.tickets[[0, 3]], [0.1, 0.2])
    while True:
        try:
            batch = run.ask()
        except BudgetSpentError:
            break
        run.tell(batch, np.zeros(len(batch)))
        assert run.cost_spent <= 30.0
    left = np.setdiff1d(np.arange(N), run.history.arms)
    assert prices[left].min() > 30.0 - run.cost_spent, "an arm that the money pays for was not tried"
    with pytest.raises(BudgetSpentError, match="the cheapest arm that may be chosen costs"):
        run.ask()
    run.cost_budget = 60.0
    assert len(run.ask()) == 1


def test_sums_with_rounding_errors_use_the_whole_budget():
    run = ma.Optimizer(ma.Pool(np.eye(3)), BKB, costs=ma.Costs([0.1] * 3, budget=0.3), repeats="forbid")
    for _ in range(3):
        run.tell(run.ask(1), [0.0])
    assert 0.1 + 0.1 + 0.1 > 0.3
    assert run.history.pulls == 3


def test_an_exact_batch_that_cannot_be_paid_names_the_cheapest_total(features, prices):
    run = ma.Optimizer(ma.Pool(features), BKB, costs=ma.Costs(prices, budget=12.0), repeats="forbid")
    with pytest.raises(CostLimitError, match=f"at least {np.sort(prices)[:10].sum():.6g} together"):
        run.ask(10)
    assert issubclass(CostLimitError, NothingToAskError)
    assert len(run.ask(at_most=10)) == 1


def test_limits_on_labels_and_on_costs(features, prices):
    labels = np.arange(N) % 4
    rules = ma.BatchStructure(at_most=[(labels, 1)])
    run = ma.Optimizer(ma.Pool(features), BKB, costs=ma.Costs(prices), repeats="forbid")
    run.tell(arms=[0, 1], rewards=[0.0, 1.0])
    with pytest.raises(InvalidParameterError, match="at_most"):
        run.ask(4, structure=rules, max_cost=12)
    batch = run.ask(4, structure=rules, max_cost=36)  # four arms of 9 at most
    assert sorted(labels[batch.arms]) == [0, 1, 2, 3]
    run.forget(batch)
    batch = run.ask(at_most=4, structure=rules, max_cost=12)
    assert prices[batch.arms].sum() <= 12
    assert len(set(labels[batch.arms])) == len(batch)
    run.forget(batch)
    batch = run.ask(3, structure=ma.BatchStructure(same=labels), max_cost=12)
    assert len(set(labels[batch.arms])) == 1
    assert prices[batch.arms].sum() <= 12


def test_the_design_uses_a_fifth_of_the_money(rng):
    features, prices = rng.uniform(size=(400, 3)), rng.uniform(5, 15, 400)
    run = ma.Optimizer(ma.Pool(features), costs=ma.Costs(prices, budget=500.0))
    design = run.ask()
    assert set(design.why) == {"initial design"}
    assert len(design) == int(0.2 * int(500 / prices.mean()))


@pytest.mark.parametrize("per_cost", [False, True])
@pytest.mark.parametrize("policy", [BKB, ma.BBKB()], ids=["given", "learned"])
def test_a_saved_run_continues_with_its_costs(tmp_path, features, prices, policy, per_cost):
    costs = ma.Costs(prices, budget=80.0, per_cost=per_cost, power=0.5)
    run = ma.Optimizer(ma.Pool(features), policy, costs=costs)
    for _ in range(3):
        batch = run.ask()
        run.tell(batch, features[batch.arms].sum(1))
    run.ask()
    run.save(tmp_path / "run.npz")
    again = ma.Optimizer.load(tmp_path / "run.npz")
    assert (again.cost_budget, again.cost_spent) == (80.0, run.cost_spent)
    assert again.ask().arms.tolist() == run.ask().arms.tolist()
    with pytest.raises(CostLimitError):
        again.ask(max_cost=0.1)


def test_a_run_without_costs_is_saved_as_before(tmp_path, features):
    run = ma.Optimizer(ma.Pool(features), BKB)
    run.tell(run.ask(), [0.0])
    run.save(tmp_path / "run.npz")
    assert "cost" not in str(np.load(tmp_path / "run.npz")["manifest"])


def test_equal_costs_that_limit_nothing_change_nothing():
    """The allowance, the design and every bound are the same, so the arms are too."""
    for policy, repeats in ((BKB, "allow"), (ma.BBKB(), "fresh"), (ma.SGPTS(), "forbid")):
        problem, picked = Problem(2), []
        for costs in (None, ma.Costs(np.full(300, 2.0)), ma.Costs(np.full(300, 2.0), budget=1e6)):
            run = ma.Optimizer(problem.pool, policy, seed=4, repeats=repeats, costs=costs)
            picked.append(problem.run(run, 40) + run.ask(25).arms.tolist())
        assert picked[0] == picked[1] == picked[2]


def test_added_arms_need_costs(features, prices):
    run = ma.Optimizer(ma.Pool(features), BKB, costs=ma.Costs(prices, budget=500.0))
    run.tell(run.ask(), [0.3])
    state = run.state
    with pytest.raises(InvalidParameterError, match="one number for each new arm"):
        run.add_arms(np.ones((2, 2)))
    with pytest.raises(InvalidParameterError, match="for arm 1"):
        run.add_arms(np.ones((2, 2)), costs=[1.0, np.nan])
    assert (run.state, run.pool.n_arms) == (state, N)
    added = run.add_arms(np.ones((2, 2)), costs=[0.01, 0.02])
    batch = run.ask(2, max_cost=0.04)
    assert set(batch.arms) <= set(added)
    with pytest.raises(InvalidParameterError, match="without costs"):
        ma.Optimizer(ma.Pool(features), BKB).add_arms(np.ones((1, 2)), costs=[1.0])


@pytest.mark.parametrize("minimized", [False, True])
def test_the_loop_ends_when_the_money_is_spent(features, prices, minimized):
    find = ma.minimize if minimized else ma.maximize
    sign = -1.0 if minimized else 1.0
    costs = ma.Costs(prices, budget=60.0, per_cost=True)
    found = find(lambda arm: sign * arm.features.sum(), ma.Pool(features), budget=1000, costs=costs)
    spent = prices[found.arms].sum()
    assert 60.0 - prices.max() < spent <= 60.0
    assert not found.interrupted
    best = found.arms[np.argmax(features[found.arms].sum(1))]
    assert found.best.arm == best
    found.optimizer.cost_budget = 90.0
    more = find(lambda arm: sign * arm.features.sum(), found.optimizer.pool, budget=1000, resume=found)
    assert spent < prices[more.arms].sum() <= 90.0


def test_workers_that_are_never_waited_for_end_too(features, prices):
    from concurrent.futures import ThreadPoolExecutor

    policy = ma.AsyncTS(workers=3, kernel=ma.RBF(0.5), noise_std=0.1)
    with ThreadPoolExecutor(3) as executor:
        found = ma.maximize(
            lambda arm: arm.features.sum(), ma.Pool(features), 1000, policy, executor=executor,
            costs=ma.Costs(prices, budget=40.0),
        )  # fmt: skip
    assert 40.0 - prices.max() < prices[found.arms].sum() <= 40.0


def test_a_box_has_no_costs():
    with pytest.raises(InvalidParameterError, match="left out for a box"):
        ma.Optimizer(ma.Box([0.0], [1.0]), costs=ma.Costs([1.0]))
    with pytest.raises(InvalidParameterError, match="left out for a box"):
        ma.Optimizer(ma.Box([0.0], [1.0])).ask(max_cost=3.0)


def test_a_certificate_says_that_costs_change_the_choice(features, prices):
    policy = ma.BKB(kernel=ma.RBF(0.5), noise_std=0.1)
    run = ma.Optimizer(ma.Pool(features), policy, costs=ma.Costs(prices))
    run.tell(run.ask(), [0.2])
    said = [each for each in run.certificate().conditions if "costs" in each.text]
    assert [(each.status, each.needed_for) for each in said] == [("does not hold", "sublinear regret")]


def test_the_frame_of_trials_has_the_costs(features, prices):
    run = ma.Optimizer(ma.Pool(features), BKB, costs=ma.Costs(prices))
    batch = run.ask(3)
    assert frame_columns(run)["cost"].tolist() == prices[batch.arms].tolist()
    assert "cost" not in frame_columns(ma.Optimizer(ma.Pool(features), BKB))

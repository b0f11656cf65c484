"""Batches whose arms must belong together: limits on arms with the same label, and one label for all."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest

import manyarms as ma
from manyarms.errors import InvalidParameterError, NothingToAskError, UnknownArmError

N = 60
POLICIES = [
    ma.BKB(kernel=ma.RBF(0.5), noise_std=0.1, width=2.0),
    ma.BBKB(kernel=ma.RBF(0.5), noise_std=0.1, width=2.0),
    ma.GPBUCB(kernel=ma.RBF(0.5), noise_std=0.1, width=2.0),
    ma.MiniGPUCB(kernel=ma.RBF(0.5), noise_std=0.1, width=2.0),
    ma.EpsGreedy(kernel=ma.RBF(0.5), noise_std=0.1),
    ma.SGPTS(kernel=ma.RBF(0.5), noise_std=0.1, width=1.0),
    ma.BPE(horizon=200, kernel=ma.RBF(0.5), noise_std=0.1, width=2.0),
    ma.BBKB(),
]


def _run(policy, rng, lazy=True, **settings):
    features = rng.uniform(size=(N, 2))
    run = ma.Optimizer(ma.Pool(features), policy, seed=3, lazy=lazy, **settings)
    told = rng.choice(N, 8, replace=False)
    run.tell(arms=told, rewards=np.sin(6 * features[told, 0]) + features[told, 1])
    return run, features


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
@pytest.mark.parametrize("n", [6, 17])
def test_no_label_is_chosen_more_often_than_its_limit(policy, n, rng):
    labels = np.arange(N) % 7
    supplier = np.array(["a", "b", "c"])[rng.integers(3, size=N)]
    run, _ = _run(policy, rng, repeats="forbid")
    batch = run.ask(n, structure=ma.BatchStructure(at_most=[(labels, 3), (supplier, 9)]))
    assert len(batch) == n
    assert max(Counter(labels[batch.arms].tolist()).values()) <= 3
    assert max(Counter(supplier[batch.arms].tolist()).values()) <= 9


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
def test_all_arms_of_a_batch_have_the_same_label(policy, rng):
    labels = np.arange(N) % 5
    run, _ = _run(policy, rng, repeats="forbid")
    batch = run.ask(8, structure=ma.BatchStructure(same=labels))
    assert len(batch) == 8
    assert len(set(labels[batch.arms].tolist())) == 1


def test_the_label_is_the_one_with_the_highest_bounds(rng):
    features = np.linspace(0, 1, N)[:, None]
    labels = (np.arange(N) // 15).astype(str)
    run = ma.Optimizer(ma.Pool(features), ma.BKB(kernel=ma.RBF(0.2), noise_std=0.1, width=0.1), seed=0)
    run.tell(arms=np.arange(0, N, 5), rewards=-np.abs(features[::5, 0] - 0.6))  # highest in the third group
    batch = run.ask(4, structure=ma.BatchStructure(same=labels))
    assert set(labels[batch.arms]) == {"2"}


@pytest.mark.parametrize("lazy", [True, False])
def test_limits_hold_pick_by_pick_as_in_a_plain_loop(lazy, rng):
    """With repeats forbidden and one limit, each pick is the best arm whose group is not full."""
    labels = np.arange(N) % 4
    policy = ma.GPBUCB(kernel=ma.RBF(0.5), noise_std=0.1, width=2.0)
    run, _ = _run(policy, rng, lazy=lazy, repeats="forbid")
    batch = run.ask(12, structure=ma.BatchStructure(at_most=[(labels, 4)]))
    again, _ = _run(policy, np.random.default_rng(0), lazy=lazy, repeats="forbid")
    again = ma.Optimizer.of(run._context, _before(run))
    chosen, taken = [], Counter()
    while len(chosen) < 12:  # one arm at a time, among those whose group has room
        allowed = np.array([taken[label] < 4 for label in labels.tolist()])
        arm = int(again.ask(1, eligible=allowed).arms[0])
        chosen.append(arm)
        taken[int(labels[arm])] += 1
    assert batch.arms.tolist() == chosen


def _before(run):
    """The state of the run before its only batch."""
    from dataclasses import replace

    from manyarms.run.tickets import Tickets
    from manyarms.run.trace import Trace

    return replace(run._state, tickets=Tickets(), trace=Trace(), n_batches=0)


def test_columns_of_the_pool_can_be_named(rng):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"temperature": np.tile([20.0, 40.0, 60.0], 20), "x": rng.uniform(size=N)})
    run = ma.Optimizer(ma.Pool(frame), seed=0)
    batch = run.ask(9, structure=ma.BatchStructure(same="temperature"))
    assert frame["temperature"][batch.arms].nunique() == 1
    batch = run.ask(9, structure=ma.BatchStructure(at_most={"temperature": 3}))
    assert sorted(frame["temperature"][batch.arms].value_counts()) == [3, 3, 3]


def test_a_batch_that_cannot_be_is_refused_and_nothing_changes(rng):
    run, _ = _run(POLICIES[0], rng, repeats="forbid")
    labels = np.arange(N) % 5
    before = repr(run)
    refusals = [
        (
            30,
            ma.BatchStructure(at_most=[(labels, 2)]),
            NothingToAskError,
            "only 10 pulls are allowed: the other arms .* would exceed a limit .* or are not eligible",
        ),
        (13, ma.BatchStructure(same=labels), NothingToAskError, "13 arms that have the same label"),
        (4, ma.BatchStructure(same=labels, at_most=[(labels, 3)]), NothingToAskError, "has 3"),
        (4, ma.BatchStructure(same=labels[:-1]), InvalidParameterError, "one label for each of the 60 arms"),
        (4, ma.BatchStructure(same="colour"), InvalidParameterError, "columns"),
        (4, ma.BatchStructure(at_most=[(labels, 0)]), InvalidParameterError, "at_most must be"),
        (4, ma.BatchStructure(at_most=[labels]), InvalidParameterError, "pairs of labels and a number"),
        (4, labels, InvalidParameterError, "BatchStructure"),
    ]
    for n, structure, error, words in refusals:
        with pytest.raises(error, match=words):
            run.ask(n, structure=structure)
        assert repr(run) == before


def test_a_first_choice_that_blocks_the_others_is_left_out(rng):
    """The first choice uses up the row and the column of all others: it cannot be in a batch of two."""
    run = ma.Optimizer(ma.Pool(rng.uniform(size=(4, 2))), POLICIES[0], seed=0)
    run.tell(arms=[0, 1, 2, 3], rewards=[9.0, 0.0, 1.0, 0.0])  # arm 0 is the first choice
    rows, columns = np.array([0, 0, 0, 1]), np.array([0, 1, 2, 0])
    structure = ma.BatchStructure(at_most=[(rows, 1), (columns, 1)])
    assert ma.Optimizer.of(run.context, run.state).ask(1, structure=structure).arms.tolist() == [0]
    assert sorted(run.ask(2, structure=structure).arms.tolist()) == [2, 3]
    before = repr(run)
    with pytest.raises(NothingToAskError, match="only 2 pulls are allowed: the other arms "):
        run.ask(3, structure=structure)
    assert repr(run) == before


def _satisfies(arms, limits) -> bool:
    return all(max(Counter(labels[list(arms)].tolist()).values()) <= most for labels, most in limits)


def _possible(allowed, n, limits) -> bool:
    """By trying every set of n arms."""
    return any(_satisfies(arms, limits) for arms in combinations(allowed, n))


@pytest.mark.parametrize("n_limits", [2, 3])
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
def test_several_limits_are_satisfied_or_refused_with_good_reason(policy, n_limits):
    """On small random tables, against all sets of arms; most of the batches are nearly impossible."""
    rng, outcomes = np.random.default_rng(n_limits), Counter()
    for _ in range(12):
        features = rng.uniform(size=(12, 2))
        limits = [(rng.integers(4, size=12), int(rng.integers(1, 4))) for _ in range(n_limits)]
        n = int(rng.integers(2, 8))
        run = ma.Optimizer(ma.Pool(features), policy, seed=0, repeats="forbid")
        run.tell(arms=[0, 1, 2], rewards=features[:3, 0])
        may = _possible(range(3, 12), n, limits)
        try:
            batch = run.ask(n, structure=ma.BatchStructure(at_most=limits))
        except NothingToAskError:
            assert not may, (limits, n)
        else:
            assert len(set(batch.arms.tolist())) == n
            assert _satisfies(batch.arms, limits)
        outcomes[may] += 1
    assert min(outcomes[True], outcomes[False]) >= 2


def test_each_pick_is_the_best_one_that_leaves_the_batch_possible():
    policy, rng, tight = ma.GPBUCB(kernel=ma.RBF(0.5), noise_std=0.1, width=2.0), np.random.default_rng(8), 0
    for _ in range(20):
        features = rng.uniform(size=(12, 2))
        limits = [(rng.integers(4, size=12), 1), (rng.integers(4, size=12), 2)]
        run = ma.Optimizer(ma.Pool(features), policy, seed=0, repeats="forbid")
        run.tell(arms=[0, 1, 2], rewards=features[:3, 0])
        n = next((n for n in (4, 3, 2) if _possible(range(3, 12), n, limits)), 0)
        if not n:
            continue
        before = run.state
        batch = run.ask(n, structure=ma.BatchStructure(at_most=limits)).arms.tolist()
        chosen = []
        again = ma.Optimizer.of(run.context, before)
        for _ in range(n):
            safe = [
                arm
                for arm in range(3, 12)
                if arm not in chosen
                and any(
                    {*chosen, arm} <= {*arms} and _satisfies(arms, limits)
                    for arms in combinations(range(3, 12), n)
                )
            ]
            greedy = [arm for arm in range(3, 12) if arm not in chosen and _satisfies([*chosen, arm], limits)]
            tight += safe != greedy
            chosen.append(int(again.ask(1, eligible=safe).arms[0]))
        assert batch == chosen
    assert tight > 10, "the limits hardly ever mattered"


def test_untried_arms_come_first_as_far_as_several_limits_allow():
    run = ma.Optimizer(
        ma.Pool(np.random.default_rng(0).uniform(size=(5, 2))), POLICIES[0], seed=0, repeats="fresh"
    )
    run.tell(arms=[0, 1, 2], rewards=[1.0, 2.0, 3.0])
    rows, columns = np.array([0, 1, 2, 0, 0]), np.array([0, 1, 2, 1, 3])
    structure = ma.BatchStructure(at_most=[(rows, 1), (columns, 1)])
    batch = run.ask(3, structure=structure)
    assert 4 in batch.arms  # arm 3 would take the row and the column of two others
    assert _satisfies(batch.arms, [(rows, 1), (columns, 1)])


def test_one_label_for_all_is_chosen_among_those_with_a_batch_within_all_limits():
    """The label with the best arms has three rows and three columns, but no three arms in different ones."""
    label = np.array([0, 0, 0, 0, 0, 1, 1, 1])
    rows, columns = np.array([0, 0, 0, 1, 2, 0, 1, 2]), np.array([0, 1, 2, 0, 0, 0, 1, 2])
    run = ma.Optimizer(ma.Pool(np.arange(8.0)[:, None]), POLICIES[0], seed=0, repeats="allow")
    run.tell(arms=np.arange(8), rewards=[9.0, 9.0, 9.0, 9.0, 9.0, 0.0, 0.0, 0.0])
    structure = ma.BatchStructure(same=label, at_most=[(rows, 1), (columns, 1)])
    assert sorted(ma.Optimizer.of(run.context, run.state).ask(3, structure=structure).arms.tolist()) == [
        5,
        6,
        7,
    ]
    with pytest.raises(NothingToAskError, match="no label has so many that satisfy all limits together"):
        run.ask(3, eligible=[0, 1, 2, 3, 4, 6], structure=structure)


def test_limits_with_room_cost_no_integer_program(rng, monkeypatch):
    def never(*_, **__):
        raise AssertionError("an integer program was solved")

    monkeypatch.setattr("scipy.optimize.milp", never)
    run, _ = _run(POLICIES[0], rng, repeats="forbid")
    limits = [(np.arange(N) % 7, 3), (np.arange(N) % 4, 8)]
    batch = run.ask(12, structure=ma.BatchStructure(at_most=limits))
    assert _satisfies(batch.arms, limits)


def test_untried_arms_still_come_first(rng):
    """With two untried arms left and one allowed for each label, both are in the batch if labels allow it."""
    run = ma.Optimizer(ma.Pool(rng.uniform(size=(6, 2))), POLICIES[0], seed=0, repeats="fresh")
    run.tell(arms=[0, 1, 2, 3], rewards=[1.0, 2.0, 3.0, 4.0])
    batch = run.ask(4, structure=ma.BatchStructure(at_most=[(np.array([0, 1, 2, 3, 4, 4]), 1)]))
    assert sum(arm in (4, 5) for arm in batch.arms.tolist()) == 1
    assert len(set(batch.arms.tolist())) == 4


@pytest.mark.parametrize("shards", [1, 3])
def test_shards_change_nothing(shards, rng):
    features, labels = rng.uniform(size=(40_000, 2)), rng.integers(50, size=40_000)
    rewards = np.sin(6 * features[:40, 0])
    engine = ma.engines.Local(shards=shards)
    run = ma.Optimizer(ma.Pool(features), POLICIES[0], seed=1, engine=engine)
    run.tell(arms=np.arange(40), rewards=rewards)
    structure = ma.BatchStructure(at_most=[(labels, 2)])
    batch = run.ask(24, structure=structure)
    alone = ma.Optimizer(ma.Pool(features), POLICIES[0], seed=1)
    alone.tell(arms=np.arange(40), rewards=rewards)
    assert batch.arms.tolist() == alone.ask(24, structure=structure).arms.tolist()


def test_unknown_arms_are_still_refused(rng):
    run, _ = _run(POLICIES[0], rng)
    with pytest.raises(UnknownArmError):
        run.ask(2, eligible=[N], structure=ma.BatchStructure(same=np.zeros(N)))

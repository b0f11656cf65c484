"""History: counts, sums and squares per arm; nothing changes when a call fails."""

import numpy as np
import pytest

from manyarms import History
from manyarms.errors import InvalidParameterError, InvalidRewardError, UnknownArmError
from manyarms.posterior.history import grouped


def totals(history):
    return history.arms.tolist(), history.counts.tolist(), history.sums.tolist(), history.squares.tolist()


def test_totals_in_order_of_first_pull():
    history = History(10)
    history.add([7, 2, 7], [1.0, -2.0, 3.0])
    history.add(2, 0.5)
    assert totals(history) == ([7, 2], [2, 2], [4.0, -1.5], [10.0, 4.25])
    assert (history.pulls, len(history)) == (4, 2)
    assert [history.count_of(arm) for arm in (7, np.int64(2), 0)] == [2, 2, 0]


def test_an_empty_history_and_an_empty_call():
    history = History(3)
    history.add([], [])
    assert totals(history) == ([], [], [], [])
    assert history.pulls == 0


def test_it_agrees_with_a_plain_count():
    rng = np.random.default_rng(0)
    history, arms, rewards = History(100), rng.integers(0, 100, 2000), rng.normal(size=2000)
    for part in np.array_split(np.arange(2000), 37):
        history.add(arms[part], rewards[part])
    for arm, n, s, q in zip(*totals(history), strict=True):
        mine = rewards[arms == arm]
        assert n == len(mine)
        np.testing.assert_allclose([s, q], [mine.sum(), (mine**2).sum()])


def test_sums_do_not_depend_on_how_pulls_are_batched():
    rng = np.random.default_rng(1)
    arms, rewards = rng.integers(0, 5, 300), rng.normal(size=300)
    at_once, one_by_one = History(5), History(5)
    at_once.add(arms, rewards)
    for arm, reward in zip(arms, rewards, strict=True):
        one_by_one.add(arm, reward)
    assert totals(at_once) == totals(one_by_one)


def test_its_size_is_the_number_of_different_arms():
    history = History(10**6)
    history.add(np.arange(1000), np.ones(1000))
    held = history._totals.nbytes
    for _ in range(50):
        history.add(np.arange(1000), np.ones(1000))
    assert (history._totals.nbytes, len(history), history.pulls) == (held, 1000, 51_000)


def test_what_it_hands_out_is_a_copy():
    history = History(3)
    history.add(1, 2.0)
    for values in (history.arms, history.counts, history.sums, history.squares):
        values[:] = 99
    assert totals(history) == ([1], [1.0], [2.0], [4.0])


@pytest.mark.parametrize(
    ("arms", "rewards", "error"),
    [
        ([0, 3], [1.0, 1.0], UnknownArmError),
        ([0, -1], [1.0, 1.0], UnknownArmError),
        ([0, 1], [1.0, np.nan], InvalidRewardError),
        ([0, 1], [1.0], InvalidRewardError),
        ([0, 2], [1.0, 1e200], InvalidRewardError),
        ([1, 2, 2], [1.0, 1.2e154, 1.2e154], InvalidRewardError),
        ([1, 0], [1e154, 1.0], InvalidRewardError),
    ],
)
def test_a_failed_call_changes_nothing(arms, rewards, error):
    history = History(3)
    history.add([0, 1], [2.0, 1.3e154])
    before = totals(history)
    with pytest.raises(error):
        history.add(arms, rewards)
    assert totals(history) == before
    history.add(2, 1.0)
    assert history.count_of(2) == 1


@pytest.mark.parametrize("n_arms", [0, -1, 2.5, "3", None, True])
def test_a_history_needs_arms(n_arms):
    with pytest.raises(InvalidParameterError, match="n_arms"):
        History(n_arms)


@pytest.mark.parametrize("arm", [3, -1, 1.0, "1", [0, 1]])
def test_counting_an_unknown_arm(arm):
    with pytest.raises(UnknownArmError):
        History(3).count_of(arm)


def test_grouped_keeps_the_order_of_appearance():
    arms, counts, sums = grouped(np.array([5, 1, 5, 3]), np.array([1.0, 2.0, 3.0, 4.0]))
    assert (arms.tolist(), counts.tolist(), sums.tolist()) == ([5, 1, 3], [2, 1, 1], [4.0, 2.0, 4.0])

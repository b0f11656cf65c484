"""Asynchronous Thompson sampling: a draw for each free worker, without waiting for the others."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import manyarms as ma
from manyarms.errors import AllFailedError, InvalidParameterError
from tests.runs import Problem


def test_a_draw_is_that_of_sgpts_and_ignores_pending_pulls():
    problem = Problem(0, n_arms=60)
    settings = problem.settings(width=1.0)
    one = ma.Optimizer(problem.pool, ma.AsyncTS(workers=5, **settings), seed=1)
    other = ma.Optimizer(problem.pool, ma.SGPTS(**settings), seed=1)
    arms = []
    for run in (one, other):
        run.tell(arms=np.arange(20), rewards=problem.truth[:20])
        arms.append([run.ask().arms.tolist() for _ in range(6)])
    assert arms[0] == arms[1]
    assert all(len(batch) == 1 for batch in arms[0])
    assert len({tuple(batch) for batch in arms[0]}) > 1  # draws differ, although nothing was told
    assert len(one.ask(4)) == 4  # four free workers at once


def test_no_worker_waits_for_another():
    """One evaluation blocks until all others are done: with batches of three this would never end."""
    problem, finished, lock = Problem(1, n_arms=60), threading.Event(), threading.Lock()
    started: list[int] = []

    def f(arm):
        with lock:
            started.append(arm.index)
            place = len(started)
        if place == 2:
            assert finished.wait(60)
        if place >= 25:
            finished.set()
        return float(problem.truth[arm.index])

    with ThreadPoolExecutor(3) as executor:
        policy = ma.AsyncTS(workers=3, **problem.settings(width=1.0))
        result = ma.maximize(f, problem.pool, 30, policy, executor=executor)
    assert len(result.arms) == 30
    assert not np.isnan(result.rewards).any()


def test_at_most_as_many_evaluations_run_as_there_are_workers():
    problem, lock = Problem(1, n_arms=60), threading.Lock()
    running, most = 0, 0

    def f(arm):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.005)
        with lock:
            running -= 1
        return float(problem.truth[arm.index])

    with ThreadPoolExecutor(8) as executor:
        policy = ma.AsyncTS(workers=3, **problem.settings(width=1.0))
        result = ma.maximize(f, problem.pool, 20, policy, executor=executor)
    assert len(result.arms) == 20
    assert 1 < most <= 3


def test_failures_are_recorded_and_end_a_run_that_only_fails():
    problem = Problem(1, n_arms=60)

    def f(arm):
        if arm.index % 2:
            raise RuntimeError("odd")
        return float(problem.truth[arm.index])

    policy = ma.AsyncTS(workers=2, **problem.settings(width=1.0))
    with ThreadPoolExecutor(2) as executor:
        result = ma.maximize(f, problem.pool, 25, policy, executor=executor)
        assert set(result.failures.values()) <= {"RuntimeError: odd"}
        assert np.isnan(result.rewards).sum() == len(result.failures)
        with pytest.raises(AllFailedError, match="division"):
            ma.maximize(lambda arm: 1 / 0, problem.pool, 60, policy, executor=executor)


def test_a_stopped_run_is_resumed():
    problem = Problem(1, n_arms=60)
    policy = ma.AsyncTS(workers=3, **problem.settings(width=1.0))

    def stop(done, budget, run):
        if done >= 8:
            raise KeyboardInterrupt

    def f(arm):
        return float(problem.truth[arm.index])

    with ThreadPoolExecutor(3) as executor:
        first = ma.maximize(f, problem.pool, 20, policy, executor=executor, progress=stop)
        assert first.interrupted
        result = ma.maximize(f, problem.pool, 20, resume=first, executor=executor)
    assert len(result.arms) == 20
    assert result.optimizer.pending == {}


@pytest.mark.parametrize("wrong", [{"workers": 0}, {"workers": 1.5}, {"batch_size": 2}])
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(InvalidParameterError, match=next(iter(wrong))):
        ma.AsyncTS(kernel=ma.RBF(1.0), **wrong)

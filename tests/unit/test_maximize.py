"""The whole loop: executors, failures, interrupts, progress."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import manyarms as ma
from manyarms import errors
from tests.runs import Problem


def value_of(arm: ma.Arm) -> float:
    """A function another process can import."""
    return float(-((arm.features - 0.5) ** 2).sum())


@pytest.fixture
def problem():
    return Problem(0)


def policy(problem):
    return ma.BBKB(**problem.settings(width=2.0))


def test_finds_the_best_arm_and_says_what_it_did(problem):
    result = ma.maximize(value_of, problem.pool, budget=150, policy=policy(problem), seed=1)
    assert len(result.arms) == len(result.rewards) == 150
    truth = -((problem.pool.features - 0.5) ** 2).sum(1)
    assert truth[result.best.arm] >= np.sort(truth)[-5]
    assert not result.interrupted
    assert not result.failures


@pytest.mark.parametrize("executor", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_an_executor_gives_the_same_run(problem, executor):
    plain = ma.maximize(value_of, problem.pool, 80, policy(problem))
    with executor(2) as workers:
        parallel = ma.maximize(value_of, problem.pool, 80, policy(problem), executor=workers)
    assert plain.arms.tolist() == parallel.arms.tolist()
    assert plain.rewards.tolist() == parallel.rewards.tolist()


def test_failures_are_recorded_and_the_run_goes_on(problem):
    def shaky(arm):
        if arm.index % 3 == 0:
            raise RuntimeError(f"no sample {arm.index}")
        return float("nan") if arm.index % 7 == 0 else value_of(arm)

    result = ma.maximize(shaky, problem.pool, 120, policy(problem))
    assert len(result.arms) == 120
    assert np.isnan(result.rewards).sum() == len(result.failures) > 0
    assert any("no sample" in text for text in result.failures.values())
    assert result.best.arm % 3


def test_when_everything_fails_the_run_ends_with_what_there_is(problem):
    calls = []

    def broken(arm):
        calls.append(arm)
        if len(calls) > 30:
            raise ValueError("machine is off")
        return value_of(arm)

    with pytest.raises(errors.AllFailedError, match="machine is off") as caught:
        ma.maximize(broken, problem.pool, 200, policy(problem))
    assert np.isfinite(caught.value.result.rewards).sum() == 30
    assert len(calls) < 100


def test_ctrl_c_returns_a_result_that_can_be_resumed(problem):
    calls = []

    def interrupted(arm):
        calls.append(arm.index)
        if len(calls) == 47:
            raise KeyboardInterrupt
        return value_of(arm)

    whole = ma.maximize(value_of, problem.pool, 100, policy(problem))
    part = ma.maximize(interrupted, problem.pool, 100, policy(problem))
    assert part.interrupted
    assert len(part.arms) == 46
    rest = ma.maximize(value_of, problem.pool, 100, resume=part)
    assert rest.arms.tolist() == whole.arms.tolist()
    assert rest.rewards.tolist() == whole.rewards.tolist()


ENDLESS_RUN = """
import signal, sys, numpy as np, manyarms as ma
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may ignore it
pool = ma.Pool(np.random.default_rng(0).random((500, 2)))
calls = 0
def f(arm):
    global calls
    calls += 1
    if calls == int(sys.argv[2]):
        print("called", flush=True)
    return float(-((arm.features - 0.5) ** 2).sum())
result = ma.maximize(f, pool, 100_000_000, ma.BBKB(kernel=ma.RBF(0.3)))
assert result.interrupted
result.optimizer.save(sys.argv[1])
print(len(result.arms), result.optimizer.history.pulls, len(result.optimizer.pending), flush=True)
"""


@pytest.mark.parametrize("n", [40, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 300))])
def test_a_real_sigint_at_any_moment_loses_nothing(tmp_path, n):
    """The signal is sent once the child reports its n-th evaluation; where it arrives is left to chance."""
    child = [sys.executable, "-c", ENDLESS_RUN, str(tmp_path / "run"), str(n)]
    with subprocess.Popen(child, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "called\n"
        process.send_signal(signal.SIGINT)
        try:
            output, _ = process.communicate(timeout=60)
        finally:
            process.kill()  # does nothing to a child that has ended
    assert process.returncode == 0
    told, counted, _ = map(int, output.split())
    assert told == counted >= n - 1
    assert ma.Optimizer.load(tmp_path / "run").history.pulls == told


def test_progress_goes_to_standard_error_or_to_a_function(problem, capsys):
    ma.maximize(value_of, problem.pool, 30, policy(problem), progress=True)
    assert "30/30 evaluations" in capsys.readouterr().err
    seen = []
    ma.maximize(
        value_of, problem.pool, 30, policy(problem), progress=lambda done, all, opt: seen.append(done)
    )
    assert seen[-1] == 30
    assert seen == sorted(seen)


def test_an_exhausted_pool_ends_the_run(problem):
    small = ma.Pool(problem.pool.features[:20])
    result = ma.maximize(value_of, small, 500, policy(problem), repeats="forbid")
    assert sorted(result.arms.tolist()) == list(range(20))


def test_bad_calls(problem):
    with pytest.raises(errors.InvalidParameterError, match="policy"):
        ma.maximize(value_of, problem.pool, 10, "BBKB")
    with pytest.raises(errors.InvalidParameterError, match="budget"):
        ma.maximize(value_of, problem.pool, 0, policy(problem))


def dies(arm: ma.Arm) -> float:
    """Ends the worker process itself."""
    os._exit(3)


def test_a_dead_worker_or_a_broken_callback_keeps_the_run(problem):
    with ProcessPoolExecutor(1) as workers, pytest.raises(errors.RunStoppedError) as caught:
        ma.maximize(dies, problem.pool, 40, policy(problem), executor=workers)
    stopped = caught.value.result
    assert stopped.optimizer.pending, "the trial is still owed, not failed"
    rest = ma.maximize(value_of, problem.pool, 40, resume=stopped)
    assert len(rest.arms) == 40

    def broken(done, budget, opt):
        if done > 20:
            raise RuntimeError("no screen")

    with pytest.raises(errors.RunStoppedError, match="no screen") as caught:
        ma.maximize(value_of, problem.pool, 40, policy(problem), progress=broken)
    assert len(caught.value.result.arms) > 20


def test_a_huge_value_is_a_failed_trial(problem):
    result = ma.maximize(
        lambda arm: 1e200 if arm.index % 2 else value_of(arm), problem.pool, 40, policy(problem)
    )
    assert len(result.arms) == 40
    assert any("1e+200" in text for text in result.failures.values())


def test_when_no_arm_ever_works_that_is_an_error():
    pool = ma.Pool(np.random.default_rng(0).random((5, 2)))
    with pytest.raises(errors.AllFailedError, match="ZeroDivisionError"):
        ma.maximize(lambda arm: 1 / 0, pool, 50, ma.BBKB(kernel=ma.RBF(1.0)))


def test_resume_takes_no_other_settings(problem):
    part = ma.maximize(value_of, problem.pool, 10, policy(problem))
    with pytest.raises(errors.InvalidParameterError, match="resume"):
        ma.maximize(value_of, problem.pool, 20, policy(problem), resume=part)
    with pytest.raises(errors.InvalidParameterError, match="executor"):
        ma.maximize(value_of, problem.pool, 20, policy(problem), executor=4)


@pytest.mark.parametrize("search", [ma.maximize, ma.minimize])
def test_a_run_until_a_gap_stops_early_and_can_be_resumed(search):
    hill = Problem(3, n_arms=100)

    def f(arm):
        return float(hill.truth[arm.index] + 0.1 * np.random.default_rng(arm.index).normal())

    policy = ma.BBKB(**hill.settings(ridge=0.01))
    first = search(f, hill.pool, 3000, policy, until_gap=0.3)
    assert first.gap_reached
    assert len(first.arms) < 3000
    assert first.optimizer.certificate().gap <= 0.3
    more = search(f, hill.pool, 3000, resume=first, until_gap=0.2)
    assert more.gap_reached
    assert len(more.arms) > len(first.arms)
    assert more.optimizer.certificate().gap <= 0.2
    whole = search(f, hill.pool, 3000, policy, until_gap=0.2)
    assert whole.arms.tolist() == more.arms.tolist()
    assert not search(f, hill.pool, 5, policy, until_gap=1e-6).gap_reached


@pytest.mark.parametrize("gap", [-1.0, float("nan"), "small"])
def test_a_gap_that_is_not_a_number_is_refused(problem, gap):
    with pytest.raises(errors.InvalidParameterError, match="until_gap"):
        ma.maximize(lambda arm: 0.0, problem.pool, 5, until_gap=gap)

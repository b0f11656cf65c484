"""The whole loop in one call: ask, evaluate, tell, until the budget is spent."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyarms.errors import (
    AllFailedError,
    InvalidParameterError,
    ManyarmsError,
    NothingToAskError,
    RunStoppedError,
)
from manyarms.policies import Policy
from manyarms.pool.pool import Pool
from manyarms.run.optimizer import Best, Optimizer
from manyarms.support.interrupts import deferred_interrupts
from manyarms.support.validation import Floats, Ints, count

_LARGEST_REWARD = 1e150  # its square, and the sum of many, can still be computed
_HOPELESS = 20  # a wholly failed batch ends the run only after this many failures in a row


@dataclass(frozen=True)
class Arm:
    """One candidate as the objective function sees it."""

    index: int
    id: Any
    features: Any


@dataclass(frozen=True)
class Result:
    """What a run measured: arms and rewards in the order of their tickets, failures as NaN.

    `interrupted` says that Ctrl-C ended it; `maximize(…, resume=result)` goes on where it stopped,
    measuring the tickets still out first. `failures` holds the exception text of each failed ticket.
    """

    arms: Ints
    rewards: Floats
    optimizer: Optimizer
    failures: dict[int, str]
    interrupted: bool = False

    @property
    def best(self) -> Best:
        """The arm with the highest model mean among those measured."""
        return self.optimizer.best()


Progress = Callable[[int, int, Optimizer], None]


def maximize(
    f: Callable[[Arm], float],
    pool: Pool,
    budget: int,
    policy: Policy | None = None,
    seed: int = 0,
    executor: Executor | None = None,
    progress: bool | Progress = False,
    *,
    resume: Result | None = None,
    **settings: Any,
) -> Result:
    """Spend `budget` evaluations of f(arm) on the pool, looking for the largest value.

    Batches go through `executor` (any `concurrent.futures.Executor`; None evaluates one after the other).
    An exception in f, or a value that is not a finite number, is a failed pull and the run goes on,
    unless a whole batch and the last 20 pulls all failed (`AllFailedError`, with the result so far).
    When a worker, the executor or the progress function breaks, `RunStoppedError` holds the result so far.
    Ctrl-C returns the result so far; either can be resumed. `progress` is True for a line on standard
    error, or a function of (done, budget, optimizer). Other settings go to `Optimizer`.
    """
    minimized = settings.pop("minimize", False)
    run, failures = _begun(pool, budget, policy, seed, resume, minimize=minimized, **settings)
    return _run(run, f, executor, progress, failures)


def minimize(
    f: Callable[[Arm], float],
    pool: Pool,
    budget: int,
    policy: Policy | None = None,
    seed: int = 0,
    executor: Executor | None = None,
    progress: bool | Progress = False,
    *,
    resume: Result | None = None,
    **settings: Any,
) -> Result:
    """Spend `budget` evaluations of f(arm) on the pool, looking for the smallest value.

    Everything else is as in `maximize`. Rewards, predictions and intervals have the sign of f.
    """
    run, failures = _begun(pool, budget, policy, seed, resume, minimize=True, **settings)
    return _run(run, f, executor, progress, failures)


def _begun(
    pool: Pool, budget: int, policy: Policy | None, seed: int, resume: Result | None, *,
    minimize: bool, **settings: Any,
) -> tuple[Optimizer, dict[int, str]]:  # fmt: skip
    """A new run, or the one to be resumed, and the failures so far."""
    budget = count("budget", budget)
    if resume is None:
        return Optimizer(pool, policy, seed, budget=budget, minimize=minimize, **settings), {}
    run = resume.optimizer
    if policy is not None or settings or pool is not run.pool or minimize != run.context.minimize:
        raise InvalidParameterError("resume", "…", "given with the same pool and goal and no other settings")
    run.budget = budget
    return run, dict(resume.failures)


def _run(
    run: Optimizer,
    f: Callable[[Arm], float],
    executor: Executor | None,
    progress: bool | Progress,
    failures: dict[int, str],
) -> Result:
    if executor is not None and not hasattr(executor, "submit"):
        raise InvalidParameterError("executor", executor, "a concurrent.futures.Executor or None")
    report = _print_progress if progress is True else progress or None
    budget = run.budget
    assert budget is not None
    try:
        _loop(run, f, budget, executor, report, failures)
    except KeyboardInterrupt:
        return _result(run, failures, interrupted=True)
    except NothingToAskError:
        if not len(run.history):
            if failures:
                raise AllFailedError(
                    f"every trial failed: {_last(failures)}", _result(run, failures)
                ) from None
            raise
    except ManyarmsError:
        raise
    except Exception as problem:
        text = f"the run stopped: {type(problem).__name__}: {problem}"
        raise RunStoppedError(text, _result(run, failures, interrupted=True)) from problem
    return _result(run, failures)


def _last(failures: dict[int, str]) -> str:
    return next(reversed(failures.values()))


def _loop(
    run: Optimizer,
    f: Callable[[Arm], float],
    budget: int,
    executor: Executor | None,
    report: Progress | None,
    failures: dict[int, str],
) -> None:
    in_a_row = 0
    while run.pending or run.spent < budget:
        with deferred_interrupts():
            if not run.pending:
                run.ask()
        outcomes = _evaluate(run, f, executor, failures)
        in_a_row = in_a_row + len(outcomes) if all(outcomes) else 0
        if report is not None:
            report(run.spent, budget, run)
        if in_a_row >= _HOPELESS:
            text = f"the last {in_a_row} evaluations all failed: {_last(failures)}"
            raise AllFailedError(text, _result(run, failures))


def _evaluate(
    run: Optimizer, f: Callable[[Arm], float], executor: Executor | None, failures: dict[int, str]
) -> list[bool]:
    """Measure every ticket that is out and tell its result; whether each failed."""
    tickets = sorted(run.pending.items())
    arms = [Arm(arm, run.pool.id_of(arm), run.pool.features[arm]) for _, arm in tickets]
    futures: list[Future[float]] = []
    outcomes = []
    try:
        if executor is not None:
            futures.extend(executor.submit(f, arm) for arm in arms)
        for place, (ticket, _) in enumerate(tickets):
            value, problem = _attempt(f, arms[place], futures[place] if futures else None)
            with deferred_interrupts():
                if problem is not None:
                    failures[ticket] = problem
                run.tell([ticket], [value], failed=problem is not None)
            outcomes.append(problem is not None)
    except BaseException:
        for future in futures:
            future.cancel()
        raise
    return outcomes


def _attempt(f: Callable[[Arm], float], arm: Arm, future: Future[float] | None) -> tuple[float, str | None]:
    """The measured value, or why there is none."""
    try:
        value = float(f(arm) if future is None else future.result())
    except (BrokenExecutor, CancelledError):
        raise  # the trial did not fail: whoever was to make it is gone
    except Exception as problem:
        return np.nan, f"{type(problem).__name__}: {problem}"
    usable = abs(value) < _LARGEST_REWARD  # also false for NaN
    return (value, None) if usable else (np.nan, f"the value {value} is not a usable number")


def _result(run: Optimizer, failures: dict[int, str], interrupted: bool = False) -> Result:
    records = run.trace
    told = [~np.isnan(record.rewards) | record.failed for record in records]
    arms = [record.arms[done] for record, done in zip(records, told, strict=True)]
    rewards = [record.rewards[done] for record, done in zip(records, told, strict=True)]
    nothing = np.empty(0)
    return Result(
        np.concatenate([nothing.astype(np.int64), *arms]),
        np.concatenate([nothing, *rewards]),
        run,
        failures,
        interrupted,
    )


def _print_progress(done: int, budget: int, run: Optimizer) -> None:
    best = run.best() if len(run.history) else None
    found = "" if best is None else f", best {best.id!r} at {best.mean:.4g} ± {best.std:.2g}"
    end = "\n" if done >= budget else ""
    sys.stderr.write(f"\r{done}/{budget} evaluations, {run.n_batches} batches{found}{end}")
    sys.stderr.flush()

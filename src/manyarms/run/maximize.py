"""The whole loop in one call: ask, evaluate and tell until the budget is spent."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manyarms.errors import (
    AllFailedError,
    BudgetSpentError,
    InvalidParameterError,
    ManyarmsError,
    NothingToAskError,
    RunStoppedError,
)
from manyarms.policies import AsyncTS, Policy
from manyarms.pool.pool import Pool
from manyarms.run.best import Best
from manyarms.run.domains import Domain
from manyarms.run.optimizer import Optimizer
from manyarms.run.trace import Batch
from manyarms.support.interrupts import deferred_interrupts
from manyarms.support.validation import Floats, Ints, count, non_negative

_LARGEST_REWARD = 1e150  # its square, and the sum of many squares, does not overflow
_MAX_FAILURES_IN_A_ROW = 20  # a batch of failures ends the run only after this many in a row


@dataclass(frozen=True)
class Arm:
    """A candidate as passed to the objective function: its index, its id and its feature row."""

    index: int
    id: Any
    features: Any


@dataclass(frozen=True)
class Result:
    """The outcome of a run: arms and rewards in the order of their tickets, with NaN for failures.

    `optimizer` is the run itself. `failures` maps each failed ticket to the text of its exception.
    `interrupted` is True if the run stopped early, for example by Ctrl-C; `maximize(f, pool, budget,
    resume=result)` then continues it and evaluates the pending tickets first. `gap_reached` is True if it
    ended because of `until_gap`; a smaller gap and a larger budget continue it in the same way.
    """

    arms: Ints
    rewards: Floats
    optimizer: Optimizer
    failures: dict[int, str]
    interrupted: bool = False
    gap_reached: bool = False

    @property
    def best(self) -> Best:
        """The pulled arm with the best posterior mean."""
        return self.optimizer.best()

    def to_frame(self, *, library: str | None = None) -> Any:
        """The trials as a pandas or polars frame, one row each; see `Optimizer.to_frame` for other frames."""
        return self.optimizer.to_frame(library=library)


Progress = Callable[[int, int, Optimizer], None]


def maximize(
    f: Callable[[Arm], float],
    pool: Pool | Domain,
    budget: int,
    policy: Policy | None = None,
    seed: int = 0,
    executor: Executor | None = None,
    progress: bool | Progress = False,
    *,
    resume: Result | None = None,
    until_gap: float | None = None,
    **settings: Any,
) -> Result:
    """Search the pool for the arm with the largest f(arm), with `budget` noisy evaluations.

    f: the objective. It is called with an `Arm` and returns the reward. An exception, or a value that is
        not a finite number, counts as a failed pull, and the run continues; if a whole batch and the last
        20 pulls all failed, `AllFailedError` is raised with the result so far.
    pool: the candidates, or a `Box` of points.
    budget: the number of evaluations, including failed ones.
    policy: the algorithm; None is the default policy.
    seed: the random seed.
    executor: any `concurrent.futures.Executor`, which evaluates the arms of a batch; None evaluates them one
        after the other in this process. With `AsyncTS` no batch is waited for.
    progress: True prints a line to standard error; a function is called with (done, budget, optimizer).
    resume: the result of a call that stopped early; it continues on the same pool up to `budget`.
    until_gap: stop before the budget is spent when the gap of `Optimizer.certificate` is at most this. With a
        learned model the gap is an estimate.
    settings: further settings of `Optimizer`. With `resume`, policy and settings must be left out. With
        `costs`, the run also ends when nothing is left that the cost budget can pay for.

    Ctrl-C returns the result so far, and `RunStoppedError` contains it if a worker, the executor or the
    progress function fails. Both can be resumed.
    """
    minimized = settings.pop("minimize", False)
    gap = None if until_gap is None else non_negative("until_gap", until_gap)
    run, failures = _new_or_resumed(pool, budget, policy, seed, resume, minimize=minimized, **settings)
    return _run(run, f, executor, progress, failures, gap)


def minimize(
    f: Callable[[Arm], float],
    pool: Pool | Domain,
    budget: int,
    policy: Policy | None = None,
    seed: int = 0,
    executor: Executor | None = None,
    progress: bool | Progress = False,
    *,
    resume: Result | None = None,
    until_gap: float | None = None,
    **settings: Any,
) -> Result:
    """Search the pool for the arm with the smallest f(arm), with `budget` noisy evaluations.

    The arguments are those of `maximize`. Rewards, predictions and intervals keep the sign of f.
    """
    gap = None if until_gap is None else non_negative("until_gap", until_gap)
    run, failures = _new_or_resumed(pool, budget, policy, seed, resume, minimize=True, **settings)
    return _run(run, f, executor, progress, failures, gap)


def _new_or_resumed(
    pool: Pool | Domain, budget: int, policy: Policy | None, seed: int, resume: Result | None, *,
    minimize: bool, **settings: Any,
) -> tuple[Optimizer, dict[int, str]]:  # fmt: skip
    """A new run or the one to be resumed, and its failures so far."""
    budget = count("budget", budget)
    if resume is None:
        return Optimizer(pool, policy, seed, budget=budget, minimize=minimize, **settings), {}
    run = resume.optimizer
    if policy is not None or settings or pool is not run.domain or minimize != run.context.minimize:
        rule = "given with the same pool and goal and no other settings"
        raise InvalidParameterError("resume", "another pool, goal or settings", rule)
    run.budget = budget
    return run, dict(resume.failures)


def _run(
    run: Optimizer,
    f: Callable[[Arm], float],
    executor: Executor | None,
    progress: bool | Progress,
    failures: dict[int, str],
    until_gap: float | None,
) -> Result:
    """Run the loop to its end; `maximize` explains what may stop it."""
    if executor is not None and not hasattr(executor, "submit"):
        raise InvalidParameterError("executor", executor, "a concurrent.futures.Executor or None")
    report = _print_progress if progress is True else progress or None
    budget = run.budget
    assert budget is not None
    try:
        _loop(run, f, budget, executor, report, failures, until_gap)
    except KeyboardInterrupt:
        return _result(run, failures, interrupted=True)
    except NothingToAskError:
        if failures and not len(run.history):
            raise _all_failed("every trial failed", run, failures) from None
        if not len(run.history):
            raise
    except ManyarmsError:
        raise
    except Exception as problem:
        text = f"the run stopped: {type(problem).__name__}: {problem}"
        raise RunStoppedError(text, _result(run, failures, interrupted=True)) from problem
    return replace(_result(run, failures), gap_reached=_is_gap_reached(run, until_gap))


def _is_gap_reached(run: Optimizer, until_gap: float | None) -> bool:
    return until_gap is not None and len(run.history) > 0 and run.certificate().gap <= until_gap


def _all_failed(text: str, run: Optimizer, failures: dict[int, str]) -> AllFailedError:
    """The error for trials that all failed; its message ends with the text of the last failure."""
    return AllFailedError(f"{text}: {next(reversed(failures.values()))}", _result(run, failures))


def _loop(
    run: Optimizer,
    f: Callable[[Arm], float],
    budget: int,
    executor: Executor | None,
    report: Progress | None,
    failures: dict[int, str],
    until_gap: float | None,
) -> None:
    if executor is not None and isinstance(run.policy, AsyncTS):
        _loop_without_waiting(run, f, budget, executor, report, failures, until_gap)
        return
    in_a_row = 0
    while run.pending or (run.spent < budget and not _is_gap_reached(run, until_gap)):
        with deferred_interrupts():
            if not run.pending and _asked(run) is None:
                return
        outcomes = _evaluate(run, f, executor, failures)
        in_a_row = in_a_row + len(outcomes) if all(outcomes) else 0
        if report is not None:
            report(run.spent, budget, run)
        if in_a_row >= _MAX_FAILURES_IN_A_ROW:
            raise _all_failed(f"the last {in_a_row} evaluations all failed", run, failures)


def _loop_without_waiting(
    run: Optimizer,
    f: Callable[[Arm], float],
    budget: int,
    executor: Executor,
    report: Progress | None,
    failures: dict[int, str],
    until_gap: float | None,
) -> None:
    """Each worker that is free gets a draw at once, while the others go on (`AsyncTS`)."""
    assert isinstance(run.policy, AsyncTS)
    in_a_row, running = 0, dict[Future[float], int]()
    try:
        while True:
            for ticket in sorted(set(run.pending) - set(running.values())):  # of a run that is resumed
                running[executor.submit(f, _arm_of(run, run.pending[ticket]))] = ticket
            while len(running) < run.policy.workers and run.spent < budget:
                if _is_gap_reached(run, until_gap):
                    break
                with deferred_interrupts():
                    batch = _asked(run)
                if batch is None:
                    break
                running[executor.submit(f, _arm_of(run, int(batch.arms[0])))] = int(batch.tickets[0])
            if not running:
                return
            done = wait(running, return_when=FIRST_COMPLETED).done
            for future in sorted(done, key=running.__getitem__):
                failed = _told(run, running.pop(future), None, future, f, failures)
                in_a_row = in_a_row + 1 if failed else 0
            if report is not None:
                report(run.spent - len(running), budget, run)
            if in_a_row >= _MAX_FAILURES_IN_A_ROW:
                raise _all_failed(f"the last {in_a_row} evaluations all failed", run, failures)
    except BaseException:
        for future in running:
            future.cancel()
        raise


def _asked(run: Optimizer) -> Batch | None:
    """The next batch; None if the cost budget pays for no other arm."""
    try:
        return run.ask()
    except BudgetSpentError:
        if run.cost_budget is None:
            raise
        return None


def _arm_of(run: Optimizer, arm: int) -> Arm:
    return Arm(arm, run.pool.id_of(arm), run.pool.features[arm])


def _told(
    run: Optimizer,
    ticket: int,
    arm: Arm | None,
    future: Future[float] | None,
    f: Callable[[Arm], float],
    failures: dict[int, str],
) -> bool:
    """Record the outcome of one evaluation, of the future or of a call; return whether it failed."""
    value, problem = _attempt(f, arm, future)
    with deferred_interrupts():
        if problem is not None:
            failures[ticket] = problem
        run.tell([ticket], [value], failed=problem is not None)
    return problem is not None


def _evaluate(
    run: Optimizer, f: Callable[[Arm], float], executor: Executor | None, failures: dict[int, str]
) -> list[bool]:
    """Evaluate every pending ticket and record its result; return whether each one failed."""
    tickets = sorted(run.pending.items())
    arms = [_arm_of(run, arm) for _, arm in tickets]
    futures: list[Future[float]] = []
    outcomes = []
    try:
        if executor is not None:
            futures.extend(executor.submit(f, arm) for arm in arms)
        for place, (ticket, _) in enumerate(tickets):
            future = futures[place] if futures else None
            outcomes.append(_told(run, ticket, arms[place], future, f, failures))
    except BaseException:
        for future in futures:
            future.cancel()
        raise
    return outcomes


def _attempt(
    f: Callable[[Arm], float], arm: Arm | None, future: Future[float] | None
) -> tuple[float, str | None]:
    """The value of f, or NaN and the reason why there is none; without a future, f is called with the arm."""
    try:
        if future is not None:
            value = float(future.result())
        else:
            assert arm is not None
            value = float(f(arm))
    except (BrokenExecutor, CancelledError):
        raise  # the trial did not fail: the executor was lost before it was evaluated
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

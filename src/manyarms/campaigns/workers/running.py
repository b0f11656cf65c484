"""Evaluate a campaign by workers on this machine: adopt, ask, measure, tell, until something says stop.

A run works in rounds. It takes up tickets whose worker is gone, or asks for a batch (by the rule, filled up
to the number of workers), measures all of it, tells each result as it comes in, and goes on. Rounds do not
depend on which worker was faster, so a run that was killed and started again asks what an uninterrupted one
would have asked.
"""

from __future__ import annotations

import csv
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from manyarms.campaigns.campaign import Campaign, Issued
from manyarms.campaigns.pool_file.files import replacing
from manyarms.campaigns.queries import budget_left, ticket_counts
from manyarms.campaigns.results_file import ReportedResult
from manyarms.campaigns.store.schema import OPEN, TICKETS
from manyarms.campaigns.store.store import Ticket
from manyarms.campaigns.text import one_line
from manyarms.campaigns.workers.command_trials import LONGEST_NOTE, StoppedError, Trial, TrialFailedError
from manyarms.campaigns.workers.processes import is_gone, own_name
from manyarms.errors import BudgetSpentError, DatabaseError, NothingToAskError, TrialsFailingError
from manyarms.support.interrupts import deferred_interrupts

MAX_CONSECUTIVE_FAILURES = 20  # failures in a row
_STOP_SECONDS = 2.0  # seconds that workers have to put down a trial that was cut off
_Finished = tuple[Issued, float | str | None]  # a value, why there is none, or None for a trial cut off


@dataclass(frozen=True)
class RunPlan:
    """How to run: workers, when to stop, and what to do with a trial that gives nothing."""

    workers: int = 1
    batch: int | None = None  # exactly so many a round; None: the policy's rule, at least one a worker
    trials: int | None = None  # at most so many in this run
    until: float | None = None  # stop when a value reaches this
    timeout: float | None = None  # seconds a trial
    retries: int = 1
    lease_seconds: float = 300.0


@dataclass
class Tally:
    """What a run did so far."""

    measured: int = 0
    failed: int = 0
    rounds: int = 0
    best: float | None = None
    stopped_because: str = ""
    notes: list[str] = field(default_factory=list)  # why trials failed, the last few


OnProgress = Callable[[Tally], None]


def run(
    campaign: Campaign, make_trial: Callable[[], Trial], plan: RunPlan, on_progress: OnProgress | None = None
) -> Tally:
    """Measure until the budget, the number of trials, the target or the pool ends it.

    On an exception, Ctrl-C among them, running trials are cut off; their tickets stay leased to this
    process, and the next run on this machine takes them up again.
    """
    runner = _Runner(campaign, make_trial, plan, on_progress)
    try:
        runner.loop()
    finally:
        runner.stop()
    return runner.tally


class _Runner:
    def __init__(
        self,
        campaign: Campaign,
        make_trial: Callable[[], Trial],
        plan: RunPlan,
        on_progress: OnProgress | None,
    ) -> None:
        self.campaign, self.plan, self.on_progress = campaign, plan, on_progress
        self.tally, self.name = Tally(), own_name()
        self._jobs: queue.SimpleQueue[Issued | None] = queue.SimpleQueue()
        self._done: deque[_Finished] = deque()  # measured and not told yet: emptied by telling alone
        self._news = threading.Event()
        self._trials = [make_trial() for _ in range(plan.workers)]
        self._failures_in_a_row = 0
        self._threads = [
            threading.Thread(target=self._work, args=(trial,), daemon=True) for trial in self._trials
        ]
        for thread in self._threads:
            thread.start()

    # ------------------------------------------------------------------ rounds

    def loop(self) -> None:
        """Rounds until there is a reason to stop."""
        while not self.tally.stopped_because:
            jobs = self._round()
            if not jobs:
                self.tally.stopped_because = self.tally.stopped_because or "nothing left to ask"
                return
            self.tally.rounds += 1
            self._measure(jobs)
            if self._left() == 0:
                self.tally.stopped_because = self.tally.stopped_because or "trials done"

    def _left(self) -> int | None:
        done = self.tally.measured + self.tally.failed
        return None if self.plan.trials is None else max(0, self.plan.trials - done)

    def _round(self) -> list[Issued]:
        """Tickets to measure now: those without a worker first, else a new batch."""
        left = self._left()
        jobs = self._adopt_abandoned(left)
        try:
            if not jobs:
                jobs = self._ask(self.plan.batch, left)
            missing = self.plan.workers - len(jobs)
            if self.plan.batch is None and missing > 0 and self._nothing_told():
                jobs += self._fill_up(missing, None if left is None else left - len(jobs))
        except BudgetSpentError:
            self.tally.stopped_because = "" if jobs else "budget spent"
        except NothingToAskError:
            pass
        return jobs

    def _ask(self, n: int | None, left: int | None) -> list[Issued]:
        held = {"worker": self.name, "lease_seconds": self.plan.lease_seconds}
        if n is None:
            return self.campaign.ask(at_most=left, **held)  # type: ignore[arg-type]
        n = min([n, *(size for size in (left, self._budget_left()) if size)])
        try:
            return self.campaign.ask(n, **held)  # type: ignore[arg-type]
        except NothingToAskError:  # fewer than n are left
            return self.campaign.ask(at_most=n, **held)  # type: ignore[arg-type]

    def _fill_up(self, missing: int, left: int | None) -> list[Issued]:
        """A batch that leaves workers idle gets company, chosen with the batch taken as pulled."""
        n = min([missing, *(size for size in (left, self._budget_left()) if size is not None)])
        return self._ask(n, None) if n > 0 else []

    def _budget_left(self) -> int | None:
        return budget_left(self.campaign.settings.budget, ticket_counts(self.campaign))

    def _nothing_told(self) -> bool:
        """Whether no result came in since the last batch was asked, by anybody."""
        with self.campaign.store.reading() as connection:
            seen = self.campaign.store.snapshot(connection)
        return seen.sequence == seen.folded

    def _adopt_abandoned(self, at_most: int | None) -> list[Issued]:
        """Open tickets of runs that are gone: their lease is over, or their process on this machine is."""
        store, moment = self.campaign.store, time.time()
        leased = (TICKETS.c.state == OPEN, TICKETS.c.lease_until.is_not(None))
        with store.reading() as connection:
            if not any(_abandoned(each, moment) for each in store.tickets(connection, *leased)):
                return []
        with store.writing() as connection:
            orphans = [each for each in store.tickets(connection, *leased) if _abandoned(each, moment)]
            orphans = orphans[:at_most]
            tickets = [each.ticket for each in orphans]
            store.lease(connection, tickets, self.name, moment + self.plan.lease_seconds)
        return self.campaign.reissued(orphans, "taken up again")

    # ------------------------------------------------------------------ measuring

    def _work(self, trial: Trial) -> None:
        while (job := self._jobs.get()) is not None:
            self._done.append((job, self._attempts(trial, job)))
            self._news.set()

    def _attempts(self, trial: Trial, job: Issued) -> float | str | None:
        """The value, or why there is none; None when the run is being stopped."""
        why = ""
        for _ in range(1 + self.plan.retries):
            try:
                return trial.measure(job, self.plan.timeout)
            except TrialFailedError as problem:
                why = str(problem)
            except StoppedError:
                return None
            except Exception as problem:  # a worker thread must answer, or the run would wait for ever
                why = f"{type(problem).__name__}: {problem}"
        return why

    def _measure(self, jobs: Sequence[Issued]) -> None:
        for job in jobs:
            self._jobs.put(job)
        waiting = {job.ticket for job in jobs}
        renew = time.monotonic() + self.plan.lease_seconds / 3
        while waiting:
            self._news.wait(max(0.0, renew - time.monotonic()))
            with deferred_interrupts():
                waiting -= self._tell_finished()
            if self._failures_in_a_row >= MAX_CONSECUTIVE_FAILURES:
                raise TrialsFailingError(
                    f"the last {self._failures_in_a_row} trials all failed: {self.tally.notes[-1]}"
                )
            if self.tally.stopped_because:
                self.campaign.give_up(waiting, self.name)
                return
            if time.monotonic() >= renew:
                self._renew(sorted(waiting))
                renew = time.monotonic() + self.plan.lease_seconds / 3

    def _tell_finished(self) -> set[int]:
        """Tell all trials that are over; their tickets. What the database refuses is in a file afterwards."""
        self._news.clear()
        done = [self._done.popleft() for _ in range(len(self._done))]
        self._tell(done)
        return {job.ticket for job, _ in done}

    def _tell(self, done: Sequence[_Finished]) -> None:
        outcomes = [_outcome(job, value) for job, value in done if value is not None]
        if not outcomes:
            return
        try:
            self.campaign.tell(outcomes)
        except DatabaseError as problem:
            raise DatabaseError(f"{problem}; {self._save_unrecorded(outcomes)}") from problem
        for outcome in outcomes:
            self._count(outcome)
        if self.on_progress is not None:
            self.on_progress(self.tally)

    def _save_unrecorded(self, outcomes: Sequence[ReportedResult]) -> str:
        """Results that the database did not take, in a file of their own that can be told later."""
        path = Path(f"untold-{os.getpid()}-{time.time_ns()}.csv")
        with replacing(path) as stream:
            writer = csv.writer(stream)
            writer.writerow(["ticket", "value", "failed"])
            writer.writerows(
                [each.ticket, "" if each.value is None else each.value, int(each.value is None)]
                for each in outcomes
            )
        return f"{len(outcomes)} results are in {path}: tell that file later"

    def _count(self, outcome: ReportedResult) -> None:
        tally, sign = self.tally, self.campaign.settings.sign
        if outcome.value is None:
            tally.failed += 1
            self._failures_in_a_row += 1
            tally.notes = [*tally.notes[-4:], f"ticket {outcome.ticket}: {outcome.note}"]
            return
        self._failures_in_a_row = 0
        tally.measured += 1
        if tally.best is None or sign * outcome.value > sign * tally.best:
            tally.best = outcome.value
        if self.plan.until is not None and sign * outcome.value >= sign * self.plan.until:
            tally.stopped_because = "target reached"

    def _renew(self, tickets: list[int]) -> None:
        store = self.campaign.store
        with store.writing() as connection:
            store.lease(connection, tickets, self.name, time.time() + self.plan.lease_seconds)

    def stop(self) -> None:
        """Cut off what is running, let the threads go, and tell what was measured until then."""
        for trial in self._trials:
            trial.close()
        for _ in self._trials:
            self._jobs.put(None)
        deadline = time.monotonic() + _STOP_SECONDS
        with deferred_interrupts():
            for thread in self._threads:
                thread.join(max(0.0, deadline - time.monotonic()))
            self._tell_finished()


def _outcome(job: Issued, value: float | str) -> ReportedResult:
    where = f"ticket {job.ticket}"
    if isinstance(value, str):
        return ReportedResult(where, job.ticket, None, None, note=one_line(value)[:LONGEST_NOTE])
    return ReportedResult(where, job.ticket, None, value)


def _abandoned(ticket: Ticket, moment: float) -> bool:
    """Whether whoever held the ticket is gone.

    Asked when this run holds no ticket: one under its own name is of an earlier run in this process.
    """
    overdue = ticket.lease_until is not None and ticket.lease_until < moment
    return overdue or ticket.worker == own_name() or is_gone(ticket.worker)

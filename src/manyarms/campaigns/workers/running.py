"""Measure a campaign with workers on this machine until a limit, a target or an interrupt ends the run.

A run works in rounds. It adopts tickets whose worker has ended, or asks for a batch (sized by the stopping
rule, with at least one candidate per worker), measures the whole batch, and records each result as it
arrives. Rounds do not depend on the speed of the workers, so a run that was killed and started again asks for
the same candidates as an uninterrupted one.
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
from manyarms.campaigns.queries import budget_left, ticket_counts
from manyarms.campaigns.results_file import ReportedResult
from manyarms.campaigns.store.schema import OPEN, TICKETS
from manyarms.campaigns.store.store import Ticket
from manyarms.campaigns.text import counted, one_line
from manyarms.campaigns.workers.command_trials import LONGEST_NOTE, StoppedError, Trial, TrialFailedError
from manyarms.campaigns.workers.processes import is_gone, own_name
from manyarms.errors import BudgetSpentError, DatabaseError, NothingToAskError, TrialsFailingError
from manyarms.support.interrupts import deferred_interrupts
from manyarms.support.output_files import replacing

MAX_CONSECUTIVE_FAILURES = 20  # failed trials in a row that end the run
_STOP_SECONDS = 2.0  # how long to wait for interrupted workers
_Finished = tuple[
    Issued, float | str | None
]  # the value, the reason of a failure, or None for an interrupted trial


@dataclass(frozen=True)
class RunPlan:
    """The settings of a run: its workers, its limits, and the handling of failed trials."""

    workers: int = 1
    batch: int | None = None  # candidates per round; None: the stopping rule, at least one per worker
    trials: int | None = None  # the largest number of trials in this run
    until: float | None = None  # stop when a value reaches this target
    timeout: float | None = None  # seconds per trial
    retries: int = 1
    lease_seconds: float = 300.0


@dataclass
class Tally:
    """The progress of a run."""

    measured: int = 0
    failed: int = 0
    rounds: int = 0
    best: float | None = None
    stopped_because: str = ""
    notes: list[str] = field(default_factory=list)  # the reasons of the last few failures


OnProgress = Callable[[Tally], None]


def run(
    campaign: Campaign, make_trial: Callable[[], Trial], plan: RunPlan, on_progress: OnProgress | None = None
) -> Tally:
    """Measure until the budget or the pool is exhausted, the number of trials is reached, or the target is.

    On an exception, including Ctrl-C, running trials are interrupted. Their tickets stay leased to this
    process, and the next run on this machine adopts them.
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
        self._done: deque[_Finished] = deque()  # finished trials that are not recorded yet
        self._news = threading.Event()
        self._trials = [make_trial() for _ in range(plan.workers)]
        self._failures_in_a_row = 0
        self._unrecorded: list[Path] = []  # files with results that the database refused
        self._threads = [
            threading.Thread(target=self._work, args=(trial,), daemon=True) for trial in self._trials
        ]
        for thread in self._threads:
            thread.start()

    # ------------------------------------------------------------------ rounds

    def loop(self) -> None:
        """Run rounds until there is a reason to stop."""
        while not self.tally.stopped_because:
            jobs = self._round()
            if not jobs:
                self.tally.stopped_because = self.tally.stopped_because or "nothing left to ask"
                return
            self.tally.rounds += 1
            self._measure(jobs)
            if self._left() == 0:
                self.tally.stopped_because = self.tally.stopped_because or "trial limit reached"

    def _left(self) -> int | None:
        done = self.tally.measured + self.tally.failed
        return None if self.plan.trials is None else max(0, self.plan.trials - done)

    def _round(self) -> list[Issued]:
        """The tickets of the next round: abandoned ones first, otherwise a new batch."""
        left = self._left()
        jobs = self._adopt_abandoned(left)
        try:
            if not jobs:
                jobs = self._ask(self.plan.batch, left)
            missing = self.plan.workers - len(jobs)
            if self.plan.batch is None and missing > 0 and self._nothing_recorded():
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
        except NothingToAskError:  # fewer than n candidates are left
            return self.campaign.ask(at_most=n, **held)  # type: ignore[arg-type]

    def _fill_up(self, missing: int, left: int | None) -> list[Issued]:
        """Ask for more candidates if the batch would leave workers idle; the batch counts as pulled."""
        n = min([missing, *(size for size in (left, self._budget_left()) if size is not None)])
        return self._ask(n, None) if n > 0 else []

    def _budget_left(self) -> int | None:
        return budget_left(self.campaign.settings.budget, ticket_counts(self.campaign))

    def _nothing_recorded(self) -> bool:
        """Whether no result has been recorded by anyone since the last ask."""
        with self.campaign.store.reading() as connection:
            seen = self.campaign.store.snapshot(connection)
        return seen.sequence == seen.folded

    def _adopt_abandoned(self, at_most: int | None) -> list[Issued]:
        """Open tickets of ended runs: the lease has expired, or the process on this machine has ended."""
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
        return self.campaign.reissued(orphans)

    # ------------------------------------------------------------------ measuring

    def _work(self, trial: Trial) -> None:
        while (job := self._jobs.get()) is not None:
            self._done.append((job, self._attempts(trial, job)))
            self._news.set()

    def _attempts(self, trial: Trial, job: Issued) -> float | str | None:
        """The value or the reason of the failure; None if the run is stopping."""
        why = ""
        for _ in range(1 + self.plan.retries):
            try:
                return trial.measure(job, self.plan.timeout)
            except TrialFailedError as problem:
                why = str(problem)
            except StoppedError:
                return None
            except Exception as problem:  # the thread must return an answer, or the run would wait forever
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
                    f"the last {self._failures_in_a_row} trials failed; the latest: {self.tally.notes[-1]}"
                )
            if self.tally.stopped_because:
                self.campaign.give_up(waiting, self.name)
                return
            if time.monotonic() >= renew:
                self._renew(sorted(waiting))
                renew = time.monotonic() + self.plan.lease_seconds / 3

    def _tell_finished(self) -> set[int]:
        """Record all finished trials and return their tickets; results that cannot be stored go to a file."""
        self._news.clear()
        done = [self._done.popleft() for _ in range(len(self._done))]
        self._tell(done)
        return {job.ticket for job, _ in done}

    def _tell(self, done: Sequence[_Finished]) -> None:
        outcomes = [_reported(job, value) for job, value in done if value is not None]
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
        """Write results that the database refused to a results file, which can be imported later.

        The message names every such file of this run, because only the last error of a run is shown.
        """
        path = Path(f"unrecorded-{os.getpid()}-{time.time_ns()}.csv")
        with replacing(path, force=False) as stream:
            writer = csv.writer(stream)
            writer.writerow(["ticket", "value", "failed"])
            writer.writerows(
                [f"{each.ticket}{'-' if each.check else ''}{each.check or ''}",
                 "" if each.value is None else each.value, int(each.value is None)]
                for each in outcomes
            )  # fmt: skip
        self._unrecorded.append(path)
        files = " ".join(map(str, self._unrecorded))
        saved = counted(len(outcomes), "result")
        return f"saved {saved} to a file; import with `manyarms tell` each of: {files}"

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
        """Interrupt running trials, end the threads, and record the results measured so far."""
        for trial in self._trials:
            trial.close()
        for _ in self._trials:
            self._jobs.put(None)
        deadline = time.monotonic() + _STOP_SECONDS
        with deferred_interrupts():
            for thread in self._threads:
                thread.join(max(0.0, deadline - time.monotonic()))
            self._tell_finished()


def _reported(job: Issued, value: float | str) -> ReportedResult:
    where, check = f"ticket {job.ticket}", job.code.partition("-")[2] or None
    if isinstance(value, str):
        note = one_line(value)[:LONGEST_NOTE]
        return ReportedResult(where, job.ticket, None, None, note=note, check=check)
    return ReportedResult(where, job.ticket, None, value, check=check)


def _abandoned(ticket: Ticket, moment: float) -> bool:
    """Whether the holder of the ticket has ended.

    This is called while this run holds no ticket, so a ticket under its own name belongs to an earlier run
    of the same process.
    """
    overdue = ticket.lease_until is not None and ticket.lease_until < moment
    return overdue or ticket.worker == own_name() or is_gone(ticket.worker)

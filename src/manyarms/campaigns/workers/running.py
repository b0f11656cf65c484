"""Measure a campaign with workers on this machine until a limit, a target or an interrupt ends the run.

A worker never waits for another one. Its result is recorded as it arrives, and it measures the next ticket of
the present batch. When no ticket is left, the run adopts tickets whose worker has ended, or asks for a batch
(sized by the stopping rule, with at least one candidate per idle worker), which takes the trials that are
still going on into account as pending pulls. With several workers, the candidates therefore depend on the
order in which trials end.

With `batch`, a run works in rounds and measures a whole batch before it asks for the next one. Rounds, like
a single worker, do not depend on speed: a run that was killed and started again asks for the same candidates
as an uninterrupted one.
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
from typing import Any

from manyarms.campaigns.access import CampaignAccess
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.local import LocalCampaign
from manyarms.campaigns.orders import Issued
from manyarms.campaigns.results_file import ReportedResult
from manyarms.campaigns.store.store import Ticket
from manyarms.campaigns.text import counted, one_line
from manyarms.campaigns.workers.command_trials import LONGEST_NOTE, StoppedError, Trial, TrialFailedError
from manyarms.campaigns.workers.processes import is_gone, own_name
from manyarms.errors import (
    BudgetSpentError,
    DatabaseError,
    GainReachedError,
    GapReachedError,
    NothingToAskError,
    TrialsFailingError,
    UnreachableServiceError,
)
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
    batch: int | None = None  # candidates per round; None: no rounds, the stopping rule sizes a batch
    trials: int | None = None  # the largest number of trials in this run
    until: float | None = None  # stop when a value reaches this target
    until_gap: float | None = None  # stop when the gap of the certificate is at most this
    until_gain: float | None = None  # stop when the next batch is expected to add at most this
    timeout: float | None = None  # seconds per trial
    retries: int = 1
    lease_seconds: float = 300.0
    one_each: bool = False  # ask for one candidate per idle worker, whatever the stopping rule says
    name: str | None = None  # who measures; None: this process


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
    campaign: CampaignAccess | Campaign,
    make_trial: Callable[[], Trial],
    plan: RunPlan,
    on_progress: OnProgress | None = None,
) -> Tally:
    """Measure until budget or pool is exhausted, or the number of trials, the target or the gap is reached.

    On an exception, including Ctrl-C, running trials are interrupted. Their tickets stay leased to this
    process, and the next run on this machine adopts them; tickets of a service are given back to it.
    """
    access = LocalCampaign(campaign) if isinstance(campaign, Campaign) else campaign
    runner = _Runner(access, make_trial, plan, on_progress)
    try:
        runner.loop()
    finally:
        runner.stop()
    return runner.tally


class _Runner:
    def __init__(
        self,
        campaign: CampaignAccess,
        make_trial: Callable[[], Trial],
        plan: RunPlan,
        on_progress: OnProgress | None,
    ) -> None:
        self.campaign, self.plan, self.on_progress = campaign, plan, on_progress
        self.tally, self.name = Tally(), plan.name or own_name()
        self._jobs: queue.SimpleQueue[Issued | None] = queue.SimpleQueue()
        self._done: deque[_Finished] = deque()  # finished trials that are not recorded yet
        self._news = threading.Event()
        self._trials = [make_trial() for _ in range(plan.workers)]
        self._sign = campaign.form.sign
        self._failures_in_a_row = 0
        self._waiting: set[int] = set()  # tickets that were handed to the workers and have no result yet
        self._exhausted = ""  # why the last ask gave nothing
        self._renew_at = time.monotonic() + plan.lease_seconds / 3
        self._unrecorded: list[Path] = []  # files with results that the database refused
        self._threads = [
            threading.Thread(target=self._work, args=(trial,), daemon=True) for trial in self._trials
        ]
        for thread in self._threads:
            thread.start()

    # ------------------------------------------------------------------ handing out

    def loop(self) -> None:
        """Hand out candidates and record results until there is a reason to stop."""
        while not self.tally.stopped_because:
            self._refill()
            if not self._waiting:
                limit = "trial limit reached" if self._left() == 0 else "nothing left to ask"
                self.tally.stopped_because = self._exhausted or limit
                return
            self._record_next()

    def _left(self) -> int | None:
        """The number of trials that may still be handed out; None: no limit."""
        done = self.tally.measured + self.tally.failed + len(self._waiting)
        return None if self.plan.trials is None else max(0, self.plan.trials - done)

    def _refill(self) -> None:
        """Hand out tickets if a worker has nothing to do or, in rounds, if the whole round is done."""
        idle = self.plan.workers - len(self._waiting)
        if self._left() == 0 or idle <= 0 or (self.plan.batch is not None and self._waiting):
            return
        jobs = self._next_jobs(idle)
        self.tally.rounds += bool(jobs)
        for job in jobs:
            self._waiting.add(job.ticket)
            self._jobs.put(job)

    def _next_jobs(self, idle: int) -> list[Issued]:
        """Abandoned tickets first, otherwise a new batch; without rounds, one for every idle worker."""
        left = self._left()
        jobs = self._adopt_abandoned(left)
        try:
            if not jobs and not self.plan.one_each:
                jobs = self._ask(self.plan.batch, left)
            if self.plan.one_each and not jobs:
                jobs = self._ask_each(idle if left is None else min(idle, left))
            elif self.plan.batch is None and len(jobs) < idle:
                jobs += self._fill_up(idle - len(jobs), None if left is None else left - len(jobs))
            self._exhausted = ""
        except BudgetSpentError:
            self._exhausted = "budget spent"
        except GapReachedError:
            self._exhausted = "gap reached"
        except GainReachedError:
            self._exhausted = "expected gain reached"
        except NothingToAskError:
            self._exhausted = "nothing left to ask"
        return jobs

    def _ask(self, n: int | None, left: int | None) -> list[Issued]:
        if n is None:
            return self.campaign.ask(at_most=left, **self._terms)
        n = min([n, *(size for size in (left, self._budget_left()) if size)])
        try:
            return self.campaign.ask(n, **self._terms)
        except NothingToAskError:  # fewer than n candidates are left
            return self.campaign.ask(at_most=n, **self._terms)

    @property
    def _terms(self) -> dict[str, Any]:
        """What every ask of this run says."""
        return {
            "worker": self.name,
            "lease_seconds": self.plan.lease_seconds,
            "until_gap": self.plan.until_gap,
            "until_gain": self.plan.until_gain,
        }

    def _ask_each(self, n: int) -> list[Issued]:
        """One candidate for each idle worker, or fewer if there are no more."""
        try:
            return self.campaign.ask(n, **self._terms)
        except (BudgetSpentError, NothingToAskError):
            if n == 1:
                raise
            return self.campaign.ask(at_most=n, **self._terms)

    def _fill_up(self, missing: int, left: int | None) -> list[Issued]:
        """Ask for more candidates if the batch would leave workers idle; the batch counts as pulled."""
        n = min([missing, *(size for size in (left, self._budget_left()) if size is not None)])
        return self._ask(n, None) if n > 0 else []

    def _budget_left(self) -> int | None:
        return self.campaign.budget_left()

    def _adopt_abandoned(self, at_most: int | None) -> list[Issued]:
        """Open tickets of ended runs: the lease has expired, or the process on this machine has ended."""
        moment, seconds = time.time(), self.plan.lease_seconds
        return self.campaign.adopt(
            self.name, seconds, lambda ticket: self._abandoned(ticket, moment), at_most
        )

    def _abandoned(self, ticket: Ticket, moment: float) -> bool:
        """Whether the holder of the ticket has ended.

        A ticket under the name of this process that this run does not wait for belongs to an earlier run.
        """
        if ticket.ticket in self._waiting:
            return False
        overdue = ticket.lease_until is not None and ticket.lease_until < moment
        return overdue or ticket.worker == self.name or is_gone(ticket.worker)

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

    def _record_next(self) -> None:
        """Wait for a trial to end, and record every trial that has."""
        self._news.wait(max(0.0, self._renew_at - time.monotonic()))
        with deferred_interrupts():
            self._waiting -= self._tell_finished()
        if self._failures_in_a_row >= MAX_CONSECUTIVE_FAILURES:
            raise TrialsFailingError(
                f"the last {self._failures_in_a_row} trials failed; the latest: {self.tally.notes[-1]}"
            )
        if self.tally.stopped_because:
            self.campaign.give_up(self._waiting, self.name)
        elif time.monotonic() >= self._renew_at:
            self.campaign.renew(sorted(self._waiting), self.name, self.plan.lease_seconds)
            self._renew_at = time.monotonic() + self.plan.lease_seconds / 3

    def _tell_finished(self) -> set[int]:
        """Record all finished trials, to a file if need be; returns the tickets with a result."""
        self._news.clear()
        done = [self._done.popleft() for _ in range(len(self._done))]
        self._tell(done)
        return {job.ticket for job, value in done if value is not None}

    def _tell(self, done: Sequence[_Finished]) -> None:
        outcomes = [_reported(job, value) for job, value in done if value is not None]
        if not outcomes:
            return
        try:
            self.campaign.tell(outcomes)
        except (DatabaseError, UnreachableServiceError) as problem:
            raise type(problem)(f"{problem}; {self._save_unrecorded(outcomes)}") from problem
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
        tally, sign = self.tally, self._sign
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
            self._waiting -= self._tell_finished()
        if self._waiting:
            self.campaign.leave(self._waiting, self.name)


def _reported(job: Issued, value: float | str) -> ReportedResult:
    where, check = f"ticket {job.ticket}", job.code.partition("-")[2] or None
    if isinstance(value, str):
        note = one_line(value)[:LONGEST_NOTE]
        return ReportedResult(where, job.ticket, None, None, note=note, check=check)
    return ReportedResult(where, job.ticket, None, value, check=check)

"""Take part in a run until it is over: exchange packets, measure open trials, tell their values.

Trials are measured in threads, so the agent keeps in touch with the hub while a trial takes hours. A server
that cannot be reached is tried again, at longer and longer intervals. After an interrupt or a crash, the same
call continues: an unfinished trial is measured again, under the same step, and a finished one never is.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from manyarms.agents import Pulls
from manyarms.errors import ReplayedPacketError, TrialsFailingError, UnreachableError
from manyarms.federation.member import Member

Exchange = Callable[[bytes], bytes]  # sends a packet and returns the answer


@dataclass(frozen=True)
class OneTrial:
    """A trial to measure: the agent's step, the arm of the pool (None in a box) and its features."""

    step: int
    arm: int | None
    features: NDArray[Any]


class Measurer(Protocol):
    """A way to measure; each worker thread has its own."""

    def measure(self, trial: OneTrial) -> float:
        """The value of a trial; an exception is a failed attempt."""

    def close(self) -> None:
        """Stop a running trial."""


@dataclass(frozen=True)
class WorkPlan:
    """How to take part. Intervals are in seconds."""

    retries: int = 1  # further attempts of a failed trial
    shortest_poll: float = 0.2
    longest_poll: float = 30.0


@dataclass(frozen=True)
class Progress:
    """What has happened so far, for people."""

    told: int
    open: int
    text: str = ""


def work(
    member: Member,
    exchange: Exchange | None,
    measurers: list[Measurer],
    plan: WorkPlan | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> None:
    """Take part until the run is over. Without `exchange` another process carries the packets."""
    worker = _Work(member, exchange, measurers, plan or WorkPlan(), on_progress)
    try:
        worker.loop()
    finally:
        worker.stop()


def once(member: Member, exchange: Exchange) -> None:
    """Exchange packets until there is nothing more to send now; for an agent that measures by hand."""
    while True:
        before = member.version
        member.incoming(exchange(member.outgoing()))
        if member.version == before:
            return


class _Work:
    def __init__(
        self,
        member: Member,
        exchange: Exchange | None,
        measurers: list[Measurer],
        plan: WorkPlan,
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        self.member, self.exchange, self.plan, self.on_progress = member, exchange, plan, on_progress
        self._measurers = measurers
        self._jobs: queue.SimpleQueue[OneTrial | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[OneTrial, float | Exception]] = queue.SimpleQueue()
        self._news = threading.Event()
        self._given: dict[int, int] = {}  # attempts by step, of trials that were given to a thread
        self._threads = [threading.Thread(target=self._run, args=(each,), daemon=True) for each in measurers]
        for thread in self._threads:
            thread.start()

    def loop(self) -> None:
        poll, text = self.plan.shortest_poll, ""
        while not self.member.over:
            before = self.member.version
            try:
                if self.exchange is not None:
                    self.member.incoming(self.exchange(self.member.outgoing()))
                text = ""
            except (UnreachableError, ReplayedPacketError) as problem:
                text = str(problem)
            self._collect()
            self._hand_out()
            self._report(text)
            poll = self.plan.shortest_poll if self.member.version != before else poll * 2
            poll = min(poll, self.plan.longest_poll)
            if not self.member.over:
                self._news.wait(poll)
                self._news.clear()
                self._collect()

    def _hand_out(self) -> None:
        pulls = self.member.open_trials()
        for trial in [] if pulls is None else single_trials(pulls):
            if trial.step not in self._given:
                self._given[trial.step] = 1
                self._jobs.put(trial)

    def _collect(self) -> None:
        """Tell the values that have arrived; a failed trial is repeated, and in the end an error."""
        while not self._done.empty():
            trial, result = self._done.get()
            if not isinstance(result, Exception):
                self.member.tell({trial.step: result})
            elif self._given[trial.step] > self.plan.retries:
                raise TrialsFailingError(
                    f"the trial of step {trial.step} (candidate {trial.arm}) failed "
                    f"{self._given[trial.step]} times, the last time with: {result}"
                )
            else:
                self._given[trial.step] += 1
                self._jobs.put(trial)

    def _report(self, text: str) -> None:
        if self.on_progress is not None:
            rows = self.member.file.trials()
            told = sum(row.value is not None for row in rows)
            self.on_progress(Progress(told, sum(row.value is None and row.used for row in rows), text))

    def _run(self, measurer: Measurer) -> None:
        while (trial := self._jobs.get()) is not None:
            try:
                result: float | Exception = measurer.measure(trial)
            except Exception as problem:  # raised again in the main thread when it has failed too often
                result = problem
            self._done.put((trial, result))
            self._news.set()

    def stop(self) -> None:
        for measurer in self._measurers:
            measurer.close()
        for _ in self._threads:
            self._jobs.put(None)


def single_trials(pulls: Pulls) -> list[OneTrial]:
    """The trials of a batch, one by one."""
    arms = [None] * len(pulls) if pulls.arms is None else pulls.arms.tolist()
    return [
        OneTrial(step, arm, features)
        for step, arm, features in zip(pulls.steps.tolist(), arms, pulls.features, strict=True)
    ]

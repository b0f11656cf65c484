"""The one thread that uses the model of a campaign, and the asks that wait for it.

A model is used by one thread at a time. While it computes, further asks gather; those for an exact number of
candidates are then answered by one batch, so eight workers cost little more than one. If the merged batch is
refused (the budget or the candidates do not suffice for all), each ask gets its own answer.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.orders import Issued, RepeatedAskError, Share
from manyarms.errors import BudgetSpentError, NothingToAskError, RepeatedKeyError, ServiceBusyError

T = TypeVar("T")
_CLOSE_SECONDS = 10.0
MOST_AT_ONCE = 1_000  # candidates of a merged batch


@dataclass(frozen=True)
class AskRequest:
    """One ask as a requester made it."""

    share: Share  # with its key and digest; a size means exactly so many
    at_most: int | None = None
    until_gap: float | None = None
    condition: str | None = None  # on the columns
    ids: tuple[str, ...] | None = None
    same: str | None = None  # a column
    at_most_each: tuple[tuple[str, int], ...] = ()  # columns and limits
    until_gain: float | None = None
    max_cost: float | None = None  # of this requester's candidates
    per_cost: bool | None = None

    @property
    def kind(self) -> tuple[Any, ...] | None:
        """What asks must have in common to be merged; None: this one is answered alone."""
        alone = self.same is not None or self.at_most_each or self.max_cost is not None
        if self.share.size is None or alone:
            return None
        return self.until_gap, self.until_gain, self.condition, self.ids, self.per_cost


@dataclass
class _Job:
    """A call with the model, or an ask."""

    call: Callable[[Campaign], Any] | None
    ask: AskRequest | None
    done: Future[Any] = field(default_factory=Future)


class ModelThread:
    """Runs calls and asks one at a time, in the order in which they came."""

    def __init__(self, open_campaign: Callable[[], Campaign], on_change: Callable[[], None]) -> None:
        self._open, self._on_change = open_campaign, on_change
        self._campaign: Campaign | None = None
        self._jobs: deque[_Job] = deque()
        self._news, self._closing = threading.Condition(), False
        self._thread = threading.Thread(target=self._loop, name="manyarms model", daemon=True)
        self._thread.start()

    def ask(self, request: AskRequest) -> Future[list[Issued]]:
        """Ask, together with others that wait."""
        return self._add(_Job(None, request))

    def call(self, function: Callable[[Campaign], T]) -> Future[T]:
        """Call a function with the campaign that holds the model."""
        return self._add(_Job(function, None))

    def _add(self, job: _Job) -> Future[Any]:
        with self._news:
            if self._closing:
                raise ServiceBusyError("the service is stopping: repeat the request later")
            self._jobs.append(job)
            self._news.notify()
        return job.done

    @property
    def waiting(self) -> int:
        """How many jobs have not begun."""
        return len(self._jobs)

    def close(self) -> None:
        """Finish the present job, refuse the others, and close the campaign."""
        with self._news:
            self._closing = True
            refused, self._jobs = self._jobs, deque()
            self._news.notify()
        for job in refused:
            _fail(job, ServiceBusyError("the service is stopping: repeat the request later"))
        self._thread.join(_CLOSE_SECONDS)  # a longer job ends with the process, and changes nothing

    # ------------------------------------------------------------------ in the thread

    def _loop(self) -> None:
        while (jobs := self._next()) is not None:
            if not jobs:
                continue
            try:
                campaign = self._opened()
            except BaseException as problem:
                for job in jobs:
                    _fail(job, problem)
                continue
            if jobs[0].ask is None:
                _run(jobs[0], campaign)
            else:
                self._answer(campaign, jobs)
        if self._campaign is not None:
            self._campaign.close()

    def _opened(self) -> Campaign:
        if self._campaign is None:
            self._campaign = self._open()
        return self._campaign

    def _next(self) -> list[_Job] | None:
        """The next call, or the next ask with all that can be merged with it; None at the end."""
        with self._news:
            self._news.wait_for(lambda: self._jobs or self._closing)
            if not self._jobs:
                return None
            first = self._jobs.popleft()
            if not first.done.set_running_or_notify_cancel():  # its requester has gone
                return []
            if first.ask is None or first.ask.kind is None:
                return [first]
            merged, total = [first], first.ask.share.size or 0
            for job in list(self._jobs):
                size = (job.ask.share.size or 0) if job.ask is not None else 0
                same = job.ask is not None and job.ask.kind == first.ask.kind
                if same and total + size <= MOST_AT_ONCE:
                    self._jobs.remove(job)
                    if job.done.set_running_or_notify_cancel():
                        merged.append(job)
                        total += size
            return merged

    def _answer(self, campaign: Campaign, jobs: list[_Job]) -> None:
        """Answer asks that were made before, then the others by one batch, or one by one if it is refused."""
        fresh = [job for job in jobs if not _was_asked(job, campaign)]
        keys = [job.ask.share.key for job in fresh if job.ask is not None]
        if len(keys) > 1 and len(set(keys)) == len(keys):
            try:
                self._ask(campaign, fresh)
                return
            except (BudgetSpentError, NothingToAskError, RepeatedAskError):
                pass
            except BaseException as problem:
                for job in fresh:
                    _fail(job, problem)
                return
        for job in fresh:
            self._ask_alone(campaign, job)

    def _ask_alone(self, campaign: Campaign, job: _Job) -> None:
        try:
            while not _was_asked(job, campaign):
                try:
                    self._ask(campaign, [job])
                    return
                except RepeatedAskError:  # another server has answered the same key
                    continue
        except BaseException as problem:
            _fail(job, problem)

    def _ask(self, campaign: Campaign, jobs: list[_Job]) -> None:
        asks = [job.ask for job in jobs if job.ask is not None]
        first = asks[0]
        ids = None if first.ids is None else dict.fromkeys(first.ids, "ids: ")
        parts = campaign.ask_together(
            [ask.share for ask in asks],
            at_most=first.at_most,
            until_gap=first.until_gap,
            until_gain=first.until_gain,
            eligible=campaign.eligible(first.condition, ids),
            structure=campaign.structure(first.same, first.at_most_each),
            max_cost=first.max_cost,
            per_cost=first.per_cost,
        )
        for job, part in zip(jobs, parts, strict=True):
            job.done.set_result(part)
        self._on_change()


def _was_asked(job: _Job, campaign: Campaign) -> bool:
    """Whether the key of the ask is known; then it is answered with the tickets of that time."""
    assert job.ask is not None
    share = job.ask.share
    try:
        found = None if share.key is None else campaign.asked(share.key)
    except BaseException as problem:
        _fail(job, problem)
        return True
    if found is None:
        return False
    digest, issued = found
    if digest == share.digest:
        job.done.set_result(issued)
    else:
        _fail(job, RepeatedKeyError("this Idempotency-Key was used before for another request"))
    return True


def _run(job: _Job, campaign: Campaign) -> None:
    assert job.call is not None
    try:
        found = job.call(campaign)
    except BaseException as problem:
        _fail(job, problem)
    else:
        job.done.set_result(found)


def _fail(job: _Job, problem: BaseException) -> None:
    if not job.done.done():  # its requester may have gone, or it has its answer already
        job.done.set_exception(problem)

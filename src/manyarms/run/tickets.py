"""Tickets, one for each pull that was handed out, and their state: pending, answered, failed or forgotten."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from manyarms.errors import AlreadyToldError, UnknownTicketError
from manyarms.support.frozen import changed
from manyarms.support.validation import Ints


@dataclass(frozen=True)
class Tickets:
    """All tickets of a run, numbered from 0. A ticket that is neither pending nor forgotten has a result.

    The mappings are never modified: every method returns a new object.
    """

    next_ticket: int = 0
    pending: Mapping[int, int] = field(default_factory=dict)  # ticket → arm
    forgotten: frozenset[int] = frozenset()  # tickets cancelled with `forget`
    failures: Mapping[int, int] = field(default_factory=dict)  # arm → number of failed pulls

    def issued(self, arms: Iterable[int]) -> tuple[Tickets, list[int]]:
        """The tickets with a new one for each of these arms, and the numbers of the new ones."""
        new = dict(enumerate(arms, start=self.next_ticket))
        later = changed(self, next_ticket=self.next_ticket + len(new), pending={**self.pending, **new})
        return later, list(new)

    def check(self, tickets: Sequence[int]) -> None:
        """Raise an error unless every ticket is pending and appears once."""
        seen: set[int] = set()
        for ticket in tickets:
            if ticket in self.forgotten:
                raise AlreadyToldError(
                    f"ticket {ticket} was cancelled with forget(); "
                    "record its result with tell(arms=[arm], rewards=[reward])"
                )
            if not 0 <= ticket < self.next_ticket:
                raise UnknownTicketError(f"ticket {ticket} was never handed out")
            if ticket not in self.pending:
                raise AlreadyToldError(f"ticket {ticket} already has a result")
            if ticket in seen:
                raise AlreadyToldError(f"ticket {ticket} appears twice")
            seen.add(ticket)

    def settled(self, tickets: Iterable[int]) -> Tickets:
        """The tickets with these pending ones answered."""
        pending = dict(self.pending)
        for ticket in tickets:
            del pending[ticket]
        return changed(self, pending=pending)

    def given_up(self, tickets: Sequence[int]) -> Tickets:
        """The tickets as if these had never been handed out."""
        self.check(tickets)
        return replace(self.settled(tickets), forgotten=self.forgotten | set(tickets))

    def with_failures(self, arms: Iterable[int]) -> Tickets:
        """The tickets with one more failed pull for each of these arms."""
        return replace(self, failures=dict(Counter(self.failures) + Counter(arms)))

    @property
    def spent(self) -> int:
        """The number of pulls that count against the budget: handed out and not forgotten."""
        return self.next_ticket - len(self.forgotten)

    def pending_counts(self) -> dict[int, int]:
        """The number of pending pulls of each arm that has any."""
        return Counter(self.pending.values()) if self.pending else {}

    def relabelled(self, label: Callable[[Ints], Ints]) -> Tickets:
        """The same tickets with arm indices mapped by `label`."""
        return replace(
            self,
            pending=dict(zip(self.pending, relabelled(self.pending.values(), label), strict=True)),
            failures=dict(zip(relabelled(self.failures, label), self.failures.values(), strict=True)),
        )

    @property
    def arms(self) -> list[int]:
        """Every arm with a pending or failed pull."""
        return [*self.pending.values(), *self.failures]

    def to_plain(self) -> dict[str, Any]:
        """The tickets as numbers and lists."""
        return {
            "next_ticket": self.next_ticket,
            "pending": list(self.pending.items()),
            "forgotten": sorted(self.forgotten),
            "failures": list(self.failures.items()),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Tickets:
        """The tickets that `to_plain` wrote."""
        return cls(
            plain["next_ticket"],
            dict(plain["pending"]),
            frozenset(plain["forgotten"]),
            dict(plain["failures"]),
        )


def relabelled(arms: Iterable[int], label: Callable[[Ints], Ints]) -> list[int]:
    """These arm indices mapped by `label`."""
    return [int(arm) for arm in label(np.fromiter(arms, dtype=np.int64))]


def as_tickets(tickets: Any) -> list[int]:
    """One ticket, several tickets or a whole batch, as a list of ints."""
    named = getattr(tickets, "tickets", tickets)
    if isinstance(named, np.ndarray):
        named = named.tolist()
    listed = list(named) if isinstance(named, Iterable) and not isinstance(named, str) else [named]
    for ticket in listed:
        if isinstance(ticket, bool) or not hasattr(ticket, "__index__"):
            raise UnknownTicketError(f"{ticket!r} is not a ticket; tickets are whole numbers")
    return [operator.index(ticket) for ticket in listed]

"""Who owes a result: tickets handed out, told, failed and given up."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from manyarms.errors import AlreadyToldError, UnknownTicketError


class Ledger:
    """Tickets are counted up from 0; one that is neither pending nor forgotten has been told."""

    def __init__(self) -> None:
        self.next_ticket = 0
        self.pending: dict[int, int] = {}  # ticket -> arm
        self.forgotten: set[int] = set()
        self.failures: Counter[int] = Counter()  # failed pulls by arm

    def issue(self, arms: Iterable[int]) -> list[int]:
        """One new ticket per arm."""
        tickets = []
        for arm in arms:
            self.pending[self.next_ticket] = arm
            tickets.append(self.next_ticket)
            self.next_ticket += 1
        return tickets

    def check(self, tickets: list[int]) -> None:
        """Raise unless every ticket is pending and named once."""
        seen: set[int] = set()
        for ticket in tickets:
            if ticket in self.forgotten:
                raise AlreadyToldError(
                    f"ticket {ticket} was given up with forget(); tell its result with arms=…, rewards=…"
                )
            if not 0 <= ticket < self.next_ticket:
                raise UnknownTicketError(f"ticket {ticket} was never handed out")
            if ticket not in self.pending:
                raise AlreadyToldError(f"ticket {ticket} was told already")
            if ticket in seen:
                raise AlreadyToldError(f"ticket {ticket} is named twice")
            seen.add(ticket)

    def settle(self, ticket: int) -> int:
        """Take a pending ticket off the list; its arm."""
        return self.pending.pop(ticket)

    def forget(self, tickets: list[int]) -> None:
        """Give tickets up, as if they had never been handed out."""
        self.check(tickets)
        for ticket in tickets:
            self.settle(ticket)
            self.forgotten.add(ticket)

    @property
    def spent(self) -> int:
        """Pulls that count against a budget: all handed out but not given up."""
        return self.next_ticket - len(self.forgotten)

    def pending_counts(self) -> Counter[int]:
        """Pulls still out, by arm."""
        return Counter(self.pending.values())


def as_tickets(tickets: Any) -> list[int]:
    """One ticket, several, or a whole batch, as a list of ints."""
    named = getattr(tickets, "tickets", tickets)
    if isinstance(named, np.ndarray):
        named = named.tolist()
    listed = list(named) if isinstance(named, Iterable) and not isinstance(named, str) else [named]
    for ticket in listed:
        if isinstance(ticket, bool) or not hasattr(ticket, "__index__"):
            raise UnknownTicketError(f"{ticket!r} is not a ticket; tickets are whole numbers")
    return [operator.index(ticket) for ticket in listed]

"""The tickets of a contextual bandit: pending picks, and results that were told but are not used yet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from manyarms.errors import AlreadyToldError, UnknownTicketError


@dataclass(frozen=True, eq=False)
class Told:
    """A result to be used at the next renewal. `order` sorts results by ticket, unasked ones last."""

    order: tuple[int, int]
    row: Any  # an array with this row alone
    round: int  # in which the row was picked
    reward: float
    noise_std: float  # of this result; NaN for the policy's


@dataclass
class Ledger:
    """Picks without a result, and results without effect yet. Answered tickets leave no trace."""

    next_ticket: int = 0
    n_unasked: int = 0
    pending: dict[int, tuple[Any, int]] = field(default_factory=dict)  # ticket → row, round
    waiting: list[Told] = field(default_factory=list)

    def issue(self, row: Any, round: int) -> int:
        """A ticket for the pick of this row."""
        ticket = self.next_ticket
        self.pending[ticket] = row, round
        self.next_ticket += 1
        return ticket

    def check(self, tickets: Sequence[int]) -> None:
        """Raise an error unless every ticket is pending and appears once."""
        seen: set[int] = set()
        for ticket in tickets:
            if not 0 <= ticket < self.next_ticket:
                raise UnknownTicketError(f"ticket {ticket} was never handed out")
            if ticket not in self.pending:
                raise AlreadyToldError(f"ticket {ticket} already has a result, was forgotten or has expired")
            if ticket in seen:
                raise AlreadyToldError(f"ticket {ticket} appears twice")
            seen.add(ticket)

    def answer(self, tickets: Sequence[int], rewards: Sequence[float], noise: Sequence[float]) -> None:
        """Record the results of pending tickets."""
        for ticket, reward, std in zip(tickets, rewards, noise, strict=True):
            row, round = self.pending.pop(ticket)
            self.waiting.append(Told((0, ticket), row, round, reward, std))

    def add(self, rows: Any, round: int, rewards: Sequence[float], noise: Sequence[float]) -> None:
        """Record results that were not asked for."""
        for i, (reward, std) in enumerate(zip(rewards, noise, strict=True)):
            self.waiting.append(Told((1, self.n_unasked), rows[i : i + 1], round, reward, std))
            self.n_unasked += 1

    def expired(self, round: int, after: int | None) -> list[int]:
        """Pending tickets handed out more than `after` rounds ago; tickets are in the order of rounds."""
        old: list[int] = []
        for ticket, (_, asked) in self.pending.items():
            if asked + (math.inf if after is None else after) >= round:
                break
            old.append(ticket)
        return old

    def open_rows(self, waiting: bool, without: Sequence[int] = ()) -> list[Any]:
        """The rows of pending tickets, and of results still to be used if asked for, the oldest first.

        `without` are pending tickets to leave out.
        """
        left_out = set(without)
        rows = [(ticket, row) for ticket, (row, _) in self.pending.items() if ticket not in left_out]
        if waiting:
            rows += [(told.order[1], told.row) for told in self.waiting if told.order[0] == 0]
            rows.sort(key=lambda entry: entry[0])
        return [row for _, row in rows]

"""Random acts of a laboratory, as plain data, and what one of them does to a campaign.

The acts depend on the seed and on what was handed out alone, so two campaigns that hand out the same tickets
see the same acts. An act can be sent to another process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manyarms.campaigns.access import CampaignAccess
from manyarms.campaigns.local import LocalCampaign
from manyarms.campaigns.results_file import ReportedResult

KINDS = ["ask", "ask", "tell", "tell", "late", "fail", "forget", "correct"]
Codes = dict[int, str]


@dataclass(frozen=True)
class Act:
    """What is done: its kind, the size of a batch, tickets, and their values; None: the trial has failed."""

    kind: str
    size: int = 0
    tickets: tuple[int, ...] = ()
    values: tuple[float | None, ...] = ()


class Laboratory:
    """Chooses the next act from what is known of the campaign."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.open: list[int] = []
        self.forgotten: list[int] = []
        self.told: list[int] = []

    def next(self) -> Act:
        """The next act."""
        kind, rng = str(self.rng.choice(KINDS)), self.rng
        if kind == "late" and self.forgotten:
            return self._results(kind, self.forgotten, 1)
        if kind == "correct" and self.told:
            one = self.told[int(rng.integers(len(self.told)))]
            return Act(kind, 0, (one,), (float(rng.normal()),))
        if kind == "ask" or not self.open:
            return Act("ask", int(rng.integers(1, 13)))
        if kind == "forget":
            act = Act(kind, 0, tuple(self._taken(self.open, int(rng.integers(1, 3)))))
            self.forgotten += act.tickets
            return act
        if kind == "fail":
            return Act(kind, 0, tuple(self._taken(self.open, 1)), (None,))
        return self._results("tell", self.open, int(rng.integers(1, len(self.open) + 1)))

    def _results(self, kind: str, among: list[int], n: int) -> Act:
        tickets = self._taken(among, n)
        self.told += tickets
        return Act(kind, 0, tuple(tickets), tuple(self.rng.normal(size=len(tickets)).tolist()))

    def _taken(self, among: list[int], n: int) -> list[int]:
        places = sorted(self.rng.choice(len(among), size=min(n, len(among)), replace=False).tolist())
        return [among.pop(place) for place in reversed(places)]


def perform(campaign: CampaignAccess, act: Act, codes: Codes) -> tuple[Codes, list[Any]]:
    """Do it; the codes of new tickets, and what there is to compare to the last bit."""
    if act.kind == "ask":
        issued = campaign.ask(act.size)
        found = [
            (i.ticket, i.batch, i.arm, i.id, i.reason, i.predicted, i.predicted_std, i.lower, i.upper)
            for i in issued
        ]
        return {each.ticket: each.code for each in issued}, found
    if act.kind == "forget":
        return {}, campaign.forget([codes[ticket] for ticket in act.tickets])
    if act.kind == "correct":
        (ticket,), (value,) = act.tickets, act.values
        check = codes[ticket].partition("-")[2]
        changes = campaign.correct([ReportedResult("here", ticket, None, value, check=check)])
        return {}, [(each.result.value, each.value) for each in changes]
    lines = [
        f"{codes[ticket]},{'' if value is None else repr(value)},{int(value is None)}"
        for ticket, value in zip(act.tickets, act.values, strict=True)
    ]
    text = "\n".join(["ticket,value,failed", *lines, ""])
    return {}, [campaign.tell_bytes(text.encode(), "results.csv")]


def perform_cold(where: str, act: Act, codes: Codes) -> tuple[Codes, list[Any]]:
    """The same in a process that has not seen the campaign before."""
    campaign = LocalCampaign(where)
    try:
        return perform(campaign, act, codes)
    finally:
        campaign.close()


def model_of(campaign: CampaignAccess) -> list[Any]:
    """The predictions of the model for the best candidates, measured or not."""
    return [(each.id, each.mean, each.std, each.pulls) for each in campaign.best(10, everywhere=True)]


def model_cold(where: str) -> list[Any]:
    """The same in a process that has not seen the campaign before."""
    campaign = LocalCampaign(where)
    try:
        return model_of(campaign)
    finally:
        campaign.close()

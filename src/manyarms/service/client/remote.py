"""A campaign of a service, as commands and programs use it."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any

from manyarms.campaigns.access import Eligible, TableForm
from manyarms.campaigns.file_versions import Mode
from manyarms.campaigns.import_plan import ImportSummary
from manyarms.campaigns.orders import Deliver, Issued
from manyarms.campaigns.queries import CorrectionRow, HistoryRow
from manyarms.campaigns.report.values import TopRow
from manyarms.campaigns.results_file import ReportedResult
from manyarms.campaigns.store.corrections import Change, RecordedResult
from manyarms.errors import (
    AlreadyToldError,
    InvalidParameterError,
    LeaseError,
    ManyarmsError,
    UnknownOperationError,
)
from manyarms.service.client.http import Connection
from manyarms.service.client.tables import upload

_EXPLAINED_TOGETHER = 50  # candidates of one request
_WAIT = 20.0  # seconds for which the service holds a request for the result of a long ask


class RemoteCampaign:
    """`CampaignAccess` over HTTP."""

    def __init__(self, connection: Connection) -> None:
        self.http = connection

    @property
    def name(self) -> str:
        """The name of the campaign."""
        return self.http.name

    @cached_property
    def form(self) -> TableForm:
        """The columns of the table, and how results are judged."""
        found = self.http.get("form")
        return TableForm(**{**found, "columns": tuple(found["columns"]), "numeric": tuple(found["numeric"])})

    @property
    def never_overwritten(self) -> tuple[Path, ...]:
        """None: the table of candidates is on the machine of the service."""
        return ()

    def close(self) -> None:
        """Close the connections."""
        self.http.close()

    # ------------------------------------------------------------------ asking and telling

    def ask(
        self,
        n: int | None = None,
        *,
        at_most: int | None = None,
        worker: str | None = None,
        lease_seconds: float | None = None,
        until_gap: float | None = None,
        deliver: Deliver | None = None,
        eligible: Eligible | None = None,
        until_gain: float | None = None,
        explain: bool = False,
    ) -> list[Issued]:
        """Hand out the next batch. If `deliver` fails with it, its tickets are forgotten."""
        limit = eligible or Eligible()
        body = {
            "n": n, "at_most": at_most, "worker": worker, "lease": lease_seconds, "until_gap": until_gap,
            "eligible": limit.condition, "ids": None if limit.ids is None else list(limit.ids),
            "same": limit.same, "at_most_each": dict(limit.at_most) or None, "until_gain": until_gain,
            "max_cost": limit.max_cost, "per_cost": limit.per_cost,
        }  # fmt: skip
        issued = self._asked({name: value for name, value in body.items() if value is not None})
        try:
            if explain:
                issued = self._explained(issued)
            if deliver is not None:
                deliver(issued)
        except BaseException:
            with contextlib.suppress(ManyarmsError):
                self.forget([each.code for each in issued])
            raise
        return issued

    def _explained(self, issued: list[Issued]) -> list[Issued]:
        """The tickets with an explanation of each candidate."""
        ids = list(dict.fromkeys(each.id for each in issued))
        why = dict(zip(ids, self.explain(ids), strict=True))
        return [replace(each, explanation=why[each.id]) for each in issued]

    def _asked(self, body: dict[str, Any]) -> list[Issued]:
        """The tickets of one ask, which the key identifies however often the request is repeated."""
        key = {"Idempotency-Key": secrets.token_hex(16)}
        while True:
            answer = self.http.send("POST", self.http.path("asks"), repeat=True, json=body, headers=key)
            try:
                while answer.status_code == 202:
                    where = self.http.path("operations", answer.json()["operation"])
                    answer = self.http.send("GET", where, repeat=True, params={"wait": _WAIT})
            except UnknownOperationError:  # the service was restarted before the ask had finished
                continue
            return [_issued(each) for each in answer.json()["tickets"]]

    def open_tickets(self) -> list[Issued]:
        """All open tickets, as they were handed out."""
        return [_issued(each) for each in self.http.get("tickets")["tickets"]]

    def tell(self, outcomes: Sequence[ReportedResult]) -> ImportSummary:
        """Record results of tickets that workers have measured, one request each, which can be repeated.

        A ticket that has another result already keeps it: two workers have measured it.
        """
        total = ImportSummary()
        for each in outcomes:
            body = {"value": each.value, "failed": each.value is None, "note": each.note, **_noise(each)}
            where = self.http.path("tickets", _code(each) or "", "result")
            try:
                answer = self.http.send("PUT", where, repeat=True, json=body)
            except AlreadyToldError:
                total = _sum(total, ImportSummary(known=1))
            else:
                total = _sum(total, ImportSummary(**answer.json()))
        return total

    def tell_rows(self, rows: Sequence[ReportedResult]) -> ImportSummary:
        """Record results atomically, by ticket or by id; a row without a value is skipped."""
        body = {"rows": [{**_named(each), **_valued(each)} for each in rows]}
        by_ticket = all(each.ticket is not None for each in rows)
        return ImportSummary(**self.http.post("results", body=body, repeat=by_ticket))

    def tell_bytes(self, data: bytes, name: str, mode: Mode = Mode.ASK) -> ImportSummary:
        """Import the contents of a results file called `name`."""
        request = {
            "content": data, "params": {"name": PurePath(name).name, "mode": mode.value},
            "headers": {"Content-Type": "application/octet-stream"},
        }  # fmt: skip
        where = self.http.path("results", "file")
        return ImportSummary(
            **self.http.send("POST", where, repeat=mode is not Mode.AS_NEW, **request).json()
        )

    def correct(
        self,
        rows: Sequence[ReportedResult],
        was: Sequence[float | str | None] | None = None,
        *,
        why: str | None = None,
        who: str | None = None,
        remove: bool = False,
    ) -> list[Change]:
        """Correct the results that these rows name, all or none, or with `remove`, remove them."""
        if who is not None:
            raise InvalidParameterError("who", who, "left out: the service records the name of the token")
        before = [None] * len(rows) if was is None else was
        named = [
            {**_named(row), "was": present, **({} if remove else _valued(row))}
            for row, present in zip(rows, before, strict=True)
        ]
        answer = self.http.post("corrections", body={"rows": named, "why": why, "remove": remove})
        return [_change(each) for each in answer["changes"]]

    def forget(
        self, tickets: Sequence[str] = (), batch: int | None = None, all_open: bool = False
    ) -> list[int]:
        """Cancel open tickets; returns their numbers."""
        if not tickets and batch is None and not all_open:
            return []
        body = {"tickets": [str(each) for each in tickets], "batch": batch, "all_open": all_open}
        return list(self.http.post("tickets", "forget", body=body)["forgotten"])

    # ------------------------------------------------------------------ candidates

    def add(self, path: Path, **form: str | None) -> tuple[int, int]:
        """Upload a further table and add its candidates; returns how many, and how many there are now."""
        found = upload(self.http, "POST", self.http.path("candidates"), path, form)
        return int(found["added"]), int(found["candidates"])

    def exclude(self, ids: Sequence[str], note: str | None = None) -> tuple[int, list[str]]:
        """Never ask for these candidates again; returns how many are new, and all that are excluded."""
        answer = self.http.post("exclusions", body={"ids": list(ids), "note": note})
        return answer["changed"], answer["excluded"]

    def readmit(self, ids: Sequence[str]) -> tuple[int, list[str]]:
        """Undo the exclusion of these candidates; returns how many, and all that are still excluded."""
        answer = self.http.post("readmissions", body={"ids": list(ids)})
        return answer["changed"], answer["excluded"]

    # ------------------------------------------------------------------ looking

    def status(self, certify: bool = False) -> dict[str, Any]:
        """Settings, counts, the learned model, the certificate and the assumptions."""
        return dict(self.http.get("status", certify=certify or None))

    def best(self, k: int = 20, everywhere: bool = False) -> list[TopRow]:
        """The candidates with the best model mean."""
        rows = self.http.get("best", k=k, everywhere=everywhere)["best"]
        unmeasured = float("nan")
        return [
            TopRow(**{**row, "average": unmeasured if row["average"] is None else row["average"]})
            for row in rows
        ]

    def explain(self, ids: Sequence[str]) -> list[dict[str, Any]]:
        """Why these candidates: predictions, nearest measured candidates, and what columns contribute."""
        found: list[dict[str, Any]] = []
        for start in range(0, len(ids), _EXPLAINED_TOGETHER):
            part = list(ids[start : start + _EXPLAINED_TOGETHER])
            found += self.http.get("explanations", id=part)["explanations"]
        return found

    def history(self) -> list[HistoryRow]:
        """Every recorded result, in the order of recording."""
        rows = self.http.get("history")["results"]
        return [HistoryRow(code=row.pop("ticket"), ticket=row.pop("number_of_ticket"), **row) for row in rows]

    def corrections(self) -> list[CorrectionRow]:
        """Every correction, in the order in which they were made."""
        return [CorrectionRow(**row) for row in self.http.get("history", last=1)["corrections"]]

    def report(self, k: int = 20, optimum: float | None = None) -> tuple[str, Any]:
        """The report as an HTML page; its contents stay with the service."""
        query = {"k": k} if optimum is None else {"k": k, "optimum": optimum}
        return self.http.send("GET", self.http.path("report"), repeat=True, params=query).text, None

    # ------------------------------------------------------------------ for workers

    def adopt(
        self, worker: str, seconds: float, is_abandoned: Callable[[Any], bool], at_most: int | None
    ) -> list[Issued]:
        """None: the service forgets tickets whose lease has expired, and hands their candidates out again."""
        return []

    def renew(self, tickets: Sequence[int], worker: str, seconds: float) -> None:
        """Extend the lease of these tickets; one that was forgotten meanwhile still accepts its result."""
        for ticket in tickets:
            with contextlib.suppress(AlreadyToldError, LeaseError):
                body = {"worker": worker, "lease": seconds}
                self.http.post("tickets", str(ticket), "renew", body=body, repeat=True)

    def give_up(self, tickets: Collection[int], worker: str) -> None:
        """Forget those of these tickets that are open and still held by this worker."""
        for ticket in tickets:
            with contextlib.suppress(AlreadyToldError, LeaseError):
                self.http.post("tickets", str(ticket), "release", body={"worker": worker}, repeat=True)

    def leave(self, tickets: Collection[int], worker: str) -> None:
        """Give the tickets back, so that other workers need not wait for the end of the lease."""
        with contextlib.suppress(ManyarmsError):
            self.give_up(tickets, worker)

    def budget_left(self) -> int | None:
        """The number of tickets that may still be handed out; None: no limit."""
        return None if self.form.budget is None else int(self.http.get("status")["budget_left"])


def _issued(ticket: dict[str, Any]) -> Issued:
    plain = dict(ticket)
    return Issued(code=plain.pop("ticket"), ticket=plain.pop("number"), **plain)


def _code(row: ReportedResult) -> str | None:
    if row.ticket is None:
        return None
    return f"{row.ticket}-{row.check}" if row.check else str(row.ticket)


def _named(row: ReportedResult) -> dict[str, Any]:
    """The ticket and the id of a row."""
    return {"ticket": _code(row), "id": row.name}


def _valued(row: ReportedResult) -> dict[str, Any]:
    return {"value": row.value, "failed": row.measured and row.value is None, **_noise(row)}


def _noise(row: ReportedResult) -> dict[str, Any]:
    return {name: given for name, given in row.noise.columns().items() if given is not None}


def _change(found: dict[str, Any]) -> Change:
    name, value = found["id"], found["old_value"]
    result = RecordedResult(0, found["ticket"], 0, name, value, None, None)  # where it is stored is not known
    return Change(result, found["new_value"], found["removed"])


def _sum(one: ImportSummary, other: ImportSummary) -> ImportSummary:
    return ImportSummary(**{name: getattr(one, name) + getattr(other, name) for name in vars(one)})

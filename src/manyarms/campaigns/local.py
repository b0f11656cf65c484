"""A campaign in a database of this machine or network, as commands and programs use it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from manyarms.campaigns import queries
from manyarms.campaigns.access import Eligible, TableForm
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.file_versions import Mode
from manyarms.campaigns.import_plan import ImportSummary
from manyarms.campaigns.orders import Deliver, Issued
from manyarms.campaigns.pool_file.fingerprints import ProgressCallback
from manyarms.campaigns.queries import CorrectionRow, HistoryRow
from manyarms.campaigns.report import render
from manyarms.campaigns.report.collect import collect_report
from manyarms.campaigns.report.values import TopRow
from manyarms.campaigns.results_file import ReportedResult
from manyarms.campaigns.status import status
from manyarms.campaigns.store.corrections import Change
from manyarms.campaigns.store.schema import OPEN, TICKETS


class LocalCampaign:
    """`CampaignAccess` on a database."""

    def __init__(
        self,
        campaign: str | Path | Campaign,
        *,
        pool: str | Path | None = None,
        progress: ProgressCallback | None = None,
        engine: str | None = None,
    ) -> None:
        """Open a campaign; the arguments are those of `Campaign`."""
        self.inner: Campaign = (
            campaign
            if isinstance(campaign, Campaign)
            else Campaign(campaign, pool=pool, progress=progress, engine=engine)
        )

    @property
    def name(self) -> str:
        """The name of the campaign."""
        return self.inner.store.where.name

    @property
    def form(self) -> TableForm:
        """The columns of the table, and how results are judged."""
        inner = self.inner
        with inner.store.reading() as connection:
            identity = inner.store.identity(connection)
        return TableForm(
            id=inner.settings.source.id,
            columns=tuple(inner.source.column_names()),
            numeric=tuple(inner.source.feature_columns()),
            identity=identity,
            sign=inner.settings.sign,
            budget=inner.settings.budget,
        )

    @property
    def never_overwritten(self) -> tuple[Path, ...]:
        """The tables of candidates; databases recognise themselves."""
        return self.inner.never_overwritten

    def close(self) -> None:
        """Close the database connection."""
        self.inner.close()

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
        """Hand out the next batch. `deliver` is called before it is committed."""
        return self.inner.ask(
            n,
            at_most=at_most,
            worker=worker,
            lease_seconds=lease_seconds,
            until_gap=until_gap,
            deliver=deliver,
            eligible=None if eligible is None else self.inner.eligible(eligible.condition, eligible.ids),
            structure=None if eligible is None else self.inner.structure(eligible.same, eligible.at_most),
            until_gain=until_gain,
            explain=explain,
            max_cost=None if eligible is None else eligible.max_cost,
            per_cost=None if eligible is None else eligible.per_cost,
        )

    def open_tickets(self) -> list[Issued]:
        """All open tickets, as they were handed out."""
        return self.inner.open_tickets()

    def tell(self, outcomes: Sequence[ReportedResult]) -> ImportSummary:
        """Record results of tickets that workers have measured."""
        return self.inner.tell(outcomes)

    def tell_rows(self, rows: Sequence[ReportedResult]) -> ImportSummary:
        """Record results atomically, by ticket or by id; a row without a value is skipped."""
        return self.inner.tell_rows(rows)

    def tell_bytes(self, data: bytes, name: str, mode: Mode = Mode.ASK) -> ImportSummary:
        """Import the contents of a results file called `name`."""
        return self.inner.tell_bytes(data, name, mode)

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
        return self.inner.correct(rows, was, why=why, who=who, remove=remove)

    def forget(
        self, tickets: Sequence[str] = (), batch: int | None = None, all_open: bool = False
    ) -> list[int]:
        """Cancel open tickets; returns their numbers."""
        chosen = self.inner.choose_open(self.inner.numbers_of(tickets), batch, all_open)
        self.inner.forget(chosen)
        return chosen

    # ------------------------------------------------------------------ candidates

    def add(self, path: Path, **form: str | None) -> tuple[int, int]:
        """Add the candidates of a further table; returns how many, and how many there are now."""
        added = self.inner.add(path, **form)
        return added, self.inner.source.n_arms

    def exclude(self, ids: Sequence[str], note: str | None = None) -> tuple[int, list[str]]:
        """Never ask for these candidates again; returns how many are new, and all that are excluded."""
        return self.inner.exclude(ids, note), self.inner.excluded()

    def readmit(self, ids: Sequence[str]) -> tuple[int, list[str]]:
        """Undo the exclusion of these candidates; returns how many, and all that are still excluded."""
        return self.inner.readmit(ids), self.inner.excluded()

    # ------------------------------------------------------------------ looking

    def status(self, certify: bool = False) -> dict[str, Any]:
        """Settings, counts, the learned model, the certificate and the assumptions."""
        return status(self.inner, **(queries.judged(self.inner) if certify else {}))

    def best(self, k: int = 20, everywhere: bool = False) -> list[TopRow]:
        """The candidates with the best model mean."""
        return queries.best(self.inner, k, everywhere)

    def explain(self, ids: Sequence[str]) -> list[dict[str, Any]]:
        """Why these candidates: predictions, nearest measured candidates, and what columns contribute."""
        return queries.explain(self.inner, ids)

    def history(self) -> list[HistoryRow]:
        """Every recorded result, in the order of recording."""
        return queries.history(self.inner)

    def corrections(self) -> list[CorrectionRow]:
        """Every correction, in the order in which they were made."""
        return queries.corrections(self.inner)

    def report(self, k: int = 20, optimum: float | None = None) -> tuple[str, Any]:
        """The report as an HTML page, and its contents."""
        page = collect_report(self.inner, k, optimum)
        return render(page), replace(page, model=None)

    # ------------------------------------------------------------------ for workers

    def adopt(
        self, worker: str, seconds: float, is_abandoned: Callable[[Any], bool], at_most: int | None
    ) -> list[Issued]:
        """Open tickets with a lease whose holder has ended, which this worker now holds."""
        store, leased = self.inner.store, (TICKETS.c.state == OPEN, TICKETS.c.lease_until.is_not(None))
        with store.reading() as connection:
            if not any(is_abandoned(each) for each in store.tickets(connection, *leased)):
                return []
        with store.writing() as connection:
            orphans = [each for each in store.tickets(connection, *leased) if is_abandoned(each)][:at_most]
            tickets = [each.ticket for each in orphans]
            store.lease(connection, tickets, worker, time.time() + seconds)
        return self.inner.reissued(orphans)

    def renew(self, tickets: Sequence[int], worker: str, seconds: float) -> None:
        """Extend the lease of these tickets."""
        with self.inner.store.writing() as connection:
            self.inner.store.lease(connection, tickets, worker, time.time() + seconds)

    def give_up(self, tickets: Collection[int], worker: str) -> None:
        """Forget those of these tickets that are open and still held by this worker."""
        self.inner.give_up(tickets, worker)

    def leave(self, tickets: Collection[int], worker: str) -> None:
        """The tickets stay leased to this process, and the next run on this machine adopts them."""

    def budget_left(self) -> int | None:
        """The number of tickets that may still be handed out; None: no limit."""
        return queries.budget_left(self.inner.settings.budget, queries.ticket_counts(self.inner))

"""A campaign as one object: everything that the command line does.

The database holds the whole state. `tell` and `forget` only write rows. `ask` computes without holding a
lock, so that results can be recorded in the meantime, and hands out its batch only if no other ask has
committed first. After a few lost races it computes inside the writer's transaction, where no other ask can
commit first. A process that is killed leaves the database as of its last commit, and the next ask is a pure
function of the database (`next_batch.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from sqlalchemy import Connection

from manyarms.campaigns.candidates import CampaignCandidates
from manyarms.campaigns.eligible import Mask
from manyarms.campaigns.engine_settings import EngineSettings, lost_scheduler
from manyarms.campaigns.explaining import explanations
from manyarms.campaigns.file_versions import Mode
from manyarms.campaigns.import_plan import ImportSummary, check_tickets
from manyarms.campaigns.next_batch import Proposal, propose
from manyarms.campaigns.orders import (
    COST_COLUMNS,
    Deliver,
    Issued,
    Order,
    RepeatedAskError,
    Share,
    dealt,
)
from manyarms.campaigns.pool_file.fingerprints import ProgressCallback
from manyarms.campaigns.pool_file.parts import Candidates
from manyarms.campaigns.pool_file.source import Source
from manyarms.campaigns.read_old_results import read_old_results
from manyarms.campaigns.recording import (
    correct_results,
    import_rows,
    record_outcomes,
    record_rows,
    who_is_this,
)
from manyarms.campaigns.resolve_settings import resolve
from manyarms.campaigns.results_file import RESERVED, ReportedResult, read_file, read_results, ticket_row
from manyarms.campaigns.settings import Request, Settings
from manyarms.campaigns.store.corrections import Change
from manyarms.campaigns.store.creation import create_campaign, refuse_existing
from manyarms.campaigns.store.keyed_asks import KeyedAsk, keep_asks, known_asks
from manyarms.campaigns.store.schema import OPEN, TICKETS
from manyarms.campaigns.store.store import Snapshot, Store, Ticket, now_text
from manyarms.campaigns.store.ticket_codes import new_nonce, ticket_code
from manyarms.errors import DamagedCampaignError, SchedulerLostError, SettingsError
from manyarms.run.batch_structure import BatchStructure
from manyarms.support.validation import non_negative

_NOT_RECORDED = "not recorded"  # the reason of tickets from before reasons were stored
_RACES = 3  # attempts to ask without a lock before asking inside the transaction


@dataclass(frozen=True)
class _Ready:
    """A batch that has not been handed out yet, computed from all events up to `sequence`."""

    proposal: Proposal
    issued: list[Issued]
    sequence: int
    seconds: float


class Campaign(CampaignCandidates):
    """A search on the user's own table, kept in a database. Use it in a `with` block, or call `close`."""

    def __init__(
        self,
        campaign: str | Path,
        *,
        pool: str | Path | None = None,
        progress: ProgressCallback | None = None,
        engine: str | None = None,
    ) -> None:
        """Open a campaign. `pool` is the path of its table, if the file has moved.

        `engine` replaces the engine that the campaign was created with: "local", "disk", "recompute", or the
        address of a Dask scheduler.
        """
        if engine is not None:
            EngineSettings(engine)  # refuses what is none
        self.store, self._engine = Store(campaign), engine
        self._progress = progress
        self._elsewhere = None if pool is None else Path(pool)
        try:
            with self.store.reading() as connection:
                self.store.check(connection)
                row = self.store.row(connection)
            self.settings = self._settings(row["settings"])
            self.created_at: str = row["created_at"]
        except BaseException:
            self.store.close()
            raise

    def _settings(self, text: str) -> Settings:
        try:
            return Settings.from_json(text)
        except (KeyError, ValueError, TypeError, AttributeError) as problem:
            raise DamagedCampaignError(f"{self.store.where}: damaged settings: {problem!r}") from None

    @classmethod
    def new(
        cls,
        campaign: str | Path,
        request: Request,
        progress: ProgressCallback | None = None,
        on_understood: Callable[[Source], None] | None = None,
    ) -> Campaign:
        """Create a campaign: read the pool, resolve the settings and store them. No file is overwritten.

        `on_understood` is called with what every column of the table is used as, before anything else.
        """
        of_costs = () if request.cost is None else COST_COLUMNS
        if (request.id or "id") in (*RESERVED, *of_costs):
            raise SettingsError(
                f"the id column cannot be called {request.id!r}: that name is reserved in results files"
            )
        refuse_existing(campaign)
        request.on_engine().connect().close()  # says at once what is wrong with it
        source, pool = request.source().understood(request.form(), progress)
        if on_understood is not None:
            on_understood(source)
        prior = read_old_results(source, request.prior_results, request.prior_campaign, cls)
        settings = resolve(request, source, pool, prior)
        create_campaign(campaign, settings.to_json(), pool.n_arms)
        made = cls(campaign, progress=progress)
        made._pool, made._source = pool, Candidates((settings.source,))
        return made

    def close(self) -> None:
        """Close the connections to the database and the engine."""
        self._disconnect()
        self.store.close()

    def __enter__(self) -> Campaign:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ------------------------------------------------------------------ asking

    def ask(
        self,
        n: int | None = None,
        *,
        at_most: int | None = None,
        worker: str | None = None,
        lease_seconds: float | None = None,
        until_gap: float | None = None,
        deliver: Deliver | None = None,
        eligible: str | Mask | None = None,
        structure: BatchStructure | None = None,
        until_gain: float | None = None,
        explain: bool = False,
        max_cost: float | None = None,
        per_cost: bool | None = None,
    ) -> list[Issued]:
        """Hand out the next batch: ended by the stopping rule, limited to `at_most`, or of exactly n.

        `eligible` limits the batch to some candidates, as a condition on the columns such as
        `"price < 30 and solvent == 'water'"` or as a mask over all candidates, and `structure` (see
        `CampaignCandidates.structure`) says which may be in it together. `worker` and `lease_seconds`
        mark the tickets as being measured until the lease expires. `deliver` is called with the batch before
        it is committed; when it fails, nothing was handed out. If the gap of the certificate is at most
        `until_gap`, `GapReachedError` is raised and nothing is handed out, and `GainReachedError` if the
        batch is expected to improve the best candidate by at most `until_gain`. With `explain`, every ticket
        comes with the reasons for its candidate (`explaining.py`). The batch costs at most `max_cost`, and
        is chosen by value per cost with `per_cost` (None: as the campaign's settings say).
        """
        mask = self.eligible(eligible) if isinstance(eligible, str) else eligible
        gap = None if until_gap is None else non_negative("until_gap", until_gap)
        gain = None if until_gain is None else non_negative("until_gain", until_gain)
        share = Share(None, worker, lease_seconds)
        order = Order(n, at_most, gap, (share,), deliver, mask, structure, gain, explain, max_cost, per_cost)
        return self._ask(order)

    def ask_together(
        self,
        shares: Sequence[Share],
        *,
        at_most: int | None = None,
        until_gap: float | None = None,
        eligible: str | Mask | None = None,
        structure: BatchStructure | None = None,
        until_gain: float | None = None,
        max_cost: float | None = None,
        per_cost: bool | None = None,
    ) -> list[list[Issued]]:
        """Hand out one batch to several requesters, or with a size of None, to the only one.

        The keys of the shares are stored with the batch. If one of them is known by then, nothing is handed
        out and `RepeatedAskError` is raised: `asked` has the tickets of that key.
        """
        mask = self.eligible(eligible) if isinstance(eligible, str) else eligible
        sizes = [share.size for share in shares]
        n = None if None in sizes else sum(size for size in sizes if size is not None)
        order = Order(
            n, at_most, until_gap, tuple(shares), None, mask, structure, until_gain,
            max_cost=max_cost, per_cost=per_cost,
        )  # fmt: skip
        return dealt(self._ask(order), shares)

    def asked(self, key: str) -> tuple[str, list[Issued]] | None:
        """The digest and the tickets of the request with this key; None if there is none."""
        with self.store.reading() as connection:
            found = known_asks(self.store, connection, [key]).get(key)
            if found is None:
                return None
            mine = TICKETS.c.ticket.between(found.first, found.first + found.size - 1)
            tickets = self.store.tickets(connection, mine)
        return found.digest, self.reissued(tickets)

    def _ask(self, order: Order) -> list[Issued]:
        self._expire()
        for _ in range(_RACES):
            with self.store.reading() as connection:
                seen = self.store.snapshot(connection)
            ready = self._proposed(seen, order)
            with self.store.writing() as connection:
                now = self.store.batches(connection), self.store.revision(connection)
                if now == (seen.batches, seen.revision):
                    return self._hand_out(connection, ready, order)
        with self.store.writing() as connection:
            return self._hand_out(connection, self._proposed(self.store.snapshot(connection), order), order)

    def _expire(self) -> None:
        moment = time.time()
        overdue = (TICKETS.c.state == OPEN, TICKETS.c.lease_until < moment)
        with self.store.reading() as connection:
            if not self.store.tickets(connection, *overdue):
                return
        with self.store.writing() as connection:
            self.store.expire(connection, moment)

    def _proposed(self, seen: Snapshot, order: Order) -> _Ready:
        started = time.perf_counter()
        self._keep_up(seen.n_arms)
        warnings = self.check_columns(seen)
        now = self.current(seen)
        try:
            proposal = propose(self.settings, now, seen, order, warnings)
        except SchedulerLostError as problem:
            self._disconnect()
            raise lost_scheduler(problem) from problem
        arms = proposal.batch.arms.tolist()
        lines = zip(
            proposal.batch.tickets.tolist(), arms, proposal.names, self.source.cells_of(arms),
            proposal.predictions, proposal.batch.why, proposal.costs, proposal.gains, strict=True,
        )  # fmt: skip
        number = proposal.facts["number"]
        reasons = dict(zip(arms, proposal.batch.why, strict=True)) if order.explain else {}
        why = dict(zip(reasons, explanations(self, *now, reasons), strict=True))
        issued = [
            Issued(
                ticket=ticket,
                batch=number,
                arm=arm,
                id=name,
                columns=columns,
                predicted=said.mean,
                predicted_std=said.std,
                reason=reason,
                lower=said.lower,
                upper=said.upper,
                explanation=why.get(arm),
                cost=cost,
                gain=gain,
            )
            for ticket, arm, name, columns, said, reason, cost, gain in lines
        ]
        return _Ready(proposal, issued, seen.sequence, time.perf_counter() - started)

    def _hand_out(self, connection: Connection, ready: _Ready, order: Order) -> list[Issued]:
        keys = [share.key for share in order.shares if share.key is not None]
        if keys and known_asks(self.store, connection, keys):
            raise RepeatedAskError
        identity, nonce, moment = self.store.identity(connection), new_nonce(), time.time()
        issued = [replace(each, code=ticket_code(identity, nonce, each.ticket)) for each in ready.issued]
        parts = list(zip(order.shares, dealt(issued, order.shares), strict=True))
        self.store.name_arms(connection, {each.arm: each.id for each in issued})
        tickets = [
            {
                "ticket": each.ticket, "arm": each.arm, "predicted": each.predicted,
                "predicted_std": each.predicted_std, "predicted_lower": each.lower,
                "predicted_upper": each.upper, "reason": each.reason, "cost": each.cost,
                "gain": each.gain, **share.held(moment),
            }
            for share, part in parts for each in part
        ]  # fmt: skip
        facts = {**ready.proposal.facts, "seconds": ready.seconds, "asked_at": now_text(), "nonce": nonce}
        self.store.hand_out(connection, facts, tickets, ready.proposal.state, ready.sequence)
        kept = [
            KeyedAsk(share.key, share.digest, facts["number"], part[0].ticket, len(part))
            for share, part in parts
            if share.key is not None
        ]
        keep_asks(self.store, connection, kept)
        if order.deliver is not None:
            order.deliver(issued)
        return issued

    def open_tickets(self) -> list[Issued]:
        """All open tickets, as they were handed out."""
        with self.store.reading() as connection:
            out = self.store.tickets(connection, TICKETS.c.state == OPEN)
        return self.reissued(out)

    def reissued(self, tickets: Sequence[Ticket]) -> list[Issued]:
        """Tickets that were handed out earlier, with the user's columns."""
        columns = self.source.cells_of([each.arm for each in tickets])
        return [
            Issued(
                ticket=t.ticket,
                batch=t.batch,
                arm=t.arm,
                id=t.name,
                columns=own,
                predicted=t.predicted,
                predicted_std=t.predicted_std,
                reason=t.reason or _NOT_RECORDED,
                lower=t.predicted_lower,
                upper=t.predicted_upper,
                code=t.code,
                cost=t.cost,
                gain=t.gain,
            )
            for t, own in zip(tickets, columns, strict=True)
        ]

    # ------------------------------------------------------------------ recording results

    def tell_file(self, path: str | Path, mode: Mode = Mode.ASK) -> ImportSummary:
        """Import a results file atomically; importing it again changes nothing.

        `mode` says what rows by id mean that differ from an earlier version of the file.
        """
        return self.tell_bytes(read_file(path), str(path), mode)

    def tell_bytes(
        self, data: bytes, name: str, mode: Mode = Mode.ASK, who: str | None = None
    ) -> ImportSummary:
        """Import the contents of a results file called `name`; `who` makes its corrections."""
        rows = self.read_results(data, name)
        measured, file = [row for row in rows if row.measured], {"name": name, "length": len(data)}
        arms = self._arms_of(measured)
        with self.store.writing() as connection:
            told = import_rows(self.store, connection, measured, arms, file, mode, who or who_is_this())
        return replace(told, unmeasured=len(rows) - len(measured))

    def read_results(self, data: bytes, name: str) -> list[ReportedResult]:
        """The rows of a results file."""
        with self.store.reading() as connection:
            identity = self.store.identity(connection)
        source = self.settings.source
        own = [plan.name for plan in source.columns]
        return read_results(data, name, self.id_column, source.id is None, own, identity)

    def tell_rows(self, rows: Sequence[ReportedResult]) -> ImportSummary:
        """Record results atomically, by ticket or by id; a row without a value is skipped."""
        measured = [row for row in rows if row.measured]
        arms = self._arms_of(measured)
        with self.store.writing() as connection:
            told = record_rows(self.store, connection, measured, arms)
        return replace(told, unmeasured=len(rows) - len(measured))

    def tell(self, outcomes: Sequence[ReportedResult], *, replicates: bool = True) -> ImportSummary:
        """Record results of tickets, as `run` does; a second result of a ticket is kept as a replicate.

        Without `replicates`, a second and different result is an error, and so is a wrong check of a ticket.
        """
        with self.store.writing() as connection:
            return record_outcomes(self.store, connection, outcomes, replicates=replicates)

    def correct(
        self,
        rows: Sequence[ReportedResult],
        was: Sequence[float | str | None] | None = None,
        *,
        why: str | None = None,
        who: str | None = None,
        remove: bool = False,
    ) -> list[Change]:
        """Correct the results that these rows name, all or none, or with `remove`, remove them.

        `was` are their present values, where a candidate has several results ("failed": a failed trial).
        """
        was = [None] * len(rows) if was is None else was
        with self.store.writing() as connection:
            return correct_results(
                self.store, connection, rows, was, who or who_is_this(), why, remove=remove
            )

    def _arms_of(self, rows: Sequence[ReportedResult]) -> dict[str, int]:
        """The arms of ids without a ticket; the pool is read only for ids that the database does not know."""
        where: dict[str, str] = {}
        for row in rows:
            if row.measured and row.ticket is None and row.name is not None:
                where.setdefault(row.name, f"{row.where}: ")
        if not where:
            return {}
        with self.store.reading() as connection:
            arms = self.store.known_arms(connection, where)
        missing = {name: place for name, place in where.items() if name not in arms}
        return arms | self.source.arms_of(missing) if missing else arms

    def choose_open(self, tickets: Sequence[int], batch: int | None, every: bool) -> list[int]:
        """These tickets, together with the open tickets of a batch or of all batches."""
        with self.store.reading() as connection:
            out = self.store.tickets(connection, TICKETS.c.state == OPEN)
        return sorted({*tickets, *(each.ticket for each in out if every or each.batch == batch)})

    def numbers_of(self, tickets: Sequence[str]) -> list[int]:
        """The numbers of these tickets, given by number or by name; a wrong check is an error."""
        named = [ticket_row("", ticket) for ticket in tickets]
        with self.store.reading() as connection:
            known = self.store.named_tickets(connection, {row.ticket or 0: "" for row in named})
        check_tickets([row for row in named if row.check is not None], known)
        return [row.ticket or 0 for row in named]

    def give_up(self, tickets: Collection[int], worker: str) -> None:
        """Forget those of these tickets that are open and still held by this worker."""
        held = (TICKETS.c.state == OPEN, TICKETS.c.worker == worker)
        with self.store.writing() as connection:
            mine = [each.ticket for each in self.store.tickets(connection, *held) if each.ticket in tickets]
            self.store.forget(connection, mine)

    def forget(self, tickets: Sequence[int]) -> None:
        """Cancel open tickets: their arms may be asked for again. A late result is still recorded."""
        with self.store.writing() as connection:
            self.store.forget(connection, sorted(set(tickets)))

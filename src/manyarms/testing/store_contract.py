"""What every database behind a campaign must guarantee, as a test class to inherit.

    class TestMyDatabase(CampaignStoreContract):
        @pytest.fixture(autouse=True)
        def empty_database(self):
            self.address = "postgresql://user@host/an_empty_database#name"

        def store(self): return Store(self.address)

Run it with pytest; nothing here imports pytest.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from sqlalchemy import insert, select, update

from manyarms import errors
from manyarms.campaigns.store.schema import (
    ARMS,
    BATCHES,
    FAILED,
    FORGOTTEN,
    OPEN,
    RESULTS,
    TICKETS,
    TOLD,
    VERSIONS,
)
from manyarms.campaigns.store.store import Snapshot, Store, now_text

TEXTS = (
    "it's",
    'a "quoted" text',
    "two\nlines",
    "ümläut ☃ 😀",
    "'; DROP TABLE results; --",
    "%s {0} \\",
    " ",
)
VALUES = (0.1, 0.0, 1e-300, 1e100, -2.0 / 3.0)


class CampaignStoreContract:
    """Snapshot isolation for readers, serialised writers, atomic transactions, enforced constraints."""

    n_arms = 10
    settings = '{"any": "text"}'

    def store(self) -> Store:
        """A new store on the database under test.

        The database is empty when a test begins. Every call within a test opens another connection to the
        same campaign.
        """
        raise NotImplementedError("a contract test returns a new Store on its database here")

    # ------------------------------------------------------------------ creating a campaign

    def test_a_campaign_that_was_not_created_is_refused(self) -> None:
        """Reading and writing both fail before the campaign exists, with an error of one line."""
        for transaction in (Store.reading, Store.writing):
            with closing(self.store()) as store, _refused(errors.NoCampaignError), transaction(store):
                pass

    def test_a_campaign_is_created_once(self) -> None:
        """A second creation is refused and changes nothing."""
        with self._stores(2) as (store, second):
            with _refused(errors.CampaignExistsError):
                second.create("{}", 99)
            with store.reading() as connection:
                row = store.row(connection)
            assert (row["settings"], row["n_arms"]) == (self.settings, self.n_arms)

    def test_a_new_campaign_is_empty(self) -> None:
        """A new campaign has no batches, no results and no state."""
        with self._stores() as (store,):
            assert _snapshot(store) == Snapshot(0, 0, None, 0, (), (), self.n_arms)

    def test_an_unknown_schema_version_is_refused_and_left_alone(self) -> None:
        """A database of a newer version is refused with one line that names the version."""
        with self._stores() as (store,):
            with store.writing() as connection:
                connection.execute(update(VERSIONS).values(version=99))
            with (
                closing(self.store()) as newer,
                _refused(errors.NewerSchemaError, "99"),
                newer.reading(),
            ):
                pass
            with store.reading() as connection:
                assert connection.execute(select(VERSIONS.c.version)).scalars().all() == [99]

    # ------------------------------------------------------------------ transactions

    def test_readers_have_snapshot_isolation(self) -> None:
        """A reading transaction does not see changes that are committed during it."""
        with self._stores(2) as (reader, writer):
            with reader.reading() as connection:
                before = reader.snapshot(connection)
                self._hand_out(writer)
                _record(writer, 0, 1.0)
                assert reader.snapshot(connection) == before
                assert reader.tickets(connection) == []
            after = _snapshot(reader)
            assert (after.batches, [each.value for each in after.results]) == (1, [1.0])

    def test_writers_wait_for_each_other(self) -> None:
        """Writers are serialised: no batch or ticket number is used twice, and none is skipped."""
        threads, rounds = 4, 5
        problems: list[BaseException] = []

        def write() -> None:
            try:
                with closing(self.store()) as store:
                    for _ in range(rounds):
                        self._hand_out(store, size=1)
            except BaseException as problem:
                problems.append(problem)

        with self._stores() as (store,):
            workers = [threading.Thread(target=write) for _ in range(threads)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            assert not problems, problems
            with store.reading() as connection:
                numbers = connection.execute(select(BATCHES.c.number).order_by(BATCHES.c.number)).scalars()
                assert numbers.all() == list(range(1, 1 + threads * rounds))
                tickets = [each.ticket for each in store.tickets(connection)]
            assert tickets == list(range(threads * rounds))

    def test_nothing_of_a_failed_transaction_remains(self) -> None:
        """An exception rolls back every change, event numbers included, and the store stays usable."""
        with self._stores() as (store,):
            self._hand_out(store)
            before = _snapshot(store)
            try:
                with store.writing() as connection:
                    store.name_arms(connection, {7: "another"})
                    store.forget(connection, [0])
                    store.add_results(connection, [_result(1, 1.0)])
                    store.add_file(connection, {"digest": "d", "length": 1, "rows": 1})
                    raise _StopError
            except _StopError:
                pass
            assert _snapshot(store) == before
            with store.reading() as connection:
                assert store.files(connection) == []
                assert store.known_arms(connection, ["another"]) == {}
                assert {each.state for each in store.tickets(connection)} == {OPEN}
            _record(store, 0, 2.0)
            assert [each.sequence for each in _snapshot(store).results] == [1]

    # ------------------------------------------------------------------ asking

    def test_an_overtaken_hand_out_is_refused(self) -> None:
        """Of two batches computed from the same snapshot, only the first can be handed out."""
        with self._stores(2) as (fast, slow):
            seen = _snapshot(slow)
            self._hand_out(fast, state=b"fast")
            with _refused(errors.DatabaseError):
                self._hand_out(slow, state=b"slow", number=seen.batches + 1, first=5)
            after = _snapshot(slow)
            assert (after.batches, after.state) == (1, b"fast")
            with slow.reading() as connection:
                assert [each.ticket for each in slow.tickets(connection)] == [0, 1, 2]

    def test_the_state_is_returned_exactly_and_replaced(self) -> None:
        """Any bytes are read back unchanged; the state of a later batch replaces the earlier one."""
        data = bytes(range(256)) * 100
        with self._stores(2) as (store, other):
            self._hand_out(store, state=data)
            assert (_snapshot(other).state, _snapshot(other).folded) == (data, 0)
            _record(store, 0, 1.0)
            self._hand_out(store, state=b"", folded=1)
            assert (_snapshot(other).state, _snapshot(other).folded) == (b"", 1)

    def test_tickets_are_returned_exactly(self) -> None:
        """Predictions keep every digit, and ids may be any text."""
        with self._stores(2) as (store, other):
            names = dict(enumerate(TEXTS))
            self._hand_out(store, size=len(TEXTS), names=names, predicted=1 / 3, predicted_lower=-1e-300)
            with other.reading() as connection:
                tickets = other.tickets(connection)
                assert other.known_arms(connection, TEXTS) == {name: arm for arm, name in names.items()}
            assert [each.name for each in tickets] == list(TEXTS)
            assert {(each.predicted, each.predicted_lower) for each in tickets} == {(1 / 3, -1e-300)}
            assert {each.predicted_upper for each in tickets} == {None}

    def test_leases_end_when_they_expire(self) -> None:
        """An expired lease makes a ticket forgotten; a ticket without a lease stays open."""
        with self._stores() as (store,):
            self._hand_out(store)
            with store.writing() as connection:
                store.lease(connection, [0], "one", 100.0)
                store.lease(connection, [1], "two", 300.0)
                store.expire(connection, 200.0)
            with store.reading() as connection:
                tickets = store.tickets(connection)
            assert [each.state for each in tickets] == [FORGOTTEN, OPEN, OPEN]
            assert [(each.worker, each.lease_until) for each in tickets[1:]] == [("two", 300.0), (None, None)]
            assert _snapshot(store).forgotten == (0,)

    # ------------------------------------------------------------------ results

    def test_results_keep_their_order_and_every_digit(self) -> None:
        """Results are numbered in the order of recording; a failed trial has no value."""
        with self._stores(2) as (store, other):
            self._hand_out(store)
            rows = [_result(None, value) for value in VALUES]
            with store.writing() as connection:
                store.add_results(connection, rows[:2])
            with store.writing() as connection:
                store.add_results(connection, [*rows[2:], _result(2, None)])
            results = _snapshot(other).results
            assert [each.sequence for each in results] == list(range(1, len(VALUES) + 2))
            assert [each.value for each in results[:-1]] == list(VALUES)
            assert (results[-1].ticket, results[-1].value) == (2, None)

    def test_a_ticket_has_at_most_one_result(self) -> None:
        """A second result of a ticket is refused, whatever its value."""
        with self._stores(2) as (store, other):
            self._hand_out(store)
            _record(store, 0, 1.0)
            for value in (1.0, 2.0, None):
                with _refused(errors.AlreadyToldError), other.writing() as connection:
                    other.add_results(connection, [_result(0, value)])
            assert [each.value for each in _snapshot(other).results] == [1.0]
            with other.reading() as connection:
                assert other.values_of(connection, [0, 1]) == {0: 1.0}

    def test_a_forgotten_ticket_accepts_a_late_result(self) -> None:
        """The late result is recorded without its ticket, so that no ask waits for it."""
        with self._stores() as (store,):
            self._hand_out(store)
            with store.writing() as connection:
                store.forget(connection, [1])
            with _refused(errors.AlreadyToldError, "ticket 1"), store.writing() as connection:
                store.forget(connection, [1])
            with _refused(errors.UnknownTicketError, "ticket 77"), store.writing() as connection:
                store.forget(connection, [77])
            _record(store, 1, 4.0)
            seen = _snapshot(store)
            assert seen.forgotten == (1,)
            assert [(each.ticket, each.arm, each.value) for each in seen.results] == [(None, 1, 4.0)]

    def test_a_row_of_a_results_file_is_recorded_once(self) -> None:
        """The file and the row identify a result; the present version of a file replaces the earlier one."""
        with self._stores() as (store,):
            self._hand_out(store)
            with store.writing() as connection:
                number = store.add_file(connection, {"digest": "short", "length": 10, "rows": 1})
                store.add_results(connection, [{**_result(None, 1.0), "file": number, "row": 0}])
            with _refused(errors.AlreadyToldError), store.writing() as connection:
                store.add_results(connection, [{**_result(None, 1.0), "file": number, "row": 0}])
            with store.writing() as connection:
                (file,) = store.files(connection)
                store.change_file(connection, file, {"digest": "long", "length": 20, "rows": 2})
            with store.reading() as connection:
                assert [each["digest"] for each in store.files(connection)] == ["long"]

    def test_constraints_are_enforced_by_the_database(self) -> None:
        """A statement that violates a constraint is refused, and the data do not change."""
        with self._stores() as (store,):
            self._hand_out(store)
            _record(store, 0, 1.0)
            before = _snapshot(store)
            for broken, statement in self._forbidden(store).items():
                with _refused(errors.DatabaseError, about=broken), store.writing() as connection:
                    connection.execute(statement)
            assert _snapshot(store) == before

    def _forbidden(self, store: Store) -> dict[str, Any]:
        """Statements that each violate one constraint, by its name."""
        result = {
            "campaign": store.id,
            "sequence": 99,
            "arm": 0,
            "value": 1.0,
            "failed": False,
            "told_at": "",
        }
        ticket = {"campaign": store.id, "batch": 1, "arm": 0, "predicted": 0.0, "predicted_std": 0.0}
        arm = {"campaign": store.id, "arm": self.n_arms, "name": "x", "n_arms": self.n_arms}
        results, tickets, arms = insert(RESULTS), insert(TICKETS), insert(ARMS)
        second = (TICKETS.c.campaign == store.id) & (TICKETS.c.ticket == 1)
        return {
            "a second result of a ticket": results.values(**result, ticket=0),
            "a result of an unknown ticket": results.values(**result, ticket=77),
            "a result of an unknown arm": results.values(**result | {"arm": 5}),
            "a result without a value": results.values(**result | {"value": None}),
            "a failed trial with a value": results.values(**result | {"failed": True}),
            "an arm outside the pool": arms.values(**arm),
            "an arm of a pool of another size": arms.values(**arm | {"n_arms": self.n_arms + 1}),
            "two arms with one id": arms.values(**arm | {"arm": 5, "name": "arm 0"}),
            "a ticket that is handed out twice": tickets.values(**ticket, ticket=2),
            "a ticket without a batch": tickets.values(**ticket | {"batch": 9}, ticket=50),
            "an unknown state of a ticket": update(TICKETS).where(second).values(state="lost"),
            "a forgotten ticket without its time": update(TICKETS).where(second).values(state=FORGOTTEN),
            "a batch that is removed under its tickets": BATCHES.delete().where(BATCHES.c.number == 1),
        }

    # ------------------------------------------------------------------ preparing a test

    @contextmanager
    def _stores(self, count: int = 1) -> Iterator[list[Store]]:
        """Connections to a campaign that has just been created."""
        with ExitStack() as opened:
            stores = [opened.enter_context(closing(self.store())) for _ in range(count)]
            stores[0].create(self.settings, self.n_arms)
            yield stores

    def _hand_out(
        self,
        store: Store,
        size: int = 3,
        *,
        state: bytes = b"state",
        folded: int = 0,
        number: int | None = None,
        first: int | None = None,
        names: Mapping[int, str] | None = None,
        **columns: Any,
    ) -> None:
        """The transaction of an ask: the next batch with the next tickets, for arms 0, 1, 2 and so on."""
        with store.writing() as connection:
            batches = 1 + store.batches(connection) if number is None else number
            ticket = len(store.tickets(connection)) if first is None else first
            store.name_arms(connection, names or {arm: f"arm {arm}" for arm in range(size)})
            facts = {
                "number": batches, "size": size, "ended_because": "test", "ratio": 1.0, "dictionary_size": 1,
                "width": 1.0, "effective_dimension": 1.0, "seconds": 0.0, "asked_at": now_text(),
            }  # fmt: skip
            plain = {"predicted": 0.0, "predicted_std": 1.0, **columns}
            tickets = [{"ticket": ticket + arm, "arm": arm, **plain} for arm in range(size)]
            store.hand_out(connection, facts, tickets, state, folded)


class _StopError(Exception):
    pass


def _snapshot(store: Store) -> Snapshot:
    with store.reading() as connection:
        return store.snapshot(connection)


def _result(ticket: int | None, value: float | None) -> dict[str, Any]:
    """A result of a ticket of the first batch, or of arm 0."""
    return {"ticket": ticket, "arm": ticket or 0, "value": value, "failed": value is None}


def _record(store: Store, ticket: int, value: float | None) -> None:
    """The transaction of a recorded result."""
    with store.writing() as connection:
        (found,) = store.tickets(connection, TICKETS.c.ticket == ticket)
        store.add_results(connection, [_result(ticket, value)])
        if found.state == OPEN:
            store.set_ticket_state(connection, [ticket], FAILED if value is None else TOLD)


@contextmanager
def _refused(kind: type[errors.ManyarmsError], word: str = "", about: str = "") -> Iterator[None]:
    """The block must raise this error, with a message of one line that contains the word."""
    message = None
    try:
        yield
    except kind as problem:
        message = str(problem)
    assert message is not None, f"the store accepted {about or 'what it should refuse'}"
    assert "\n" not in message, message
    assert word in message, message

"""The tables of a campaign, their constraints, and the upgrade of an older schema.

Rules that must always hold are constraints of the database as well as checks in the code: a ticket has at
most one result, an arm belongs to the pool, and a result either has a value or has failed. `sequence` numbers
the results and the forgotten tickets of a campaign in one order, so that "everything since the last ask" is a
comparison. A corrected result keeps its number; if the saved state includes it, the state is marked as stale.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    Connection,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    insert,
    inspect,
    select,
    text,
    update,
)

from manyarms.campaigns.store.digests import settings_digest, state_digest
from manyarms.campaigns.store.ticket_codes import new_identity
from manyarms.errors import DatabaseError, NewerSchemaError

METADATA = MetaData()
OPEN, TOLD, FAILED, FORGOTTEN = "open", "told", "failed", "forgotten"


def _campaign() -> Column[Any]:
    return Column("campaign", Integer, ForeignKey("campaigns.id"), primary_key=True)


def _arm_exists() -> ForeignKeyConstraint:
    return ForeignKeyConstraint(["campaign", "arm"], ["arms.campaign", "arms.arm"])


VERSIONS = Table("manyarms_schema", METADATA, Column("version", Integer, nullable=False))

CAMPAIGNS = Table(
    "campaigns",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("settings", Text, nullable=False),  # JSON; never changes
    Column("settings_digest", String(64)),  # see `store/digests.py`
    Column("identity", String(32)),  # random; see `store/ticket_codes.py`
    Column("n_arms", Integer, CheckConstraint("n_arms > 0"), nullable=False),
    Column("sequence", Integer, nullable=False, server_default="0"),  # the last number used
    Column("created_at", String(32), nullable=False),
    UniqueConstraint("id", "n_arms"),  # allows arms to refer to the size of the pool
)

ARMS = Table(  # only arms with a ticket or a result; the pool itself stays in its file
    "arms",
    METADATA,
    Column("campaign", Integer, primary_key=True),
    Column("arm", Integer, primary_key=True),
    Column("name", Text, nullable=False),  # the user's id, as text
    Column("n_arms", Integer, nullable=False),
    ForeignKeyConstraint(["campaign", "n_arms"], ["campaigns.id", "campaigns.n_arms"]),
    UniqueConstraint("campaign", "name"),
    CheckConstraint("arm >= 0 AND arm < n_arms", name="arm_in_pool"),
)

BATCHES = Table(
    "batches",
    METADATA,
    _campaign(),
    Column("number", Integer, primary_key=True),
    Column("size", Integer, CheckConstraint("size > 0"), nullable=False),
    Column("ended_because", Text, nullable=False),
    Column("ratio", Float, nullable=False),
    Column("dictionary_size", Integer, nullable=False),
    Column("width", Float, nullable=False),
    Column("effective_dimension", Float, nullable=False),
    Column("best_arm", Integer),  # the model's best arm when the batch was asked; values in the user's units
    Column("best_mean", Float),
    Column("best_lower", Float),
    Column("best_upper", Float),
    Column("seconds", Float, nullable=False),
    Column("asked_at", String(32), nullable=False),
    Column("nonce", String(32)),  # see `store/ticket_codes.py`; NULL: the tickets have no check
)

TICKETS = Table(
    "tickets",
    METADATA,
    _campaign(),
    Column("ticket", Integer, CheckConstraint("ticket >= 0"), primary_key=True),
    Column("batch", Integer, nullable=False),
    Column("arm", Integer, nullable=False),
    Column("predicted", Float, nullable=False),
    Column("predicted_std", Float, nullable=False),
    Column("predicted_lower", Float),  # the 90 % prediction interval; NULL: not recorded
    Column("predicted_upper", Float),
    Column("reason", Text),  # why the arm was chosen (`Batch.why`); NULL: not recorded
    Column("cost", Float),  # NULL: the campaign has no costs
    Column("gain", Float),  # the expected improvement by this arm alone; NULL: unknown, or no costs
    Column("state", String(9), nullable=False, server_default=OPEN),
    Column("forgotten_sequence", Integer),
    Column("worker", Text),  # the run or person that measures it, if known
    Column("lease_until", Float),  # seconds since 1970; NULL: no lease
    ForeignKeyConstraint(["campaign", "batch"], ["batches.campaign", "batches.number"]),
    _arm_exists(),
    CheckConstraint("state IN ('open', 'told', 'failed', 'forgotten')", name="known_state"),
    CheckConstraint("(state = 'forgotten') = (forgotten_sequence IS NOT NULL)", name="forgotten_when"),
)

FILES = Table(  # imported results files; see `manyarms.campaigns.file_versions`
    "files",
    METADATA,
    _campaign(),
    Column("number", Integer, primary_key=True),
    Column("name", Text),  # the name without its folder; NULL: imported before names were recorded
    Column("digest", String(64), nullable=False),
    Column("length", Integer, nullable=False),  # bytes
    Column("rows", Integer, nullable=False),
    Column("told_at", String(32), nullable=False),
    UniqueConstraint("campaign", "digest"),
)

RESULTS = Table(
    "results",
    METADATA,
    _campaign(),
    Column("sequence", Integer, primary_key=True),
    Column("ticket", Integer),  # NULL: a measurement without a ticket
    Column("arm", Integer, nullable=False),
    Column("value", Float),
    Column("failed", Boolean, nullable=False, server_default=false()),
    Column("note", Text),  # the reason why a trial failed
    Column("noise_std", Float),  # the noise of the value, if it was stated
    Column("replicates", Integer),  # the number of measurements it is the mean of; NULL: one
    Column("told_at", String(32), nullable=False),
    Column("file", Integer),
    Column("row", Integer),  # numbers the results that the file gives by id; NULL: named by its ticket
    UniqueConstraint("campaign", "ticket"),
    UniqueConstraint("campaign", "file", "row"),
    ForeignKeyConstraint(["campaign", "ticket"], ["tickets.campaign", "tickets.ticket"]),
    ForeignKeyConstraint(["campaign", "file"], ["files.campaign", "files.number"]),
    _arm_exists(),
    CheckConstraint("failed = (value IS NULL)", name="value_or_failed"),
)

STATES = Table(  # the state of the model after the last ask; the transaction of the next ask replaces it
    "states",
    METADATA,
    _campaign(),
    Column("batch", Integer, nullable=False),
    Column("sequence", Integer, nullable=False),  # the last event that the state includes
    Column("data", LargeBinary, nullable=False),
    Column("digest", String(64)),  # see `store/digests.py`
    Column("stale", Boolean, nullable=False, server_default=false()),  # a result it includes was corrected
    ForeignKeyConstraint(["campaign", "batch"], ["batches.campaign", "batches.number"]),
)

CORRECTIONS = Table(  # who changed or removed which result, when and why; rows are only added
    "corrections",
    METADATA,
    _campaign(),
    Column("number", Integer, primary_key=True),
    Column("action", String(9), nullable=False),
    Column("sequence", Integer, nullable=False),  # the result; a removed one is no longer in its table
    Column("ticket", Integer),
    Column("arm", Integer, nullable=False),
    Column("file", Integer),
    Column("row", Integer),
    Column("old_value", Float),  # NULL: the trial had failed
    Column("new_value", Float),  # NULL: the trial has failed, or the result was removed
    Column("old_noise_std", Float),  # the noise of the values, as in the table of results
    Column("old_replicates", Integer),
    Column("new_noise_std", Float),
    Column("new_replicates", Integer),
    Column("who", Text, nullable=False),
    Column("why", Text),
    Column("at", String(32), nullable=False),
    _arm_exists(),
    CheckConstraint("action IN ('corrected', 'removed')", name="known_action"),
)


ADDITIONS = Table(  # tables of candidates that were added to a campaign
    "additions",
    METADATA,
    _campaign(),
    Column("number", Integer, primary_key=True),  # from 1
    Column("source", Text, nullable=False),  # JSON, like the source in the settings
    Column("n_arms", Integer, CheckConstraint("n_arms > 0"), nullable=False),
    Column("columns", Text, nullable=False),  # JSON, the `columns` of the settings after this addition
    Column("added_at", String(32), nullable=False),
)

EXCLUSIONS = Table(  # candidates that are never asked for
    "exclusions",
    METADATA,
    _campaign(),
    Column("arm", Integer, primary_key=True),
    Column("note", Text),
    Column("excluded_at", String(32), nullable=False),
    _arm_exists(),
)

ASKS = Table(  # asks that carried a key, so that a repeated request gets the tickets of the first one
    "asks",
    METADATA,
    _campaign(),
    Column("key", String(64), primary_key=True),
    Column("digest", String(64), nullable=False),  # of the request, to refuse another one with the same key
    Column("batch", Integer, nullable=False),
    Column("first", Integer, nullable=False),  # its tickets: `size` consecutive numbers from `first`
    Column("size", Integer, CheckConstraint("size > 0"), nullable=False),
    ForeignKeyConstraint(["campaign", "batch"], ["batches.campaign", "batches.number"]),
)


def same_ticket() -> ColumnElement[bool]:
    """The condition that joins a result to its ticket."""
    return (TICKETS.c.campaign == RESULTS.c.campaign) & (TICKETS.c.ticket == RESULTS.c.ticket)


def same_batch() -> ColumnElement[bool]:
    """The condition that joins a ticket to its batch."""
    return (BATCHES.c.campaign == TICKETS.c.campaign) & (BATCHES.c.number == TICKETS.c.batch)


Step = Callable[[Connection], None]


def create_tables(connection: Connection) -> None:
    """Version 1: the tables above. An existing table of another program is an error."""
    taken = sorted({*inspect(connection).get_table_names()} & {*METADATA.tables})
    if taken:
        raise DatabaseError(
            f"the database already has a table {taken[0]!r} of another program: use a separate database"
        )
    METADATA.create_all(connection)


def add_intervals(connection: Connection) -> None:
    """Version 2: the prediction interval of a ticket."""
    _add_columns(connection, TICKETS, {"predicted_lower": "FLOAT", "predicted_upper": "FLOAT"})


def add_reasons(connection: Connection) -> None:
    """Version 3: why the arm of a ticket was chosen."""
    _add_columns(connection, TICKETS, {"reason": "TEXT"})


def add_additions_and_exclusions(connection: Connection) -> None:
    """Version 4: tables of added candidates and of excluded ones; `create_tables` already adds them."""
    for table in (ADDITIONS, EXCLUSIONS):
        table.create(connection, checkfirst=True)


def add_safeguards(connection: Connection) -> None:
    """Version 5: checks of tickets, digests of settings and states, names of files, and corrections.

    Tickets that were handed out before keep their number as their name.
    """
    _add_columns(connection, CAMPAIGNS, {"settings_digest": "VARCHAR(64)", "identity": "VARCHAR(32)"})
    _add_columns(connection, BATCHES, {"nonce": "VARCHAR(32)"})
    _add_columns(connection, FILES, {"name": "TEXT"})
    _add_columns(connection, STATES, {"digest": "VARCHAR(64)", "stale": "BOOLEAN DEFAULT false NOT NULL"})
    CORRECTIONS.create(connection, checkfirst=True)
    campaigns = select(CAMPAIGNS.c.id, CAMPAIGNS.c.settings, CAMPAIGNS.c.n_arms)
    for row in connection.execute(campaigns).mappings().all():
        identity = new_identity()
        digest = settings_digest(identity, row["settings"], row["n_arms"])
        named = update(CAMPAIGNS).where(CAMPAIGNS.c.id == row["id"])
        connection.execute(named.values(identity=identity, settings_digest=digest))
    states = select(STATES.c.campaign, STATES.c.batch, STATES.c.sequence, STATES.c.data)
    for row in connection.execute(states).mappings().all():
        digest = state_digest(row["batch"], row["sequence"], row["data"])
        connection.execute(update(STATES).where(STATES.c.campaign == row["campaign"]).values(digest=digest))


def add_keyed_asks(connection: Connection) -> None:
    """Version 6: the keys of asks; `create_tables` already adds their table."""
    ASKS.create(connection, checkfirst=True)


def add_version_7(connection: Connection) -> None:
    """Version 7: the cost of a ticket, and the noise of results."""
    add_costs(connection)
    add_noise_of_results(connection)


def add_costs(connection: Connection) -> None:
    """What a ticket costs and is expected to gain."""
    _add_columns(connection, TICKETS, {"cost": "FLOAT", "gain": "FLOAT"})


def add_noise_of_results(connection: Connection) -> None:
    """The noise of a result, and that of a corrected one before and after."""
    noise = {"noise_std": "FLOAT", "replicates": "INTEGER"}
    _add_columns(connection, RESULTS, noise)
    changed = {f"{when}_{name}": kind for when in ("old", "new") for name, kind in noise.items()}
    _add_columns(connection, CORRECTIONS, changed)


def _add_columns(connection: Connection, table: Table, columns: dict[str, str]) -> None:
    there = {column["name"] for column in inspect(connection).get_columns(table.name)}
    for name, kind in columns.items():
        if name not in there:  # `create_tables` already adds every column of the present version
            connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {name} {kind}"))


# STEPS[i] upgrades version i to version i + 1.
STEPS: tuple[Step, ...] = (
    create_tables, add_intervals, add_reasons, add_additions_and_exclusions, add_safeguards, add_keyed_asks,
    add_version_7,
)  # fmt: skip


def version(connection: Connection) -> int:
    """The schema version of this database; 0 if it has no tables."""
    if not inspect(connection).has_table(VERSIONS.name):
        return 0
    return int(connection.execute(select(VERSIONS.c.version)).scalar_one())


def check_version(found: int, steps: Sequence[Step] = STEPS) -> None:
    """Raise an error if the database was written by a newer version of this package."""
    if found > len(steps):
        raise NewerSchemaError(
            f"the database has schema version {found}, but this manyarms supports version {len(steps)}: "
            "upgrade manyarms"
        )


def upgrade(connection: Connection, steps: Sequence[Step] = STEPS) -> None:
    """Apply all missing steps inside the caller's transaction, so that either all or none take effect."""
    found = version(connection)
    check_version(found, steps)
    for step in steps[found:]:
        step(connection)
    if found == 0:
        VERSIONS.create(connection, checkfirst=True)
        connection.execute(insert(VERSIONS).values(version=len(steps)))
    elif found < len(steps):
        connection.execute(update(VERSIONS).values(version=len(steps)))

"""What the database itself forbids, and how it changes with the program."""

from __future__ import annotations

import sqlite3

import pytest
from sqlalchemy import Column, Integer, text
from sqlalchemy.schema import CreateTable

from manyarms import errors
from manyarms.campaigns import campaign as campaign_module
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.store import creation, schema
from manyarms.campaigns.store.database import Database, address
from tests.campaigns.server import fresh_database
from tests.campaigns.support import made, step, write_pool


@pytest.fixture
def raw(tmp_path):
    with made(tmp_path) as campaign:
        step(campaign, 3)
        campaign.ask(2)
    connection = sqlite3.connect(tmp_path / "c.db")
    connection.execute("PRAGMA foreign_keys = ON")
    yield connection
    connection.close()


RESULT = "INSERT INTO results (campaign, sequence, ticket, arm, value, failed, told_at) VALUES "
TICKET = "INSERT INTO tickets (campaign, ticket, batch, arm, predicted, predicted_std) VALUES "


@pytest.mark.parametrize(
    "statement",
    [
        RESULT + "(1, 99, 0, (SELECT arm FROM tickets WHERE ticket = 0), 1.0, 0, '')",  # told twice
        RESULT + "(1, 99, 77, (SELECT arm FROM tickets WHERE ticket = 0), 1.0, 0, '')",  # no such ticket
        RESULT + "(1, 99, NULL, 5000, 1.0, 0, '')",  # no such arm
        RESULT + "(1, 99, NULL, (SELECT arm FROM tickets WHERE ticket = 0), NULL, 0, '')",  # no value
        RESULT + "(1, 99, NULL, (SELECT arm FROM tickets WHERE ticket = 0), 1.0, 1, '')",  # failed with one
        "INSERT INTO arms (campaign, arm, name, n_arms) VALUES (1, 120, 'x', 120)",  # outside the pool
        "INSERT INTO arms (campaign, arm, name, n_arms) VALUES (1, 120, 'x', 999)",  # of another size
        "UPDATE arms SET name = (SELECT max(name) FROM arms)",  # two arms of one id
        TICKET + "(1, 3, 1, (SELECT max(arm) FROM arms), 0, 0)",  # handed out twice
        TICKET + "(1, 50, 9, (SELECT max(arm) FROM arms), 0, 0)",  # of no batch
        "UPDATE tickets SET state = 'lost' WHERE ticket = 3",
        "UPDATE tickets SET state = 'forgotten' WHERE ticket = 3",  # without a moment
        "DELETE FROM batches",
    ],
)
def test_broken_rules_are_refused_by_the_database(raw, statement):
    with pytest.raises(sqlite3.IntegrityError):
        raw.execute(statement)


def test_a_newer_schema_is_refused_and_left_alone(tmp_path, raw):
    raw.execute("UPDATE manyarms_schema SET version = 99")
    raw.commit()
    with pytest.raises(errors.NewerSchemaError, match="version 99"):
        Campaign(tmp_path / "c.db")
    assert raw.execute("SELECT version FROM manyarms_schema").fetchone() == (99,)


def test_an_older_schema_is_upgraded_step_by_step_or_not_at_all(tmp_path):
    made(tmp_path).close()
    database = Database(address(tmp_path / "c.db"))
    more = schema.Table("more", schema.MetaData(), Column("x", Integer))

    def add_table(connection):
        connection.execute(CreateTable(more))

    def broken(connection):
        connection.execute(text("CREATE TABLE half (x INTEGER)"))
        raise RuntimeError("a step that fails")

    with pytest.raises(RuntimeError), database.writing() as connection:
        schema.upgrade(connection, (*schema.STEPS, add_table, broken))
    with database.reading() as connection:
        assert schema.version(connection) == len(schema.STEPS)
        assert not {"more", "half"} & set(schema.inspect(connection).get_table_names())
    with database.writing() as connection:
        schema.upgrade(connection, (*schema.STEPS, add_table))
    with database.reading() as connection:
        assert schema.version(connection) == len(schema.STEPS) + 1
        assert "more" in schema.inspect(connection).get_table_names()
    database.close()
    with pytest.raises(errors.NewerSchemaError):
        Campaign(tmp_path / "c.db")


def test_what_is_no_campaign_is_refused_and_left_alone(tmp_path):
    (tmp_path / "text.db").write_text("hello, this is no database at all, only some text" * 50)
    with pytest.raises(errors.DatabaseError, match="not a database"):
        Campaign(tmp_path / "text.db")
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE mine (x)").connection.close()
    with pytest.raises(errors.NoCampaignError, match="the database holds no campaign"):
        Campaign(tmp_path / "other.db")
    with pytest.raises(errors.NoCampaignError, match="no such campaign"):
        Campaign(tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()


def test_a_table_of_another_program_is_not_taken_over(tmp_path):
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE results (x)").connection.close()
    database = Database(address(tmp_path / "other.db"))
    with pytest.raises(errors.DatabaseError, match="'results'"), database.creating():
        pass
    with database._transaction(writer=False) as connection:
        assert schema.inspect(connection).get_table_names() == ["results"]
    database.close()


@pytest.mark.slow
def test_a_server_where_another_program_keeps_results_is_left_as_it_was(tmp_path, server):
    import psycopg

    place = fresh_database(server)
    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute("CREATE TABLE results (x integer)")
        with pytest.raises(errors.DatabaseError, match="'results'"):
            made(tmp_path, place)
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    assert tables == [("results",)]


def test_a_campaign_is_never_overwritten(tmp_path):
    with made(tmp_path) as campaign:
        step(campaign, 3)
    before = (tmp_path / "c.db").read_bytes()
    with pytest.raises(errors.CampaignExistsError):
        made(tmp_path)
    assert (tmp_path / "c.db").read_bytes() == before


def test_who_comes_second_neither_takes_nor_harms_what_the_first_made(tmp_path, monkeypatch):
    """The rival makes its campaign after this one has looked whether there is any."""
    looked = creation.refuse_existing
    write_pool(tmp_path)

    def overtaken(campaign):
        looked(campaign)
        monkeypatch.undo()
        made(tmp_path).close()

    monkeypatch.setattr(campaign_module, "refuse_existing", overtaken)
    with pytest.raises(errors.CampaignExistsError, match=r"c\.db: the file already exists"):
        made(tmp_path, seed=7)
    with Campaign(tmp_path / "c.db") as campaign:
        assert campaign.settings.seed == 0
        step(campaign, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.db", "pool.csv"]


@pytest.mark.parametrize("there", [False, True])
def test_where_a_disk_knows_no_links_nothing_is_replaced_either(tmp_path, monkeypatch, there):
    def no_links(source, target):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(creation.os, "link", no_links)
    monkeypatch.setattr(campaign_module, "refuse_existing", lambda campaign: None)
    write_pool(tmp_path)
    if there:
        (tmp_path / "c.db").write_text("mine")
        with pytest.raises(errors.CampaignExistsError):
            made(tmp_path)
        assert (tmp_path / "c.db").read_text() == "mine"
    else:
        made(tmp_path).close()
        Campaign(tmp_path / "c.db").close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.db", "pool.csv"]


def test_addresses():
    assert address("a/b.db").file is not None
    where = address("postgresql://ann:secret@host:5433/lab#screen 7")
    assert (where.name, where.file) == ("screen 7", None)
    assert "secret" not in str(where)
    assert address("postgres://host/lab").name == "default"
    with pytest.raises(errors.DatabaseError):
        address("postgresql://host:port/lab")

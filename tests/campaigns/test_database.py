"""Creating, upgrading and opening a campaign's database; its other promises: test_store_contract.py."""

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
    before = (tmp_path / "other.db").read_bytes()
    with pytest.raises(errors.NoCampaignError, match="a database of another program, not a campaign"):
        Campaign(tmp_path / "other.db")
    assert (tmp_path / "other.db").read_bytes() == before
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
    def no_links(source, target, **folders):
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

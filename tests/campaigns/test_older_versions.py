"""Campaigns of versions 2 and 3 go on: their tables are upgraded and their state is read."""

from __future__ import annotations

import io
import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from manyarms import errors
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.pool_file.source import Source
from manyarms.campaigns.queries import best, history
from manyarms.campaigns.results_file import ticket_row
from manyarms.campaigns.store.schema import STEPS
from tests.campaigns.server import fresh_database
from tests.campaigns.support import cli, made, step, write_pool

DATA = Path(__file__).parent / "data"


def restore(folder: Path, name: str, version: int = 2) -> Path:
    """A campaign with 32 results of tickets, one open ticket and one forgotten, as that version left it."""
    write_pool(folder)
    connection = sqlite3.connect(folder / "c.db")
    connection.executescript((DATA / f"version_{version}_{name}.sql").read_text(encoding="utf-8"))
    assert connection.execute("SELECT version FROM manyarms_schema").fetchone() == (version,)
    connection.close()
    return folder / "c.db"


# What `best(campaign, 3, everywhere=True)` said in version 2. Two results are newer than the saved state, and
# version 3 draws the sketch for them with another random stream, so the predictions agree to 1e-5.
EXPECTED = {
    "given": [
        ("arm 32", 0.968782457, 0.060272551),
        ("arm 23", 0.962167347, 0.057826225),
        ("arm 52", 0.955843988, 0.070151169),
    ],
    "learned": [
        ("arm 32", 0.931899901, 0.016719806),
        ("arm 23", 0.931579208, 0.014512781),
        ("arm 77", 0.929377203, 0.027445035),
    ],
}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_campaign_of_version_2_goes_on(tmp_path: Path, name: str) -> None:
    with Campaign(restore(tmp_path, name)) as campaign:
        found = best(campaign, 3, everywhere=True)
        assert [row.id for row in found] == [id for id, _, _ in EXPECTED[name]]
        assert [row.mean for row in found] == pytest.approx([mean for _, mean, _ in EXPECTED[name]], abs=1e-5)
        assert [row.std for row in found] == pytest.approx([std for _, _, std in EXPECTED[name]], abs=1e-5)
        assert [each.reason for each in campaign.open_tickets()] == ["not recorded"]
        tried = {each.id for each in history(campaign)}
        step(campaign, 5)
        after = history(campaign)
        assert [each.reason for each in after[:32]] == [None] * 32
        assert {each.reason for each in after[32:]} == {"upper bound"}
        if name == "learned":  # repeats are forbidden
            assert not tried & {each.id for each in after[32:]}
    connection = sqlite3.connect(tmp_path / "c.db")
    assert connection.execute("SELECT version FROM manyarms_schema").fetchone() == (len(STEPS),)
    connection.close()


def test_a_category_of_an_earlier_version_keeps_its_texts(tmp_path: Path) -> None:
    """Campaigns without stored column plans know empty cells only, so `none` stays a text of its own."""
    path = tmp_path / "pool.csv"
    path.write_text("name,x,c\n" + "".join(f"a{i},{i},{('none', 'zinc', 'NA')[i % 3]}\n" for i in range(9)))
    pool = Source(path, "name", ("x",), ("c",)).read()
    assert pool.names == ["x", "c = NA", "c = none", "c = zinc"]


# What `best(campaign, 3, everywhere=True)` and `ask(5)` said in version 3.
EXPECTED_3 = {
    "given": (
        [("arm 23", 0.9577548073956805), ("arm 52", 0.9562636598218099), ("arm 32", 0.948562337794874)],
        [23, 32, 23, 23, 32],
    ),
    "learned": (
        [("arm 77", 0.9654107248936457), ("arm 23", 0.9629584657331027), ("arm 32", 0.9468028194766954)],
        [74, 67, 65, 80, 46],
    ),
}


@pytest.mark.parametrize("name", EXPECTED_3)
def test_a_campaign_of_version_3_goes_on_with_the_same_candidates(tmp_path: Path, name: str) -> None:
    top, asked = EXPECTED_3[name]
    with Campaign(restore(tmp_path, name, version=3)) as campaign:
        found = best(campaign, 3, everywhere=True)
        assert [(row.id, row.mean) for row in found] == [(id, pytest.approx(mean)) for id, mean in top]
        issued = campaign.ask(5)
        assert [(each.ticket, each.arm) for each in issued] == list(enumerate(asked, start=34))


def test_tickets_of_version_3_are_accepted_by_their_number_and_new_ones_are_not(tmp_path: Path) -> None:
    with Campaign(restore(tmp_path, "given", version=3)) as campaign:
        assert [each.code for each in campaign.open_tickets()] == ["32"]
        told = campaign.tell_bytes(b"ticket,value\n32,0.5\n33,0.6\n", "r.csv")  # one open, one forgotten
        assert (told.new, told.late) == (2, 1)
        (new,) = campaign.ask(1)
        assert new.code.startswith("34-")
        with pytest.raises(errors.UnknownTicketError, match="ticket 34 has no check"):
            campaign.tell_bytes(b"ticket,value\n34,0.5\n", "r.csv")
        assert campaign.tell_bytes(f"ticket,name,value\n34,{new.id},0.5\n".encode(), "r.csv").new == 1


def test_files_of_ids_imported_by_version_3_are_recognised(tmp_path: Path) -> None:
    """Their names were not recorded; the file held arm 5 twice and arm 6 once."""
    with Campaign(restore(tmp_path, "given", version=3)) as campaign:
        before = len(history(campaign))
        text = "name,value\narm 6,0.25\narm 5,0.5\narm 5,0.5\n"
        told = campaign.tell_bytes(text.encode(), "any name.csv")
        assert (told.new, told.known) == (0, 3)
        assert campaign.tell_bytes(f"{text}arm 9,0.125\n".encode(), "any name.csv").new == 1
        assert len(history(campaign)) == before + 1


def test_a_damaged_state_of_version_2_is_named_in_one_line(tmp_path: Path) -> None:
    connection = sqlite3.connect(restore(tmp_path, "given"))
    data = connection.execute("SELECT data FROM states").fetchone()[0]
    with np.load(io.BytesIO(data)) as archive:
        arrays = {name: archive[name] for name in archive.files}
    manifest = json.loads(arrays["manifest"].tobytes())
    del manifest["ledger"]
    arrays["manifest"] = np.frombuffer(json.dumps(manifest).encode(), dtype=np.uint8)
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    connection.execute("UPDATE states SET data = ?", (stream.getvalue(),))
    connection.commit()
    connection.close()
    done = cli("ask", tmp_path / "c.db")
    assert done.code == 4
    assert done.err.strip().splitlines() == ["manyarms: the saved state: damaged: 'ledger' is missing"]


@pytest.mark.slow
def test_a_campaign_of_version_3_on_a_server_is_upgraded(tmp_path: Path, server: str) -> None:
    """The tables are taken back to version 3, with a batch whose tickets had no checks."""
    import psycopg

    place = fresh_database(server)
    with made(tmp_path, place) as campaign:
        step(campaign, 6)
        issued = campaign.ask(2)
    with psycopg.connect(place, autocommit=True) as connection:
        for statement in (
            "ALTER TABLE campaigns DROP COLUMN settings_digest, DROP COLUMN identity",
            "ALTER TABLE batches DROP COLUMN nonce",
            "ALTER TABLE files DROP COLUMN name",
            "ALTER TABLE states DROP COLUMN digest, DROP COLUMN stale",
            "DROP TABLE corrections",
            "UPDATE manyarms_schema SET version = 3",
        ):
            connection.execute(statement)
    with Campaign(place) as campaign:
        assert [each.code for each in campaign.open_tickets()] == [str(each.ticket) for each in issued]
        assert campaign.tell_bytes(b"ticket,value\n6,0.5\n7,0.6\n", "r.csv").new == 2
        campaign.correct([ticket_row("", "0", None, 0.25)])
        assert [each.ticket for each in campaign.ask(2)] == [8, 9]

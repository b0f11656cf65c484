"""Damaged databases, tampered settings and tampered states are refused with one line when they are opened."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from manyarms import errors
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.store.digests import settings_digest, state_digest
from tests.campaigns.support import LEARNED, cli, made, step

COMMANDS = (["status"], ["ask", "-n", "2"], ["history"], ["best"], ["tell", "r.csv"])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    with made(tmp_path, **LEARNED) as campaign:
        step(campaign, 12)
        step(campaign, 3)
    return tmp_path / "c.db"


def changed(place: Path, statement: str, *values: object) -> None:
    connection = sqlite3.connect(place)
    with connection:
        connection.execute(statement, values)
    connection.close()


def settings_of(place: Path) -> tuple[dict, str, int]:
    connection = sqlite3.connect(place)
    row = connection.execute("SELECT settings, identity, n_arms FROM campaigns").fetchone()
    connection.close()
    return json.loads(row[0]), row[1], row[2]


def refused_everywhere(place: Path, *words: str) -> None:
    (place.parent / "r.csv").write_text("name,value\narm 3,1\n")
    for name, *rest in COMMANDS:
        done = cli(name, place, *(place.parent / "r.csv" if each == "r.csv" else each for each in rest))
        assert (done.code, done.err.count("\n")) == (4, 1), (name, done.out, done.err)
        assert all(word in done.err for word in words), done.err


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.update(seed=1),
        lambda s: s.pop("policy"),
        lambda s: s["source"].pop("features"),
        lambda s: s.update(goal="minimise"),
    ],
    ids=["seed", "policy", "features", "goal"],
)
def test_settings_changed_by_hand(place, change):
    settings, _, _ = settings_of(place)
    change(settings)
    changed(place, "UPDATE campaigns SET settings = ?", json.dumps(settings))
    refused_everywhere(place, "c.db: damaged: the settings do not match their digest")


@pytest.mark.parametrize("text", ["", "[]", "{}", "nonsense", '{"source": 5}', '{"source": {}}'])
def test_settings_that_make_no_sense_although_their_digest_is_right(place, text):
    _, identity, n_arms = settings_of(place)
    digest = settings_digest(identity, text, n_arms)
    changed(place, "UPDATE campaigns SET settings = ?, settings_digest = ?", text, digest)
    refused_everywhere(place, "damaged settings")


def test_a_state_changed_by_hand(place):
    connection = sqlite3.connect(place)
    data = bytearray(connection.execute("SELECT data FROM states").fetchone()[0])
    connection.close()
    data[len(data) // 2] ^= 1
    changed(place, "UPDATE states SET data = ?", bytes(data))
    refused_everywhere(place, "c.db: damaged: the saved state does not match its digest")


def test_a_state_that_was_moved_to_another_moment(place):
    changed(place, "UPDATE states SET sequence = 3")
    refused_everywhere(place, "the saved state does not match its digest")


def test_a_state_that_makes_no_sense_although_its_digest_is_right(place):
    connection = sqlite3.connect(place)
    batch, sequence = connection.execute("SELECT batch, sequence FROM states").fetchone()
    connection.close()
    for data in (b"", b"nonsense", b"PK\x03\x04"):
        digest = state_digest(batch, sequence, data)
        changed(place, "UPDATE states SET data = ?, digest = ?", data, digest)
        with Campaign(place) as campaign, pytest.raises(errors.CheckpointError, match="saved state"):
            campaign.ask(2)


def test_text_that_is_no_text(place):
    changed(place, "UPDATE campaigns SET settings = CAST(x'FFFE00' AS TEXT)")
    refused_everywhere(place, "c.db: ")
    with pytest.raises(errors.DatabaseError):
        Campaign(place)


def flipped(place: Path, places: list[int]) -> None:
    """Change one byte at a time; every command works or says in one line what is wrong."""
    data, refused = place.read_bytes(), 0
    (place.parent / "r.csv").write_text("name,value\narm 3,1\n")
    for at in places:
        for left in place.parent.glob("c.db-*"):
            left.unlink()
        place.write_bytes(data[:at] + bytes([data[at] ^ 0xA5]) + data[at + 1 :])
        for name, *rest in COMMANDS[:3]:
            done = cli(name, place, *rest)
            assert done.code in (0, 3, 4, 5), (at, name, done.out, done.err)
            assert done.err.count("\n") <= 1
            refused += done.code != 0
    assert refused


def test_any_damaged_byte_gives_one_line(place):
    size = place.stat().st_size
    in_header = 18  # the format version; most other bytes of a small database are unused
    flipped(place, [in_header, *np.random.default_rng(0).integers(0, size, 11).tolist()])


@pytest.mark.slow
def test_any_damaged_byte_gives_one_line_tried_often(place):
    size = place.stat().st_size
    flipped(place, [*range(0, 200), *np.random.default_rng(1).integers(0, size, 400).tolist()])

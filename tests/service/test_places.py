"""Campaigns whose files are locked, deleted, replaced or oddly named while they are served."""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path

import httpx
import pytest

import manyarms as ma
from manyarms import errors
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.queries import history
from manyarms.service import places
from manyarms.service.places import Folder
from tests.service.support import campaign_in, in_process


def test_a_campaign_that_is_locked_for_a_moment_is_not_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "_BUSY_SECONDS", 0.05)
    path = campaign_in(tmp_path)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    holder.execute("UPDATE campaigns SET sequence = sequence")
    try:
        assert Folder(tmp_path).names() == ["screen"]
        assert Folder(tmp_path).where("screen") == str(path)
        with pytest.raises(errors.CampaignExistsError):
            Folder(tmp_path).new_place("screen")
    finally:
        holder.close()


def test_a_file_whose_name_is_no_text_is_left_out(tmp_path: Path) -> None:
    path = campaign_in(tmp_path)
    os.link(path, os.fsencode(tmp_path) + b"/\xff.db")
    with in_process(tmp_path) as client:
        assert client.get("/campaigns").json() == {"campaigns": ["screen"]}
        assert client.get("/").status_code == 200


def told(client: httpx.Client, value: float) -> None:
    (ticket,) = client.post("/campaigns/screen/asks", json={"n": 1}).json()["tickets"]
    answer = client.put(f"/campaigns/screen/tickets/{ticket['ticket']}/result", json={"value": value})
    assert answer.json()["new"] == 1


def test_a_file_that_is_replaced_is_served_from_then_on(tmp_path: Path) -> None:
    path = campaign_in(tmp_path)
    with in_process(tmp_path) as client:
        told(client, 1.0)
        before = client.get("/page/screen/model?n=1").json()
        for each in tmp_path.glob("screen.db*"):
            each.unlink()
        assert client.get("/campaigns/screen/status").status_code == 404
        assert client.get("/campaigns").json() == {"campaigns": []}
        assert not path.exists(), "looking for it does not make an empty file"
        campaign_in(tmp_path, budget=7)
        told(client, 2.0)
        status = client.get("/campaigns/screen/status").json()
        assert (status["budget"], status["results"]["values"]) == (7, 1)
        assert client.get("/page/screen/model?n=1").json() != before
    with Campaign(path) as campaign:
        assert [row.value for row in history(campaign)] == [2.0]


def test_the_events_of_a_deleted_campaign_end(tmp_path: Path) -> None:
    campaign_in(tmp_path)
    with in_process(tmp_path) as client, client.stream("GET", "/campaigns/screen/events") as stream:
        lines = stream.iter_lines()
        assert any("change" in line for line in (next(lines) for _ in range(5)))
        for each in tmp_path.glob("screen.db*"):
            each.unlink()
        deadline = time.monotonic() + 60
        for _ in lines:  # it ends, and what it says until then are signs of life
            assert time.monotonic() < deadline


def test_an_open_campaign_writes_into_no_other_file(tmp_path: Path) -> None:
    path = campaign_in(tmp_path)
    with ma.Campaign(path) as campaign:
        batch = campaign.ask(1)
        kept = {each: each.rename(f"{each}.kept") for each in tmp_path.glob("screen.db*")}
        with pytest.raises(errors.NoCampaignError):
            campaign.tell({**batch, "value": [1.0]})
        assert not path.exists()
        campaign_in(tmp_path)
        with pytest.raises(errors.DatabaseError, match="replaced"):
            campaign.tell({**batch, "value": [1.0]})
        for each, elsewhere in kept.items():
            elsewhere.rename(each)
        campaign.tell({**batch, "value": [1.0]})  # it is back

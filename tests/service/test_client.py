"""A campaign at a URL has the methods, the results and the errors of the same campaign in a file."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import manyarms as ma
from manyarms import errors
from manyarms.campaigns.campaign import Campaign
from manyarms.service.client.http import Connection, split_url
from tests.campaigns.support import cli, value_of, write_pool
from tests.service.support import bearer, campaign_in, in_process, new_token


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    campaign_in(tmp_path, budget=60)
    return tmp_path


@pytest.fixture
def url(folder: Path) -> Iterator[str]:
    with in_process(folder) as client:
        yield str(client.base_url.join("/screen"))


def test_the_methods_of_a_campaign_work_over_http(folder: Path, url: str) -> None:
    with ma.Campaign(folder / "screen.db") as local, ma.connect(url) as remote:
        batch = remote.ask(3, worker="robot", lease=600)
        assert list(batch) == list(local.open_tickets())
        assert batch["ticket"] == local.open_tickets()["ticket"]
        assert batch["x1"] == local.open_tickets()["x1"]
        assert remote.tell(batch["ticket"][:2], [0.5, 0.25]).new == 2
        batch["value"] = [math.nan, math.nan, 0.75]
        told = remote.tell(batch)
        assert (told.new, told.unmeasured) == (1, 2)
        assert remote.tell(ids=["arm 3"], values=[0.1]).unasked == 1
        assert remote.history() == local.history()
        assert remote.best(4) == local.best(4)
        ours, theirs = remote.status(), local.status()
        assert {**ours, "campaign": None} == {**theirs, "campaign": None}
        more = remote.ask(2, eligible=["arm 7", "arm 9"])
        assert set(more["name"]) <= {"arm 7", "arm 9"}
        remote.forget(more["ticket"])
        assert local.open_tickets()["ticket"] == []
        assert remote.exclude(["arm 7"]) == 1
        assert remote.readmit(["arm 7"]) == 1
        low = remote.ask(2, eligible="x1 < 0.2")
        assert max(low["x1"]) < 0.2


def test_the_next_batch_is_the_same_over_http(
    folder: Path, url: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("twin")
    campaign_in(other, budget=60)
    with ma.Campaign(other / "screen.db") as local, ma.connect(url) as remote:
        for _ in range(4):
            ours, theirs = remote.ask(3), local.ask(3)
            assert ours["name"] == theirs["name"]
            assert ours["predicted_mean"] == theirs["predicted_mean"]
            for campaign, batch in ((remote, ours), (local, theirs)):
                values = [value_of(x1, x2, 0) for x1, x2 in zip(batch["x1"], batch["x2"], strict=True)]
                campaign.tell(batch["ticket"], values)


def test_errors_have_the_classes_of_a_local_campaign(url: str) -> None:
    with ma.connect(url) as remote:
        with pytest.raises(errors.BudgetSpentError, match="60"):
            remote.ask(61)
        with pytest.raises(errors.NoResultsError):
            remote.best()
        with pytest.raises(errors.UnknownTicketError):
            remote.tell(["99"], [1.0])
        with pytest.raises(errors.UnknownArmError):
            remote.exclude(["nobody"])
        with pytest.raises(errors.ResultsFileError):
            remote.tell(["0"], ["much"])
    with pytest.raises(errors.NoCampaignError):
        ma.connect(url.replace("/screen", "/nothing"))


def test_tokens_come_from_the_call_or_the_environment(
    folder: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = new_token(folder)
    with pytest.raises(errors.NotAuthenticatedError):
        ma.connect(url)
    ma.connect(url, token=token).close()
    monkeypatch.setenv("MANYARMS_TOKEN", token)
    ma.connect(url).close()
    (folder / "token").write_text(token + "\n")
    monkeypatch.setenv("MANYARMS_TOKEN", "wrong")
    monkeypatch.setenv("MANYARMS_TOKEN_FILE", str(folder / "token"))
    ma.connect(url).close()
    monkeypatch.setenv("MANYARMS_TOKEN_FILE", str(folder / "nowhere"))
    with pytest.raises(errors.InvalidParameterError, match="MANYARMS_TOKEN_FILE"):
        ma.connect(url)


def test_a_service_that_does_not_answer_is_named() -> None:
    with pytest.raises(errors.UnreachableServiceError, match=r"127\.0\.0\.1"):
        ma.connect("http://127.0.0.1:9/screen", patience=0)


def test_addresses() -> None:
    assert split_url("https://host/screen") == ("https://host", "screen")
    assert split_url("https://host:81/a/campaigns/screen%207/") == ("https://host:81/a", "screen 7")
    for wrong in (
        "https://host",
        "https://host/",
        "https:///x",
        "https://u:p@host/x",
        "https://host/x?y=1",
        "ftp://host/x",
    ):
        with pytest.raises(errors.InvalidParameterError):
            split_url(wrong)
    connection = Connection("https://host/a b")
    assert connection.path("tickets", "../x") == "/campaigns/a%20b/tickets/..%2Fx"
    connection.close()


# ------------------------------------------------------------------ commands


def test_every_command_takes_a_url(folder: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert cli("ask", url, "-n", 3, "--out", "plate.csv").code == 0
    with open("plate.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    for row in rows:
        row["value"] = str(value_of(float(row["x1"]), float(row["x2"]), 0))
    with open("plate.csv", "w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    assert "Imported 3 new results" in cli("tell", url, "plate.csv").out
    assert "Imported 0 new results" in cli("tell", url, "plate.csv").out
    first = rows[0]["ticket"]
    assert cli("correct", url, "--ticket", first, "--value", "0.5", "--json").json["corrected"] == 1
    (folder / "again.csv").write_text(f"ticket,value,was\n{first},0.6,0.5\n")
    assert cli("correct", url, "again.csv", "--json").json["corrected"] == 1
    assert cli("untell", url, "--ticket", first, "--json").json == {"removed": 1, "tickets": 1}
    assert "2 values" in cli("status", url).out
    assert cli("status", url, "--certify", "--json").json["campaign"] == "screen"
    assert len(cli("best", url, "--json").json["best"]) == 2
    shown = cli("history", url, "--json").json
    assert (shown["total"], len(shown["corrections"])) == (2, 3)
    assert cli("ask", url, "--again", "--json").json["tickets"][0]["ticket"] == first
    assert cli("forget", url, first, "--json").json == {"forgotten": [0]}
    assert cli("exclude", url, "arm 1", "--json").json["excluded"] == ["arm 1"]
    assert cli("exclude", url, "arm 1", "--undo", "--json").json["excluded"] == []
    assert cli("export", url, "out.csv", "--json").json["rows"] == 2
    assert "<html" in (cli("report", url, "--html", "r.html"), Path("r.html").read_text())[1]
    assert cli("ask", url, "-n", 1, "--pool", "pool.csv").code == 2
    done = cli("run", url, "--command", "echo {x1}", "--trials", 3, "--json").json
    assert (done["measured"], done["stopped_because"]) == (3, "trial limit reached")


def test_errors_have_the_exit_codes_of_a_local_campaign(folder: Path, url: str) -> None:
    for command in (["ask", "-n", 61], ["best"], ["status", "--pool", "x"], ["tell", "nowhere.csv"]):
        name, *rest = command
        ours, theirs = cli(name, url, *rest), cli(name, folder / "screen.db", *rest)
        if "--pool" not in rest:
            assert ours.code == theirs.code
            assert ours.err == theirs.err
    assert cli("status", url.replace("screen", "nothing")).code == 4


def test_a_file_that_cannot_be_written_leaves_no_ticket(folder: Path, url: str) -> None:
    (folder / "plate.csv").write_text("mine")
    assert cli("ask", url, "-n", 2, "--out", folder / "plate.csv").code == 4
    assert cli("ask", url, "-n", 2, "--out", folder / "no" / "plate.csv").code == 4
    assert cli("status", url, "--json").json["tickets"]["open"] == 0


def test_a_campaign_is_created_and_grows_over_http(
    folder: Path, url: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("laptop")
    table = write_pool(elsewhere, 30)
    fresh = url.replace("/screen", "/second screen")
    made = cli("new", fresh, "--pool", table, "--id", "name", "--budget", 5, "--minimize", "--json").json
    assert (made["goal"], made["budget"], made["pool"]["candidates"]) == ("minimise", 5, 30)
    assert {each["name"] for each in made["columns"]} == {"name", "x1", "x2", "remark"}
    shown = cli("new", url.replace("/screen", "/third"), "--pool", table, "--id", "name").out
    assert re.search(r"x1 +number +0", shown), "as for a file: what every column is used as"
    again = cli("new", fresh, "--pool", table)
    assert (again.code, "already" in again.err) == (4, True)
    more = elsewhere / "more.csv"
    more.write_text("name,x1,x2,remark\nnew 1,0.5,0.5,shelf 1\nnew 2,0.6,0.5,shelf 2\n")
    assert cli("add", fresh, more, "--json").json == {"added": 2, "candidates": 32}
    assert {each["id"] for each in cli("ask", fresh, "-n", 2, "--json").json["tickets"]}
    twice = cli("add", fresh, more)
    assert twice.code == 3
    assert len(list(folder.glob("second_screen.table-*"))) == 2, "a refused table is deleted"
    with Campaign(folder / "second screen.db") as campaign:
        assert campaign.source.n_arms == 32


def test_only_an_admin_of_every_campaign_creates_one(folder: Path, url: str) -> None:
    import httpx

    base = url.removesuffix("/screen")
    for campaign, scopes, code in (("*", "read,ask,tell", 403), ("new", "admin", 403), ("*", "admin", 201)):
        token = new_token(folder, campaign=campaign, scopes=scopes)
        with open(folder / "pool.csv", "rb") as stream:
            answer = httpx.put(
                f"{base}/campaigns/new",
                params={"name": "pool.csv"},
                content=stream,
                headers=bearer(token),
                timeout=60,
            )
        assert answer.status_code == code, answer.text

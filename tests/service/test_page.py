"""The pages: what they offer to whom, what they never run, and that looking changes nothing."""

from __future__ import annotations

import base64
import csv
import time
from concurrent.futures import Future
from contextlib import closing
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import httpx
import numpy as np
import pytest

import manyarms as ma
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.preview import preview
from manyarms.plots.web import SCRIPTS
from manyarms.service.page import cache, contents
from manyarms.service.page.cache import PageCache
from manyarms.service.page.contents import age, model_parts, rows_parts
from manyarms.service.page.molecules import drawing
from manyarms.service.served import ServedCampaign
from tests.service.support import bearer, campaign_in, in_process, new_token

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{7*7}}\x00"
ACTS = {"ask", "drop", "exclude", "token"}


class Elements(HTMLParser):
    """The elements of a page, with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))


def session(client: httpx.Client, token: str) -> None:
    answer = client.post("/login", data={"token": token})
    assert answer.status_code == 303


def offered(page: str) -> set[str]:
    """The forms and buttons of a page that change something."""
    elements = Elements(page).found
    forms = {attributes.get("id", "") for name, attributes in elements if name == "form"} & ACTS
    acts = {attributes["data-act"] for _, attributes in elements if "data-act" in attributes}
    return forms | (acts - {"why"})  # which changes nothing


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A campaign in which every text is hostile, with results, a failure, a correction and open tickets."""
    with open(tmp_path / "pool.csv", "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["name", "x", HOSTILE.strip("\x00")])
        for arm, x in enumerate(np.random.default_rng(0).random(40).tolist()):
            writer.writerow([f"{HOSTILE.strip(chr(0))} {arm}", x, HOSTILE.strip("\x00")])
    with ma.Campaign.new(tmp_path / "screen.db", tmp_path / "pool.csv", id="name") as campaign:
        batch = campaign.ask(8)
        campaign.tell({**batch, "value": [x * x for x in batch["x"]]})
    with Campaign(tmp_path / "screen.db") as inner:
        issued = inner.ask(4, worker=HOSTILE.strip("\x00"))
        inner.exclude([preview(inner, 2)[0].id], HOSTILE.strip("\x00"))
        assert issued
    return tmp_path


def test_nothing_in_a_page_can_run_or_load(hostile: Path) -> None:
    with in_process(hostile) as client:
        for path in ("/", "/login", "/page/screen"):
            answer = client.get(path)
            assert answer.status_code == 200
            policy = answer.headers["content-security-policy"]
            assert "unsafe" not in policy
            assert "http" not in policy
            assert policy.startswith("default-src 'none'; script-src 'self'")
            check_quiet(answer.text)
        for part in ("rows", "model?n=3"):
            parts = client.get(f"/page/screen/{part}").json()["parts"]
            for markup in parts.values():
                check_quiet(markup)
            assert "&lt;script&gt;alert(1)" in "".join(parts.values())


def check_quiet(page: str) -> None:
    assert "<script>alert" not in page
    assert "\x00" not in page
    for name, attributes in Elements(page).found:
        assert not [each for each in attributes if each.startswith("on") or each == "style"]
        assert name not in ("iframe", "object", "embed", "base", "b", "i")
        if name == "script":
            inline = attributes.get("type") == "application/json"
            assert inline or attributes["src"].startswith("/static/")
        if name == "img":
            assert attributes["src"].startswith("data:image/svg+xml;base64,")
        if name in ("link", "a"):
            assert attributes["href"].startswith(("/", "#", "data:,"))


def test_every_file_that_a_page_loads_is_there(hostile: Path) -> None:
    with in_process(hostile) as client:
        wanted = {
            attributes.get("src") or attributes.get("href", "")
            for path in ("/page/screen", "/login")
            for name, attributes in Elements(client.get(path).text).found
            if name in ("script", "link")
        }
        files = [each for each in wanted if each.startswith("/static/")]
        assert len(files) == len(SCRIPTS) + 7
        for each in files:
            answer = client.get(each)
            assert answer.status_code == 200, each
            assert answer.headers["content-type"].split(";")[0] in ("text/css", "text/javascript")
        for path in ("/static/nothing.js", "/static/..%2Froutes.py", "/static/README.md"):
            assert client.get(path).status_code == 404


def test_a_page_offers_what_its_visitor_may_do(hostile: Path) -> None:
    everything = {*ACTS, "tell", "failed", "forget", "correct", "readmit"}
    expected = {
        "read": set(),
        "read,ask": {"ask", "forget"},
        "read,tell": {"drop", "tell", "failed", "correct"},
        "admin": everything,
    }
    tokens = {scopes: new_token(hostile, scopes=scopes) for scopes in expected}
    only_here = new_token(hostile, campaign="screen", scopes="admin")
    with in_process(hostile) as client:
        for scopes, acts in expected.items():
            client.cookies.clear()
            session(client, tokens[scopes])
            assert offered(client.get("/page/screen").text) == acts, scopes
        client.cookies.clear()
        session(client, only_here)
        assert offered(client.get("/page/screen").text) == everything - {"token"}


def test_strangers_are_led_to_the_login_and_back(hostile: Path) -> None:
    other, asker = new_token(hostile, campaign="other"), new_token(hostile, scopes="ask")
    with in_process(hostile) as client:
        for path in ("/", "/page/screen"):
            answer = client.get(path)
            assert answer.status_code == 303
            assert answer.headers["location"].startswith("/login?next=/")
        assert client.get("/page/screen/rows").status_code == 401
        session(client, other)
        assert client.get("/page/screen").status_code == 403
        assert "screen" not in client.get("/").text
        client.cookies.clear()
        session(client, asker)
        assert client.get("/page/screen").status_code == 403
        assert client.get("/page/screen/model").status_code == 403
        assert client.get("/page/nothing").status_code == 403


def test_the_preview_is_the_next_batch_and_hands_out_nothing(hostile: Path) -> None:
    with in_process(hostile) as client:
        shown = client.get("/page/screen/model?n=5").json()["parts"]["preview"]
        again = client.get("/page/screen/model?n=5").json()["parts"]["preview"]
        assert shown == again
        assert client.get("/campaigns/screen/status").json()["batches"] == 2
        issued = client.post("/campaigns/screen/asks", json={"n": 5}).json()["tickets"]
        named = [a["title"] for name, a in Elements(shown).found if name == "bdi" and "title" in a]
        assert [each["id"] for each in issued] == named
        assert client.get("/page/screen/model?n=x").status_code == 422


def test_the_model_is_computed_once_for_all_who_look(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(
        contents, "preview", lambda campaign, size: calls.append(size) or preview(campaign, size)
    )
    with in_process(hostile) as client:
        for _ in range(3):
            client.get("/page/screen/model?n=4")
        assert calls == [4]
        ticket = client.get("/campaigns/screen/tickets").json()["tickets"][0]["ticket"]
        client.put(f"/campaigns/screen/tickets/{ticket}/result", json={"value": 0.5})
        client.get("/page/screen/model?n=4")
        assert calls == [4, 4]


def test_open_pages_leave_most_of_the_time_of_the_model_to_workers(
    hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans: list[tuple[float, float]] = []

    def slow(campaign: Campaign, size: int) -> dict[str, object]:
        began = time.monotonic()
        time.sleep(0.1)
        found = model_parts(campaign, size)
        spans.append((began, time.monotonic()))
        return found

    monkeypatch.setattr("manyarms.service.page.routes.model_parts", slow)
    with in_process(hostile) as client:
        for ticket in client.get("/campaigns/screen/tickets").json()["tickets"][:2]:
            assert client.get("/page/screen/model?n=3").status_code == 200
            client.put(f"/campaigns/screen/tickets/{ticket['ticket']}/result", json={"value": 0.5})
    first, second = spans
    assert second[0] - first[1] > 0.9 * cache.REST * (first[1] - first[0])


def test_only_a_further_state_of_the_same_page_is_made_to_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "REST", 1e6)
    served, pages = ServedCampaign("screen", str(campaign_in(tmp_path)), lambda _name: None), PageCache()

    def asked(size: int) -> object:
        found = pages._found(served, size, lambda _campaign, size: {"size": size})
        return found.result(60) if isinstance(found, Future) else "rests"

    with closing(served):
        assert asked(3) == asked(3) == {"size": 3}
        served.rows.ask(1)
        assert asked(3) == "rests"
        assert asked(4) == {"size": 4}


def test_an_empty_campaign_has_a_page(tmp_path: Path) -> None:
    campaign_in(tmp_path)
    with in_process(tmp_path) as client:
        assert "There are no results yet" in client.get("/page/screen").text
        model = client.get("/page/screen/model").json()
        assert all(item["spec"] is None for items in model["figures"].values() for item in items)
        assert model["parts"]["preview"].count("<tr>") == 9
        assert client.get("/").text.count("/page/screen") == 1
    (tmp_path / "nothing").mkdir()
    with in_process(tmp_path / "nothing") as client:
        assert "There are no campaigns" in client.get("/").text


def test_parts_hold_what_the_campaign_holds(hostile: Path) -> None:
    with Campaign(hostile / "screen.db") as campaign:
        rows, model = rows_parts(campaign), model_parts(campaign, 3)
        assert (rows["n_tickets"], rows["n_results"], len(rows["excluded"])) == (4, 8, 1)
        assert rows["last_size"] == 4
        assert {ticket["batch"] for ticket in rows["tickets"]} == {2}
        assert [(each["size"], each["open"]) for each in rows["open_batches"]] == [(4, 4)]
        assert len(model["preview"]) == 3
        assert model["preview"][0]["reason"]
        assert rows["excluded"][0] not in [each["id"] for each in model["preview"]]
        assert {item["title"] for items in model["figures"].values() for item in items} >= {
            "Best so far", "Map of the pool", "Calibration", "Batch sizes"
        }  # fmt: skip


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        ("2030-01-02T12:00:00.000+00:00", "now"),
        ("2030-01-02T11:58:59.000+00:00", "1 minute"),
        ("2030-01-02T09:00:00.000+00:00", "3 hours"),
        ("2029-12-30T09:00:00.000+00:00", "3 days"),
    ],
)
def test_ages(moment: str, text: str) -> None:
    assert age(moment, datetime(2030, 1, 2, 12, 0, 0, tzinfo=UTC)) == text


def test_molecules_are_drawn_as_images(tmp_path: Path) -> None:
    address = drawing("CCO")
    assert address is not None
    svg = base64.b64decode(address.partition(",")[2]).decode()
    assert svg.lstrip().startswith("<?xml")
    assert "OH" in svg or "path" in svg
    assert drawing("not a molecule <script>") is None
    assert drawing("") is None
    smiles = ["CCO", "CCN", "CCC", "c1ccccc1", "CC(=O)O", "CO", "CN", "C1CCCCC1", "CCCl", "CCBr"]
    table = "\n".join(f"m{i},{each}" for i, each in enumerate(smiles))
    (tmp_path / "pool.csv").write_text(f"name,smiles\n{table}\n", encoding="utf-8")
    with ma.Campaign.new(tmp_path / "c.db", tmp_path / "pool.csv", id="name", smiles="smiles") as campaign:
        batch = campaign.ask(4)
        campaign.tell({**batch, "value": [1.0, 2.0, 3.0, 4.0]})
        campaign.ask(2)
    with in_process(tmp_path) as client:
        assert client.get("/page/c").text.count("<img") == 2
        model = client.get("/page/c/model?n=3").json()
        assert model["parts"]["preview"].count("<img") == 3
        assert model["parts"]["top"].count("<img") == 4
        assert "no columns" in str(model["figures"]["What the model learned"])


def test_tokens_are_made_by_those_who_may_do_everything(hostile: Path) -> None:
    with in_process(hostile) as client:
        first = {"name": "Ann", "scopes": ["read"]}
        assert client.post("/tokens", json=first).status_code == 422  # it would lock everyone out
        assert client.get("/campaigns").status_code == 200
        made = client.post("/tokens", json={"name": "Ann", "scopes": ["admin"]})
        assert made.status_code == 201
        assert made.json()["was_open"]
        assert client.get("/campaigns").status_code == 401
        admin = bearer(made.json()["token"])
        second = client.post("/tokens", json={**first, "campaign": "screen"}, headers=admin).json()
        listed = client.get("/tokens", headers=admin).text
        assert second["token"] not in listed
        assert second["id"] in listed
        reader = bearer(second["token"])
        for attempt in (
            client.get("/tokens", headers=reader),
            client.post("/tokens", json=first, headers=reader),
        ):
            assert attempt.status_code == 403
        assert client.post("/tokens", json={"name": "x", "scopes": ["fly"]}, headers=admin).status_code == 422
        assert client.post(f"/tokens/{second['id']}/revoke", headers=admin).json() == {
            "revoked": second["id"]
        }
        assert client.get("/campaigns", headers=reader).status_code == 401
        assert client.post("/tokens/000000000000/revoke", headers=admin).status_code == 422

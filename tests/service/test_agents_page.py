"""The page of a run of agents: what it shows, to whom, that it runs nothing foreign, and that it is live."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from manyarms.federation.hub import Hub
from manyarms.federation.member import Member
from manyarms.federation.run_file import RunFile
from manyarms.service.page.agents_contents import run_line, run_parts, size
from manyarms.service.page.agents_routes import PARTS
from manyarms.service.page.routes import rendered
from tests.browser import chromium, watched
from tests.federation.direct import finish, measure, members
from tests.federation.support import Problem, make_problem
from tests.service.support import bearer, in_process, new_token
from tests.service.test_page import HOSTILE, Elements, check_quiet, session

WIDTHS = [1400, 390]


def under_way(folder: Path, name: str = "duets", rounds: int = 6) -> tuple[Problem, Hub, list[Member]]:
    """A run after some exchanges; the name of agent 1 is hostile, and one packet was refused."""
    problem = make_problem(folder, name)
    file = RunFile(problem.run_file)
    problem.invitations[1] = file.invite(1, time.time(), HOSTILE.strip("\x00"))
    file.close()
    hub, agents = problem.hub(), members(problem)
    for _ in range(rounds):
        for member in agents:
            member.incoming(hub.exchange(member.outgoing()))
            measure(member)
    with pytest.raises(Exception, match="too few"):
        hub.exchange(b"nonsense")
    return problem, hub, agents


def table(markup: str) -> list[list[str]]:
    """The cells of a table, as text."""
    rows = markup.partition("<tbody>")[2].partition("</tbody>")[0].split("<tr>")[1:]
    return [[_text(cell) for cell in row.replace("<th ", "<td ").split("<td")[1:]] for row in rows]


def _text(cell: str) -> str:
    inside = cell.partition(">")[2]
    while "<" in inside:
        before, _, rest = inside.partition("<")
        inside = before + rest.partition(">")[2]
    return inside.strip()


def shown_parts(client: httpx.Client, problem: Problem) -> dict[str, str]:
    answer = client.get(f"/agents/{problem.description.run}/parts")
    assert answer.status_code == 200, answer.text
    parts: dict[str, str] = answer.json()["parts"]
    return parts


def test_the_page_shows_what_the_status_says_and_runs_nothing_foreign(tmp_path: Path) -> None:
    problem, hub, agents = under_way(tmp_path)
    with in_process(tmp_path) as client:
        page = client.get(f"/agents/{problem.description.run}/page")
        assert page.status_code == 200
        assert page.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
        parts, status = shown_parts(client, problem), hub.status()
        for markup in (page.text, client.get("/").text, *parts.values()):
            check_quiet(markup)
        assert "&lt;script&gt;alert(1)" in parts["agents"]
        for name, attributes in Elements(page.text).found:
            if name in ("script", "link") and attributes.get("href") != "data:,":
                address = attributes.get("src") or attributes["href"]
                assert client.get(address).status_code == 200, address
        assert [row[:3] for row in table(parts["epochs"])] == [
            [
                str(n),
                "complete" if n < status["epoch"] else "now" if n == status["epoch"] else "later",
                str(t),
            ]
            for n, t in enumerate(status["lengths"], start=1)
        ]
        assert status["epoch"] >= 2
        for row, each in zip(table(parts["agents"]), status["agents"], strict=True):
            assert row[2] == each["state"]
            counts = [each["reals_up"], each["bytes_up"], each["reals_down"], each["bytes_down"]]
            assert [int(cell.replace(",", "")) for cell in row[4:]] == counts
        kinds = table(parts["traffic"])
        assert sum(int(row[4].replace(",", "")) for row in kinds) == status["cost"]["n_bytes"]
        assert sum(int(row[2].replace(",", "")) for row in kinds) == status["cost"]["messages"]
        assert table(parts["log"])[0][1:] == [
            "refused",
            "CorruptPacketError: 8 bytes are too few for a packet",
        ]
        assert str(int(status["active"])) in parts["headline"]
        assert status["best"]["id"] in parts["headline"]

        finish(lambda: hub, [lambda a=a: a for a in agents])
        after = shown_parts(client, problem)
        assert "the run is over" in after["headline"]
        assert {row[1] for row in table(after["epochs"])} == {"complete"}
    text = page.text + "".join(parts.values())
    for invitation in problem.invitations:
        assert invitation.key.hex() not in text
        assert invitation.coin.key.hex() not in text


@pytest.mark.parametrize("name", [pytest.param("dis", marks=pytest.mark.slow), "approx", "separate"])
def test_runs_without_epochs_have_a_page(name: str, tmp_path: Path) -> None:
    _, hub, agents = under_way(tmp_path, name, rounds=1)
    before = run_parts(hub.status(), hub.log(), time.time())
    assert before["epochs"] == []
    finish(lambda: hub, [lambda a=a: a for a in agents])
    parts = run_parts(hub.status(), hub.log(), time.time())
    assert parts["headline"][0] == {"title": "State", "figure": "Over", "note": "the run is over"}
    for part in PARTS:
        check_quiet(rendered(f"agents_{part}", parts=parts, run="0" * 32))
    shared = [tile["figure"] for tile in parts["headline"] if tile["title"] == "Shared trials"]
    told = hub.status().get("shared_pulls", [])
    assert shared == ([] if name == "separate" else [str(sum(told) if isinstance(told, list) else told)])
    line = run_line({"name": "run", **hub.status()})
    assert (line["state"], line["here"], line["refused"]) == ("over", "3 of 3", 1)


def test_a_hostile_candidate_and_a_minimised_value_are_shown_as_they_are(tmp_path: Path) -> None:
    _, hub, _ = under_way(tmp_path)
    status: dict[str, Any] = hub.status()
    status["best"] |= {"id": HOSTILE, "value": -1.25}
    status["units"] = {"sign": -1.0, "mean": 3.0, "scale": 2.0}
    parts = run_parts(status, hub.log(), time.time())
    markup = rendered("agents_headline", parts=parts)
    check_quiet(markup)
    assert "−1.250" in markup
    facts = dict(parts["facts"])
    assert (facts["Goal"], facts["Average value assumed"]) == ("minimise", "−3.000")
    first = status["epochs"][0]
    assert parts["epochs"][0]["bound"] == f"{8.0 * status['width'] * first['sigma_max']:#.4g}"


def test_the_list_names_the_runs_and_a_broken_file_does_not_hide_them(tmp_path: Path) -> None:
    problem, _, _ = under_way(tmp_path)
    (tmp_path / "broken.agents").write_bytes(b"not a run")
    with in_process(tmp_path) as client:
        text = client.get("/").text
        assert f'href="/agents/{problem.description.run}/page"' in text
        assert "3 of 3" in text
        problem.table_file.write_text("other\n1\n")
    with in_process(tmp_path) as client:
        text = client.get("/").text
        assert "run" in text
        assert "not the table of candidates of the run" in text


def test_only_who_may_look_at_everything_sees_the_runs(tmp_path: Path) -> None:
    problem, _, _ = under_way(tmp_path)
    run = problem.description.run
    reader, limited = new_token(tmp_path), new_token(tmp_path, campaign="screen", scopes="admin")
    with in_process(tmp_path) as client:
        assert client.get(f"/agents/{run}/page").headers["location"] == f"/login?next=/agents/{run}/page"
        assert client.get(f"/agents/{run}/parts").status_code == 401
        assert client.get(f"/agents/{run}/parts", headers=bearer(limited)).status_code == 403
        session(client, limited)
        assert client.get(f"/agents/{run}/page").status_code == 403
        assert run not in client.get("/").text
        client.cookies.clear()
        session(client, reader)
        assert client.get(f"/agents/{run}/page").status_code == 200
        assert run in client.get("/").text
        assert client.get(f"/agents/{'0' * 32}/page").status_code == 404
        assert client.get(f"/agents/{'0' * 32}/parts").status_code == 404


@pytest.mark.parametrize(
    ("n", "text"), [(0, "0 B"), (999, "999 B"), (1_500, "1.5 kB"), (2_340_000, "2.3 MB")]
)
def test_sizes(n: int, text: str) -> None:
    assert size(n) == text


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_a_run_in_a_browser(tmp_path: Path, width: int) -> None:
    """The page fits the screen, complains about nothing, and shows the end of the run by itself."""
    problem, hub, agents = under_way(tmp_path)
    with in_process(tmp_path) as client, chromium() as browser, watched(browser, width) as shown:
        shown.open(f"{client.base_url}/agents/{problem.description.run}/page")
        shown.until("document.getElementById('live').textContent === 'live'")
        assert shown.page.evaluate("document.documentElement.scrollWidth") <= width
        assert shown.page.locator("meter").count() == hub.status()["epoch"]
        finish(lambda: hub, [lambda a=a: a for a in agents])
        shown.until("document.querySelector('header dl').textContent.includes('the run is over')")
        assert shown.page.evaluate("document.documentElement.scrollWidth") <= width
    assert shown.complaints == []
    assert all(address.startswith(str(client.base_url)) or address == "data:," for address in shown.requested)

"""Costs over HTTP: the limit of one ask, the rule, what tickets say, and which asks are merged."""

from __future__ import annotations

from pathlib import Path

import pytest

import manyarms as ma
from manyarms import errors
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.orders import Share
from manyarms.campaigns.status import status
from manyarms.cli.new import read_request
from manyarms.service.client.tables import create
from manyarms.service.model_thread import AskRequest
from tests.campaigns.support import cli
from tests.campaigns.test_costs import made, prices, spend, table
from tests.service.support import bearer, in_process, new_token
from tests.service.test_together import merged


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with made(tmp_path, "screen.db", cost_budget=200.0, repeats="forbid") as campaign:
        spend(campaign, 6)
    return tmp_path


def test_an_ask_is_limited_and_says_what_tickets_cost(folder: Path) -> None:
    with in_process(folder) as client:
        url = str(client.base_url.join("/screen"))
        with ma.connect(url) as remote:
            batch = remote.ask(at_most=5, max_cost=12, per_cost=True)
            assert sum(batch["cost"]) <= 12
            assert set(batch["reason"]) == {"gain per cost"}
            assert remote.open_tickets() == batch
            assert remote.status()["costs"]["open"] == pytest.approx(sum(batch["cost"]))
            with pytest.raises(errors.CostLimitError, match="together"):
                remote.ask(50)
            plain = remote.ask(2, per_cost=False)
            assert set(plain["reason"]) == {"upper bound"}
        done = cli("ask", url, "-n", 1, "--max-cost", 9, "--json")
        assert done.code == 0, done
        shown = done.json["tickets"][0]
        assert shown["gain_per_cost"] == shown["gain"] / shown["cost"]
        headers = bearer(new_token(folder))
        for wrong in ({"max_cost": 0}, {"max_cost": "much"}, {"per_cost": "maybe"}):
            assert client.post("/campaigns/screen/asks", json=wrong, headers=headers).status_code == 422


def test_only_asks_without_a_limit_of_their_own_are_merged(folder: Path) -> None:
    def asks(**more: object) -> list[AskRequest]:
        return [
            AskRequest(Share(2, f"w{i}", 60.0, f"{sorted(more)} {i}", "d"), **more)  # type: ignore[arg-type]
            for i in range(2)
        ]

    path, cost = folder / "screen.db", prices(folder)
    parts = [each.result() for each in merged(path, [*asks(), *asks(per_cost=True), *asks(max_cost=6.0)])]
    numbers = [{ticket.batch for ticket in part} for part in parts]  # type: ignore[attr-defined]
    assert numbers[0] == numbers[1]
    assert numbers[2] == numbers[3] != numbers[0]
    assert len({*numbers[4], *numbers[5]}) == 2
    for part in parts[4:]:
        assert sum(cost[ticket.id] for ticket in part) <= 6.0  # type: ignore[attr-defined]


def test_a_campaign_with_costs_is_created_over_http(tmp_path: Path) -> None:
    pool = table(tmp_path)
    (tmp_path / "served").mkdir()
    with in_process(tmp_path / "served") as client:
        given = {"pool": str(pool), "id": "name", "cost": "price", "cost_budget": 50.0, "per_cost": True}
        found = create(str(client.base_url.join("/screen")), read_request(None, given))
        assert found["costs"]["left"] == 50.0
    with Campaign(next((tmp_path / "served").rglob("*.db"))) as campaign:
        assert (campaign.settings.source.cost, campaign.settings.per_cost) == ("price", True)


def test_the_page_shows_what_was_spent(folder: Path) -> None:
    with Campaign(folder / "screen.db") as campaign:
        found = status(campaign)["costs"]
    with in_process(folder) as client:
        headline = client.get("/page/screen/model?n=4").json()["parts"]["headline"]
    assert f'<dt>Spent</dt><dd class="figure">{found["spent"]:.4g}</dd>' in headline
    assert f"{found['left']:.4g} left" in headline

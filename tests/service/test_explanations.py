"""Explanations and expected gains over HTTP: the same as on the database, for those who may read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import manyarms as ma
from manyarms import errors
from manyarms.campaigns.campaign import Campaign
from manyarms.service.page.contents import model_parts
from manyarms.service.page.routes import rendered
from tests.campaigns.support import LEARNED, cli, made, step
from tests.service.support import bearer, in_process, new_token


@pytest.fixture
def told(tmp_path: Path) -> Path:
    with made(tmp_path, "screen.db", **LEARNED) as campaign:
        step(campaign, 12)
        campaign.ask(2)
    return tmp_path


def flat(plain: Any) -> Any:
    """The value with numbers to nine digits: among many candidates the last bits are different ones."""
    if isinstance(plain, dict):
        return {name: flat(each) for name, each in plain.items()}
    if isinstance(plain, list):
        return [flat(each) for each in plain]
    return f"{plain:.9g}" if isinstance(plain, float) else plain


def test_over_http_the_explanations_are_those_of_the_database(told: Path) -> None:
    with ma.Campaign(told / "screen.db") as local:
        expected = local.explain(["arm 3", "arm 7"])
    with in_process(told) as client:
        url = f"{client.base_url}/screen".replace("//screen", "/screen")
        with ma.connect(url) as remote:
            assert remote.explain(["arm 3", "arm 7"]) == expected
            among_others = remote.explain([f"arm {i}" for i in range(60)])[3]
            assert flat(among_others) == flat(expected[0])
            batch = remote.ask(2, explain=True)
            assert all(text.count("arm ") == 3 for text in batch["nearest_measured"])
            with pytest.raises(errors.UnknownArmError):
                remote.explain(["nobody"])
            gains = remote.status(certify=True)["expected_gain"]["gains"]
            assert [each["measurements"] for each in gains] == [2, 4, 8]
        shown = cli("explain", url, "--id", "arm 3", "--json").json["explanations"]
        assert [each["id"] for each in shown] == ["arm 3"]
        assert shown[0]["mean"] == pytest.approx(expected[0]["mean"])
        answer = client.get("/campaigns/screen/explanations")
        assert answer.status_code == 422
        many = client.get("/campaigns/screen/explanations", params={"id": ["arm 1"] * 101})
        assert many.status_code == 422


def test_an_ask_that_would_add_little_is_refused(told: Path) -> None:
    with in_process(told) as client:
        refused = client.post("/campaigns/screen/asks", json={"n": 2, "until_gain": 1e6})
        assert refused.status_code == 409
        assert refused.json()["kind"] == "GainReachedError"
        assert client.post("/campaigns/screen/asks", json={"n": 2, "until_gain": -1}).status_code == 422
        assert client.post("/campaigns/screen/asks", json={"n": 2, "until_gain": 0}).status_code == 201


def test_only_those_who_may_read_are_told(told: Path) -> None:
    admin = bearer(new_token(told, "everything", scopes="admin"))
    teller = bearer(new_token(told, "teller", scopes="tell"))
    with in_process(told) as client:
        where = "/campaigns/screen/explanations?id=arm+3"
        assert client.get(where).status_code == 401
        assert client.get(where, headers=teller).status_code == 403
        assert client.get(where, headers=admin).status_code == 200


def test_the_page_shows_the_gap_and_the_expected_gain(told: Path) -> None:
    with Campaign(told / "screen.db") as campaign:
        stop = model_parts(campaign, 4)["stop"]
    assert [each["n"] for each in stop["gains"]] == [4, 8, 16]
    with in_process(told) as client:
        parts = client.get("/page/screen/model?n=4").json()["parts"]
        assert (
            f'<dt>Expected gain</dt><dd class="figure">{stop["gains"][0]["gain"]}</dd>' in parts["headline"]
        )
        assert f'<dt>Gap</dt><dd class="figure">{stop["gap"]}</dd>' in parts["headline"]
        assert "16 measurements" in parts["preview"]
        assert parts["preview"].count('data-act="why"') == 4


def test_the_page_counts_one_of_something_in_the_singular_and_keeps_numbers_whole(tmp_path: Path) -> None:
    with made(tmp_path, "screen.db", **LEARNED, budget=13) as campaign:
        step(campaign, 12)
    with in_process(tmp_path) as client:
        parts = client.get("/page/screen/model?n=1").json()["parts"]
        assert "from 1 more measurement</dd>" in parts["headline"]
        assert "1 candidate left in the budget" in parts["headline"]
        assert "(1 measurement)" in parts["preview"]
    tiny = {"best": ["1.234×10⁻⁵", "0", "1"], "best_id": "arm 1", "stop": {"gap": None, "gains": []}}
    results = {"values": 1, "candidates": 1, "failed": 0}
    counts = {"best_measured": None, "results": results, "tickets": {}, "batches": 1, "budget_left": 20_000}
    headline = rendered("headline", model=tiny, rows={"status": counts, "n_tickets": 0})
    assert '<dd class="figure long">1.234×10⁻⁵</dd>' in headline
    assert "20,000 candidates left" in headline

"""Expected gains of campaigns: what `status` shows, in which units, and when `ask` and `run` stop at one."""

from __future__ import annotations

import pytest

from manyarms import errors
from manyarms.campaigns import queries
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.next_batch import current
from manyarms.campaigns.status import status
from manyarms.campaigns.workers.running import RunPlan, run
from tests.campaigns.support import LEARNED, cli, made, results, step
from tests.campaigns.test_certificate import Bench


def first_gain(found: dict) -> float:
    return found["gains"][0]["gain"]


def test_status_shows_what_the_last_batch_was_expected_to_add_and_certify_what_the_next_would(tmp_path):
    with made(tmp_path, **LEARNED) as campaign:
        step(campaign, 12)
        assert status(campaign)["expected_gain"] is None  # the first batch was chosen without results
        issued = campaign.ask(6)
        shown = status(campaign)["expected_gain"]
        assert [each["measurements"] for each in shown["gains"]] == [6]
        assert shown["results"] == 12
        campaign.tell_bytes(results(issued).encode(), "results.csv")
        assert status(campaign)["expected_gain"] == shown
    fresh = cli("status", tmp_path / "c.db", "--certify", "--json").json["expected_gain"]
    assert fresh["results"] == 18
    assert [each["measurements"] for each in fresh["gains"]] == [6, 12, 24]
    assert all(each["gain"] > 0 and each["std_error"] > 0 for each in fresh["gains"])
    lines = cli("status", tmp_path / "c.db").out
    assert f"expected gain  {first_gain(shown):.3g} ±" in lines
    assert "from 6 more measurements (an estimate by the model, from 12 results)" in lines


@pytest.mark.parametrize("goal", ["maximise", "minimise"])
def test_it_is_in_the_units_of_the_user_and_positive_whatever_the_goal(tmp_path, goal):
    sign = 1.0 if goal == "maximise" else -1.0
    with made(tmp_path, signal=2.0, mean=5.0, noise=0.1, goal=goal) as campaign:
        for _ in range(3):
            issued = campaign.ask(4)
            campaign.tell_bytes(results(issued, sign).encode(), "results.csv")
        found = queries.judged(campaign)["expected"]
        inside = current(campaign.model_input, queries.snapshot(campaign))[0].expected_gain(4)
        assert first_gain(found) == pytest.approx(2 * inside.gain)
        assert inside.gain > 0


def test_sizes_that_the_budget_or_the_table_does_not_allow_are_left_out(tmp_path):
    with made(tmp_path, budget=30, **LEARNED) as campaign:
        step(campaign, 10)
        found = queries.judged(campaign)["expected"]
        assert [each["measurements"] for each in found["gains"]] == [10, 20]
        step(campaign, 20)
        assert queries.judged(campaign)["expected"]["gains"] == []
        assert status(campaign, **queries.judged(campaign))["expected_gain"]["gains"] == []


def test_excluded_candidates_are_not_counted_on(tmp_path):
    with made(tmp_path, **LEARNED) as campaign:
        step(campaign, 12)
        before = queries.judged(campaign)["expected"]
        worst = [row.id for row in queries.best(campaign, 120, everywhere=True)]
        campaign.exclude(worst[:100])
        after = queries.judged(campaign)["expected"]
        assert first_gain(after) < 0.5 * first_gain(before)


def measured(campaign: Campaign, **plan) -> tuple[int, str]:
    tally = run(campaign, Bench, RunPlan(**plan))
    return tally.measured, tally.stopped_because


def test_a_run_stops_when_a_round_would_add_little_and_continues_with_less(tmp_path):
    with made(tmp_path, **LEARNED) as campaign:
        first, why = measured(campaign, batch=8, until_gain=0.02)
        assert why == "expected gain reached"
        assert 8 < first < 120
        assert first_gain(queries.judged(campaign)["expected"]) <= 0.02
        assert measured(campaign, batch=8, until_gain=0.02) == (0, "expected gain reached")
        more, why = measured(campaign, batch=8, until_gain=1e-4, trials=40)
        assert more > 0


def test_ask_says_that_a_batch_would_add_little_and_hands_out_nothing(tmp_path):
    place = tmp_path / "c.db"
    with made(tmp_path, **LEARNED) as campaign:
        assert len(campaign.ask(4, until_gain=1e9)) == 4  # no result yet, so that nothing is known
        campaign.forget(campaign.choose_open([], None, True))
        step(campaign, 10)
        with pytest.raises(errors.GainReachedError, match=r"expected to add .* from 5 more measurements"):
            campaign.ask(5, until_gain=1e9)
        assert not campaign.open_tickets()
        with pytest.raises(errors.InvalidParameterError, match="until_gain"):
            campaign.ask(until_gain=float("nan"))
    reached = cli("ask", place, "-n", 5, "--until-gain", 1000, "--json")
    assert (reached.code, reached.json["kind"]) == (5, "GainReachedError")
    assert "nothing was handed out" in reached.err
    assert cli("ask", place, "--until-gain", -1).code == 2
    assert cli("ask", place, "-n", 5, "--until-gain", 0).code == 0


def test_the_batch_that_is_handed_out_does_not_depend_on_what_was_looked_at(tmp_path):
    chosen = []
    for name in ("looked.db", "asked.db"):
        with made(tmp_path, name, **LEARNED) as campaign:
            step(campaign, 12)
            if name == "looked.db":
                queries.judged(campaign)
                queries.explain(campaign, ["arm 3"])
            chosen.append([each.id for each in campaign.ask(6, explain=name == "looked.db")])
    assert chosen[0] == chosen[1]

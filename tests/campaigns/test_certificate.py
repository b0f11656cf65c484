"""Certificates of campaigns: what `status` shows, in which units, and when `ask` and `run` stop at a gap."""

from __future__ import annotations

import pytest

from manyarms import errors
from manyarms.campaigns import queries
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.next_batch import current
from manyarms.campaigns.status import status
from manyarms.campaigns.workers.running import RunPlan, run
from tests.campaigns.support import LEARNED, cli, made, results, step, value_of

VOUCHED = {"noise": 0.05, "options": {"norm_bound": 2.0}}


class Bench:
    """Measures the hill of `support.value_of`."""

    def measure(self, job, timeout):
        return value_of(float(job.columns["x1"]), float(job.columns["x2"]), job.ticket)

    def close(self):
        pass


def measured(campaign: Campaign, **plan) -> tuple[int, str]:
    tally = run(campaign, Bench, RunPlan(**plan))
    return tally.measured, tally.stopped_because


def test_status_shows_the_certificate_of_the_last_ask_and_certify_that_of_all_results(tmp_path):
    with made(tmp_path, **VOUCHED) as campaign:
        assert campaign.settings.options["width"] == "auto"
        assert status(campaign)["certificate"] is None
        for _ in range(6):
            step(campaign)
        told = len(queries.history(campaign))
    shown = cli("status", tmp_path / "c.db", "--json").json["certificate"]
    fresh = cli("status", tmp_path / "c.db", "--certify", "--json").json["certificate"]
    assert shown["kind"] == fresh["kind"] == "certificate"
    assert shown["pulls"] < fresh["pulls"] == told
    assert fresh["gap"] > 0
    assert fresh["confidence"] == 0.999
    (batches,) = (each for each in shown["conditions"] if "stopping rule" in each["text"])
    assert batches["status"] == "holds"
    lines = cli("status", tmp_path / "c.db").out
    assert f"{shown['gap']:.6g} worse than the best candidate with probability 0.999 (proved)" in lines
    assert "condition      assumed: the noise is sub-Gaussian with scale 0.05 (for bounds)" in lines


@pytest.mark.parametrize("goal", ["maximise", "minimise"])
def test_it_is_in_the_units_and_with_the_sign_of_the_user(tmp_path, goal):
    sign = 1.0 if goal == "maximise" else -1.0
    given = VOUCHED | {"signal": 2.0, "mean": 5.0, "noise": 0.1, "goal": goal}
    with made(tmp_path, **given) as campaign:
        for _ in range(5):
            issued = campaign.ask()
            campaign.tell_bytes(results(issued, sign).encode(), "results.csv")
        found = queries.certificate(campaign)
        inside = current(campaign.model_input, queries.snapshot(campaign))[0].certificate()
        assert found["gap"] == pytest.approx(2 * inside.gap)
        assert found["regret"] == pytest.approx(2 * inside.regret)
        best = sign * (2 * inside.best_value_bound + sign * 5)
        assert found["best_value_bound"] == pytest.approx(best)
        best_arm = max(range(campaign.pool.n_arms), key=lambda arm: value_at(campaign, arm))
        assert sign * found["best_value_bound"] >= value_at(campaign, best_arm)
        assert sign * found["recommended_value_bound"] <= value_at(campaign, found["arm"])
        assert value_at(campaign, best_arm) - value_at(campaign, found["arm"]) <= found["gap"]


def value_at(campaign: Campaign, arm: int) -> float:
    """The hill without its noise."""
    x1, x2 = campaign.pool.features[arm]
    return value_of(float(x1), float(x2), 0) - (value_of(0.3, 0.6, 0) - 1.0)


@pytest.mark.parametrize(
    "changes", [LEARNED, {}, {"options": {"norm_bound": 2.0}, "mean": "auto"}], ids=["learned", "F", "mean"]
)
def test_whatever_is_not_given_makes_it_an_estimate(tmp_path, changes):
    with made(tmp_path, **changes) as campaign:
        step(campaign, 20)
        found = queries.certificate(campaign)
        assert (found["kind"], found["confidence"]) == ("estimate", 0.95)
        expected = "auto" if changes == LEARNED else 1.5
        assert campaign.settings.options["width"] == expected
        step(campaign)
    assert "(an estimate from draws of the posterior)" in cli("status", tmp_path / "c.db").out


def test_a_requested_size_is_a_condition_that_does_not_hold(tmp_path):
    with made(tmp_path, **VOUCHED) as campaign:
        step(campaign)
        step(campaign, 8)
        step(campaign)
        conditions = status(campaign)["certificate"]["conditions"]
    (batches,) = (each for each in conditions if "stopping rule" in each["text"])
    assert (batches["status"], batches["needed_for"]) == ("does not hold", "sublinear regret")
    assert "1 had a size" in batches["text"]


def test_a_run_stops_at_the_gap_and_continues_with_a_smaller_one(tmp_path):
    with made(tmp_path, **VOUCHED) as campaign:
        first, why = measured(campaign, until_gap=1.0, trials=300)
        assert why == "gap reached"
        assert queries.certificate(campaign)["gap"] <= 1.0
        assert measured(campaign, until_gap=1.0) == (0, "gap reached")
        more, why = measured(campaign, until_gap=0.6, trials=1000)
        assert more > 0
        assert why == "gap reached"
        stepwise = [(each.ticket, each.id) for each in queries.history(campaign)]
    with made(tmp_path, "whole.db", **VOUCHED) as campaign:
        assert measured(campaign, until_gap=0.6, trials=1000)[0] == first + more
        assert [(each.ticket, each.id) for each in queries.history(campaign)] == stepwise


def test_ask_says_that_the_gap_is_reached_and_hands_out_nothing(tmp_path):
    place = tmp_path / "c.db"
    with made(tmp_path, **VOUCHED) as campaign:
        assert len(campaign.ask(until_gap=1e9)) == 1  # no result yet, so that nothing is known
        campaign.forget(campaign.choose_open([], None, True))
        step(campaign)
        with pytest.raises(errors.GapReachedError, match=r"arm \d+ is at most .* worse than the best"):
            campaign.ask(until_gap=1e9)
        assert not campaign.open_tickets()
        with pytest.raises(errors.InvalidParameterError, match="until_gap"):
            campaign.ask(until_gap=float("nan"))
    reached = cli("ask", place, "--until-gap", 1000, "--json")
    assert (reached.code, reached.json["kind"]) == (5, "GapReachedError")
    assert "nothing was handed out" in reached.err
    assert cli("ask", place, "--until-gap", -1).code == 2
    assert cli("ask", place, "--until-gap", "nan").code == 2
    assert cli("ask", place, "--until-gap", 0).code == 0


def test_the_command_stops_at_the_gap(tmp_path):
    with made(tmp_path, **VOUCHED):
        pass
    done = cli("run", tmp_path / "c.db", "--command", "echo 0.5", "--until-gap", 3, "--json")
    assert (done.code, done.json["stopped_because"]) == (0, "gap reached")

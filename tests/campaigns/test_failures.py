"""Failed trials of campaigns: the database is the truth, and what it says decides whether to try again."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace

import pytest

from manyarms import errors
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.results_file import ReportedResult
from manyarms.campaigns.settings import Settings
from manyarms.campaigns.status import status, status_lines
from tests.campaigns.support import LEARNED, SMALL, cli, made, request, value_of, write_pool

KINDS = {"learned": LEARNED, "given": SMALL | {"repeats": "forbid"}}


def fails(issued) -> bool:
    """A third of the table fails: it holds the top of the hill."""
    return float(issued.columns["x1"]) < 0.35


def told(campaign: Campaign, issued, lost) -> None:
    rows = []
    for each, bad in zip(issued, lost, strict=True):
        value = value_of(float(each.columns["x1"]), float(each.columns["x2"]), each.ticket)
        rows.append(f"{each.code},{'' if bad else value},{int(bad)}")
    campaign.tell_bytes("\n".join(["ticket,value,failed", *rows, ""]).encode(), "r.csv")


def rounds(campaign: Campaign, n: int, size: int = 8):
    """The candidates handed out in n batches, with the reason of each."""
    found = []
    for _ in range(n):
        issued = campaign.ask(size)
        told(campaign, issued, [fails(each) for each in issued])
        found += [(each.arm, each.reason) for each in issued]
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_one_process_and_many_hand_out_the_same(tmp_path, kind):
    with made(tmp_path, "one.db", **KINDS[kind]) as campaign:
        kept = rounds(campaign, 6)
    anew = []
    made(tmp_path, "two.db", **KINDS[kind]).close()
    for _ in range(6):
        with Campaign(tmp_path / "two.db") as campaign:
            anew += rounds(campaign, 1)
    assert kept == anew
    with Campaign(tmp_path / "two.db") as campaign:
        found = status(campaign)["failures"]
    assert found["depends"]
    assert found["columns"] == (["x1"] if kind == "learned" else [])
    assert 0.0 < found["success"] < 1.0


def test_dependent_failures_cost_fewer_trials_than_dropping(tmp_path):
    lost = {}
    for name, changes in (("learn", {}), ("drop", {"failures": "drop"})):
        with made(tmp_path, f"{name}.db", **LEARNED, **changes, max_failures=1) as campaign:
            rounds(campaign, 8)
            lost[name] = status(campaign)["results"]["failed"]
    assert lost["learn"] < 0.8 * lost["drop"], lost


def test_status_says_what_failures_look_like(tmp_path):
    place = tmp_path / "c.db"
    with made(tmp_path, **LEARNED) as campaign:
        issued = campaign.ask(20)
        assert "failures" not in dict(status_lines(status(campaign)))
        told(campaign, issued, [place % 4 == 0 for place in range(20)])
        campaign.ask(4)
        line = dict(status_lines(status(campaign)))["failures"]
        assert line.startswith("5 of 20 trials failed; failures look random")
        assert "may be offered again" in line
        assert "predicted success of the last batch 0.7" in line
    assert "5 of 20 trials failed" in cli("status", place).out
    plain = cli("status", place, "--json").json["failures"]
    assert (plain["failed"], plain["trials"], plain["depends"]) == (5, 20, False)


def test_a_column_of_failures_in_other_letters_is_one(tmp_path):
    with made(tmp_path, **KINDS["learned"]) as campaign:
        first, second = campaign.ask(2)
        told = campaign.tell_bytes(
            f"ticket,value,Failed\n{first.code},,yes\n{second.code},1,no\n".encode(), "r.csv"
        )
        assert (told.new, told.failed, told.unmeasured) == (2, 1, 0)


def test_a_candidate_that_failed_comes_again_until_it_is_excluded(tmp_path):
    """Half of 20 candidates are lost once; the next batch is all of those that were not excluded."""
    write_pool(tmp_path, 20)
    with made(tmp_path, **LEARNED) as campaign:
        issued = campaign.ask(20)
        told(campaign, issued, [place % 2 == 0 for place in range(20)])
        lost = {each.id for each in issued[::2]}
        never = sorted(lost)[0]
        campaign.exclude([never])
        again = campaign.ask(9)
        assert {each.id for each in again} == lost - {never}
        assert all(each.reason.endswith("again after a failure") for each in again)
        with pytest.raises(errors.NothingToAskError):
            campaign.ask(1)


def test_drop_is_what_it_was(tmp_path):
    write_pool(tmp_path, 20)
    with made(tmp_path, **LEARNED, failures="drop") as campaign:
        issued = campaign.ask(20)
        told(campaign, issued, [place % 2 == 0 for place in range(20)])
        with pytest.raises(errors.NothingToAskError):
            campaign.ask(1)


def test_corrected_and_removed_failures_are_forgotten(tmp_path):
    write_pool(tmp_path, 12)
    with made(tmp_path, **LEARNED, max_failures=1) as campaign:
        issued = campaign.ask(12)
        told(campaign, issued, [place < 3 for place in range(12)])
        with pytest.raises(errors.NothingToAskError):
            campaign.ask(1)
        campaign.correct([ReportedResult("here", issued[0].ticket, issued[0].id, 0.4)])
        campaign.correct([ReportedResult("here", issued[1].ticket, issued[1].id, None)], remove=True)
        campaign.forget([issued[1].ticket])  # the ticket was open again
        assert [each.id for each in campaign.ask(1)] == [issued[1].id]
        found = status(campaign)["failures"]
        assert (found["failed"], found["trials"]) == (1, 11)


def test_campaigns_of_earlier_versions_drop_failed_candidates(tmp_path):
    with made(tmp_path, **LEARNED) as campaign:
        new = campaign.settings
    plain = json.loads(new.to_json())
    assert plain.pop("failures") == "learn"
    old = Settings.from_json(json.dumps(plain | {"max_failures": 1}))
    assert (old.failures, old.max_failures) == ("drop", 1)
    assert Settings.from_json(new.to_json()) == new
    assert replace(new, failures="drop").run_settings()["failures"] == "drop"


def test_a_state_without_conclusions_is_read(tmp_path):
    """What an ask of an earlier version has stored knows nothing of failures."""
    from manyarms.run.compact_state import CompactState

    with made(tmp_path, **LEARNED) as campaign:
        told(campaign, issued := campaign.ask(10), [place < 4 for place in range(10)])
        assert len(issued) == 10
        campaign.ask(3)
    with sqlite3.connect(tmp_path / "c.db") as database:
        (data,) = database.execute("SELECT data FROM states").fetchone()
    saved = CompactState.from_bytes(data)
    assert saved.failures is not None
    assert CompactState.from_bytes(replace(saved, failures=None).to_bytes()).failures is None


def test_the_commands_take_the_setting(tmp_path):
    write_pool(tmp_path)
    pool, place = tmp_path / "pool.csv", tmp_path / "c.db"
    new = ["new", place, "--pool", pool, "--id", "name", "--features", "x1,x2"]
    assert cli(*new, "--failures", "forget").code == 3
    assert cli(*new, "--failures", "drop", "--max-failures", "2").code == 0
    with Campaign(place) as campaign:
        assert (campaign.settings.failures, campaign.settings.max_failures) == ("drop", 2)
    assert request(pool).failures == "learn"


def test_explanations_show_failures(tmp_path):
    place = tmp_path / "c.db"
    with made(tmp_path, **LEARNED) as campaign:
        rounds(campaign, 4)
        failed = next(each for each in campaign.ask(20) if not fails(each))
        known = {row.id for row in _history(campaign) if row.failed}
    lost = cli("explain", place, "--id", sorted(known)[0], "--json")
    assert lost.code == 0, lost.err
    shown = cli("explain", place, "--id", sorted(known)[0]).out
    assert "failed: " in shown
    assert "predicted probability that a trial succeeds" in shown
    assert failed.id not in known


def _history(campaign: Campaign):
    from manyarms.campaigns.queries import history

    return history(campaign)

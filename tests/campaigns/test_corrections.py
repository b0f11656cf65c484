"""Recorded results can be corrected and removed, with a record of it, and the model follows."""

from __future__ import annotations

import shutil

import pytest

from manyarms import errors
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.export import export
from manyarms.campaigns.queries import best, corrections, history, snapshot
from manyarms.campaigns.results_file import ticket_row
from manyarms.campaigns.status import status
from tests.campaigns.support import LEARNED, cli, made, results, step

POLICIES = [{}, {"noise": "auto", "signal": "auto", "mean": "auto"}, LEARNED, {"policy": "sgpts"}]


def by_ticket(code, value=None):
    return [ticket_row("", code, None, value)]


def by_id(name, value=None):
    return [ticket_row("", "", name, value)]


def wrong_and_right(folder, changes, asked_between):
    """A campaign whose first batch has a wrong value that is corrected, before or after another ask."""
    with made(folder, "wrong.db", **changes) as campaign:
        issued = campaign.ask(12)
        right = results(issued)
        code, value = right.splitlines()[3].split(",")
        campaign.tell_bytes(right.replace(value, "-7.5").encode(), "r.csv")
        if asked_between:
            campaign.tell_bytes(results(campaign.ask(4)).encode(), "r2.csv")
        campaign.correct(by_ticket(code, float(value)), why="a typing error", who="ann")
    return folder / "wrong.db", right


@pytest.mark.parametrize("changes", POLICIES)
def test_a_correction_before_the_next_ask_is_as_if_the_value_had_been_right(tmp_path, changes):
    place, right = wrong_and_right(tmp_path, changes, asked_between=False)
    with Campaign(place) as corrected, made(tmp_path, "right.db", **changes) as other:
        issued = other.ask(12)
        values = [line.split(",")[1] for line in right.splitlines()[1:]]
        lines = "".join(f"{each.code},{value}\n" for each, value in zip(issued, values, strict=True))
        other.tell_bytes(f"ticket,value\n{lines}".encode(), "r.csv")
        assert corrected.ask(5) == other.ask(5)


@pytest.mark.parametrize("changes", POLICIES)
def test_a_correction_of_what_the_model_has_used_reaches_it(tmp_path, changes):
    """Every process gets the same next batch, and the model no longer knows of the wrong value."""
    place, _ = wrong_and_right(tmp_path, changes, asked_between=True)
    shutil.copy(place, tmp_path / "copy.db")
    with Campaign(place) as campaign, Campaign(tmp_path / "copy.db") as cold:
        assert snapshot(campaign).issued is not None
        first = campaign.ask(5)
        assert first == cold.ask(5)
        assert snapshot(campaign).issued is None
        assert [each.ticket for each in first] == list(range(16, 21))
        told = results(first)
        campaign.tell_bytes(told.encode(), "r3.csv")
        # A campaign that was told the corrected results at once, without tickets, has nearly the same model.
        rows = "".join(f"{each.id},{each.value!r}\n" for each in history(campaign))
        with made(tmp_path, "fresh.db", **changes) as fresh:
            fresh.tell_bytes(f"name,value\n{rows}".encode(), "all.csv")
            expected = {row.id: row.mean for row in best(fresh, 120, everywhere=True)}
        found = {row.id: row.mean for row in best(campaign, 120, everywhere=True)}
        assert max(abs(found[id] - expected[id]) for id in expected) < 0.3
        assert min(found.values()) > -1.0, "nothing is near the wrong value of -7.5"


@pytest.mark.parametrize("changes", [{}, LEARNED])
def test_an_ask_that_is_overtaken_by_a_correction_computes_again(tmp_path, monkeypatch, changes):
    with made(tmp_path, **changes) as campaign:
        step(campaign, 12)
        step(campaign, 4)
        wrong = history(campaign)[2]
    shutil.copy(tmp_path / "c.db", tmp_path / "before.db")
    with Campaign(tmp_path / "c.db") as campaign, Campaign(tmp_path / "c.db") as other:
        proposed = campaign._proposed

        def overtaken(seen, order):
            monkeypatch.undo()
            other.correct(by_ticket(wrong.code, 40.0))
            return proposed(seen, order)

        monkeypatch.setattr(campaign, "_proposed", overtaken)
        issued = campaign.ask(4)
        with Campaign(tmp_path / "before.db") as calm:
            calm.correct(by_ticket(wrong.code, 40.0))
            assert calm.ask(4) == issued


def test_a_removed_result_opens_its_ticket_and_is_not_imported_again(tmp_path):
    with made(tmp_path, repeats="forbid") as campaign:
        issued = campaign.ask(10)
        text = results(issued)
        campaign.tell_bytes(text.encode(), "r.csv")
        campaign.ask(3)
        gone = issued[4]
        campaign.correct(by_ticket(gone.code, 0.25))
        campaign.correct(by_ticket(gone.code), why="the wrong vial", who="ann", remove=True)
        assert gone.code in {each.code for each in campaign.open_tickets()}
        assert len(history(campaign)) == 9
        told = campaign.tell_bytes(text.encode(), "r.csv")
        assert (told.new, told.known, told.untold) == (0, 9, 1)
        again = campaign.ask(3)
        assert gone.id not in {each.id for each in again}, "its ticket is open, so it is being measured"
        assert campaign.tell_bytes(f"ticket,value\n{gone.code},0.75\n".encode(), "r2.csv").new == 1
        _, entry = corrections(campaign)
        assert (entry.action, entry.who, entry.why, entry.ticket) == (
            "removed",
            "ann",
            "the wrong vial",
            gone.code,
        )


def test_results_without_a_ticket_are_named_by_their_id_and_value(tmp_path):
    with made(tmp_path) as campaign:
        campaign.tell_bytes(b"name,value\narm 7,1\narm 7,2\narm 7,2\narm 8,5\n", "r.csv")
        with pytest.raises(errors.CorrectionError, match=r"'arm 7' has 3 results: 1\.0, 2\.0, 2\.0"):
            campaign.correct(by_id("arm 7", 3.0))
        with pytest.raises(errors.CorrectionError, match=r"no result 4.0; its results are 1.0, 2.0, 2.0"):
            campaign.correct(by_id("arm 7", 3.0), [4.0])
        with pytest.raises(errors.CorrectionError, match="'arm 9' has no result"):
            campaign.correct([*by_id("arm 8", 6.0), *by_id("arm 9", 3.0)])
        assert [each.value for each in history(campaign)] == [1.0, 2.0, 2.0, 5.0]
        campaign.correct(by_id("arm 7", 3.0), [2.0])
        campaign.correct(by_id("arm 8", None))
        assert [each.value for each in history(campaign)] == [1.0, 2.0, 3.0, None]
        assert status(campaign)["results"]["failed"] == 1
        assert campaign.correct(by_id("arm 8", None)) == [], "nothing to change"


def test_failures_become_values_and_values_failures(tmp_path):
    with made(tmp_path, repeats="forbid", max_failures=1) as campaign:
        issued = campaign.ask(6)
        rows = "".join(f"{each.code},,yes\n" for each in issued[:2]) + f"{issued[2].code},1.0,\n"
        campaign.tell_bytes(f"ticket,value,failed\n{rows}".encode(), "r.csv")
        campaign.ask(2)
        campaign.correct(by_ticket(issued[0].code, 0.5))
        campaign.correct(by_ticket(issued[2].code, None))
        counts = status(campaign)["tickets"]
        assert (counts["told"], counts["failed"], counts["open"]) == (1, 2, 5)
        assert len(campaign.ask(3)) == 3


def test_a_wrong_or_bare_ticket_corrects_nothing(tmp_path):
    with made(tmp_path) as campaign:
        step(campaign, 3)
        for code, words in (
            ("1-zzzzz", "never handed out"),
            ("1", "has no check"),
            ("9", "never handed out"),
        ):
            with pytest.raises(errors.UnknownTicketError, match=words):
                campaign.correct(by_ticket(code, 1.0))
        assert corrections(campaign) == []


def test_the_commands_correct_and_untell(tmp_path):
    place = tmp_path / "c.db"
    with made(tmp_path) as campaign:
        issued = campaign.ask(5)
        text = results(issued)
    (tmp_path / "r.csv").write_text(text)
    (tmp_path / "ids.csv").write_text("name,value\narm 5,1\narm 5,2\narm 6,3\n")
    for name in ("r.csv", "ids.csv"):
        assert cli("tell", place, tmp_path / name).code == 0
    done = cli(
        "correct", place, "--ticket", issued[0].code, "--value", "0.125", "--why", "typo", "--who", "ann"
    )
    assert done.code == 0, done.err
    (tmp_path / "fix.csv").write_text("name,value,was\narm 5,20,2\narm 6,30,\n")
    assert cli("correct", place, tmp_path / "fix.csv", "--json").json == {"corrected": 2, "unchanged": 0}
    assert cli("correct", place, "--id", "arm 6", "--value", "failed").code == 0
    assert cli("untell", place, "--id", "arm 5", "--was", "1", "--why", "spilt").code == 0
    found = cli("history", place, "--all", "--json").json
    assert [(each["id"], each["value"]) for each in found["results"]][5:] == [
        ("arm 5", 20.0),
        ("arm 6", None),
    ]
    assert found["results"][0]["value"] == 0.125
    audit = found["corrections"]
    assert [(each["action"], each["old_value"], each["new_value"]) for each in audit][1:] == [
        ("corrected", 2.0, 20.0), ("corrected", 3.0, 30.0), ("corrected", 30.0, None), ("removed", 1.0, None),
    ]  # fmt: skip
    assert (audit[0]["who"], audit[0]["why"], audit[0]["ticket"]) == ("ann", "typo", issued[0].code)
    assert audit[1]["who"], "the user and the machine"
    shown = cli("history", place).out
    for words in ("5 corrections", "ann", "typo", "spilt", "failed"):
        assert words in shown
    assert "5 corrections" in cli("status", place).out
    assert cli("untell", place, tmp_path / "r.csv").code == 3, "one of its values was corrected"
    (tmp_path / "r.csv").write_text(text.replace(text.splitlines()[1].split(",")[1], "0.125"))
    assert cli("untell", place, tmp_path / "r.csv", "--json").json == {"removed": 5, "tickets": 5}
    for arguments in ([], ["--ticket", "1", "--value", "1", tmp_path / "r.csv"], ["--value", "1"]):
        assert cli("correct", place, *arguments).code == 2


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_an_export_can_be_told_to_a_new_campaign_and_to_its_own(tmp_path, ending):
    path = tmp_path / f"all.{ending}"
    with made(tmp_path) as campaign:
        step(campaign, 5)
        failed = campaign.ask(1)[0]
        campaign.tell_bytes(f"ticket,value,failed\n{failed.code},,1\n".encode(), "f.csv")
        campaign.tell_bytes(b"name,value\narm 5,1\narm 5,1\n", "ids.csv")
        campaign.correct(by_id("arm 5", 2.5), [1.0])
        export(campaign, path)
        expected = [(each.id, each.value, each.failed) for each in history(campaign)]
        told = campaign.tell_file(path)
        assert (told.new, told.known) == (0, 8), "its own export holds nothing new"
        campaign.correct(by_id("arm 5", 3.5), [2.5])
        assert campaign.tell_file(path).new == 0, "nor does an export from before a correction"
        with made(tmp_path, "new.db", id="name") as new:
            new.ask(3)  # with tickets of the same numbers
            assert new.tell_file(path).new == 8
            assert [(each.id, each.value, each.failed) for each in history(new)] == expected
            assert new.tell_file(path).new == 0

"""A ticket is accepted only if it was handed out: a file that a failed ask left behind is refused."""

from __future__ import annotations

import re
import resource
import shutil

import pytest

from manyarms import errors
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.queries import history, ticket_counts
from manyarms.campaigns.store.ticket_codes import parsed_code, ticket_code
from tests.campaigns.support import cli, command, made, results, step


def lost_batch(campaign: Campaign, n: int = 4) -> list:
    """A batch that was written but not handed out, as by a process that was killed before its commit."""
    kept = []

    def killed(issued):
        kept.extend(issued)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        campaign.ask(n, deliver=killed)
    return kept


def test_a_batch_that_was_never_handed_out_is_refused_when_its_numbers_are_used_again(tmp_path):
    with made(tmp_path) as campaign:
        step(campaign, 5)
        orphan = lost_batch(campaign)
        campaign.tell_bytes(b"name,value\narm 3,9\narm 4,9\n", "news.csv")
        issued = campaign.ask(4)
        assert [each.ticket for each in issued] == [each.ticket for each in orphan]
        assert [each.arm for each in issued] != [each.arm for each in orphan]
        before = history(campaign)
        with pytest.raises(errors.UnknownTicketError, match=r"line 2: ticket 5-\w+ was never handed out"):
            campaign.tell_bytes(results(orphan).encode(), "orphan.csv")
        assert history(campaign) == before
        assert campaign.tell_bytes(results(issued).encode(), "batch.csv").new == 4


def _with_little_room() -> None:
    """Files cannot grow beyond 36 kB: a batch file fits, but the log of the database is too long."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (36_000, 36_000))


@pytest.mark.parametrize("before", [None, "old"])
def test_the_file_of_an_ask_that_fails_at_the_commit_is_removed(tmp_path, before):
    """The batch is written, and then the disk is full when the database commits it."""
    with made(tmp_path, repeats="forbid") as campaign:
        step(campaign, 4)
    out = tmp_path / "b.csv"
    if before is not None:
        out.write_text(before)
    ask = ["ask", tmp_path / "c.db", "-n", 110, "--out", out, *(["--force"] if before else [])]
    done = command(*ask, preexec_fn=_with_little_room)
    assert (done.code, "c.db: " in done.err) == (4, True), done.err
    assert (out.read_text() if out.exists() else None) == before
    with Campaign(tmp_path / "c.db") as campaign:
        assert ticket_counts(campaign)["open"] == 0
    names = {path.name for path in tmp_path.iterdir() if not path.name.startswith("c.db-")}
    assert names == {"c.db", "pool.csv", *(["b.csv"] if before else [])}
    assert cli(*ask).code == 0


def test_a_number_alone_is_accepted_only_with_the_id_of_its_candidate(tmp_path):
    with made(tmp_path) as campaign:
        first, second, third = campaign.ask(3)
        with pytest.raises(errors.UnknownTicketError, match=r"r\.csv: line 2: ticket 0 has no check"):
            campaign.tell_bytes(b"ticket,value\n0,1\n", "r.csv")
        other = "arm 1" if first.id != "arm 1" else "arm 2"
        with pytest.raises(errors.ResultsFileError, match="ticket 0 is for"):
            campaign.tell_bytes(f"ticket,name,value\n0,{other},1\n".encode(), "r.csv")
        assert history(campaign) == []
        text = f"ticket,name,value\n0,{first.id},1\n{second.code},,2\n{third.code.upper()},{third.id},3\n"
        assert campaign.tell_bytes(text.encode(), "r.csv").new == 3


def test_names_are_stable_and_differ_between_campaigns_and_copies_of_the_past(tmp_path):
    with made(tmp_path) as campaign:
        issued = campaign.ask(3)
        assert [each.code for each in campaign.open_tickets()] == [each.code for each in issued]
    shutil.copy(tmp_path / "c.db", tmp_path / "backup.db")
    with Campaign(tmp_path / "c.db") as campaign, Campaign(tmp_path / "backup.db") as backup:
        lost, again = campaign.ask(2), backup.ask(2)
        assert lost == again  # the same candidates and predictions
        assert {each.code for each in lost}.isdisjoint(each.code for each in again)
        with pytest.raises(errors.UnknownTicketError):
            backup.tell_bytes(results(lost).encode(), "r.csv")


def test_forget_takes_numbers_and_names_and_checks_a_name(tmp_path):
    with made(tmp_path) as campaign:
        issued = campaign.ask(3)
    place = tmp_path / "c.db"
    wrong = "0-zzzzz"
    done = cli("forget", place, wrong)
    assert (done.code, wrong in done.err) == (3, True)
    assert cli("forget", place, issued[0].code, "1").code == 0
    assert cli("status", place, "--json").json["tickets"]["forgotten"] == 2


def test_a_name_is_a_number_and_a_check_that_no_spreadsheet_takes_for_a_date():
    codes = {ticket_code("a1b2", nonce, 7) for nonce in map(str, range(3000))}
    assert len(codes) > 2980  # of 800 000
    assert all(re.fullmatch(r"7-[a-z][0-9][a-z][0-9][a-z]", code) for code in codes)
    assert ticket_code("a1b2", None, 7) == "7"
    assert parsed_code(" 7-K3F5M ") == (7, "k3f5m")
    assert parsed_code("7") == (7, None)
    for text in ("", "-", "7-", "7-k3-5", "seven", "-1", "7.0", "٧", "9" * 19):
        assert parsed_code(text) is None, text

"""Results files: rows by ticket, by id, or both; replicates, parts, and the same thing told twice."""

from __future__ import annotations

import pytest

from manyarms import errors
from manyarms.campaigns.queries import history
from manyarms.campaigns.results_file import read_results
from manyarms.campaigns.status import status
from tests.campaigns.support import coded, made


@pytest.fixture
def campaign(tmp_path):
    with made(tmp_path) as made_one:
        made_one.ask(6)
        yield made_one


def tell(campaign, text):
    return campaign.tell_bytes(coded(campaign, text).encode(), "r.csv")


def values(campaign):
    return [(each.ticket, each.value) for each in history(campaign)]


def names(campaign):
    return [each.id for each in campaign.open_tickets()]


def test_the_same_file_twice_changes_nothing(campaign):
    text = "ticket,value\n0,1.5\n1,2.5\n"
    assert tell(campaign, text).new == 2
    before = values(campaign)
    assert (tell(campaign, text).new, tell(campaign, text).known) == (0, 2)
    assert values(campaign) == before


def test_a_file_of_ids_only_twice_changes_nothing_and_may_grow(campaign):
    text = "name,value\narm 7,1\narm 7,1\narm 8,2\n"
    assert (tell(campaign, text).new, tell(campaign, text).new) == (3, 0)
    grown = text + "arm 7,1\n"
    told = tell(campaign, grown)
    assert (told.new, told.known) == (1, 3)
    assert tell(campaign, grown).new == 0
    assert len(values(campaign)) == 4


def test_a_file_of_ids_filled_in_later_counts_what_is_new_alone(campaign):
    text = "name,value\narm 7,1\narm 8,\narm 9,3\n"
    assert tell(campaign, text).new == 2
    filled = text.replace("arm 8,", "arm 8,2")
    told = tell(campaign, filled + "arm 10,\n")
    assert (told.new, told.known, told.unmeasured) == (1, 2, 1)
    grown = filled + "arm 10,4\n"
    assert (tell(campaign, grown).new, tell(campaign, text + "arm 10,4\n").new) == (1, 0)
    for same in (text, grown, grown.replace("\n", "\r\n"), '"name","value"' + grown[10:]):
        assert tell(campaign, same).new == 0, same
    assert [value for _, value in values(campaign)] == [1.0, 3.0, 2.0, 4.0]


def test_a_grown_last_line_is_not_taken_for_a_known_one(campaign):
    tell(campaign, "name,value\narm 7,1")
    with pytest.raises(errors.AmbiguousResultsError, match=r"1 changed \(such as arm 7: 1, now 12\)"):
        tell(campaign, "name,value\narm 7,12\n")
    assert [value for _, value in values(campaign)] == [1.0]


def test_ids_settle_open_tickets_first(campaign):
    name = names(campaign)[2]
    told = tell(campaign, f"name,value\n{name},0.5\n{name},0.6\n")
    assert (told.new, told.unasked) == (2, 1)
    assert values(campaign) == [(2, 0.5), (None, 0.6)]
    assert 2 not in [each.ticket for each in campaign.open_tickets()]


def test_a_ticket_named_again_in_one_file_is_a_replicate(campaign):
    assert tell(campaign, "ticket,value\n3,1\n3,2\n3,3\n").unasked == 2
    assert {each.id for each in history(campaign)} == {history(campaign)[0].id}
    assert values(campaign) == [(3, 1.0), (None, 2.0), (None, 3.0)]


def test_parts_in_any_order_failures_and_rows_not_measured_yet(campaign):
    told = tell(campaign, "ticket,value,failed\n5,1,no\n4,,TRUE\n3,,\n2,, \n")
    assert (told.new, told.failed, told.unmeasured) == (2, 1, 2)
    assert status(campaign)["tickets"] == {"open": 4, "told": 1, "failed": 1, "forgotten": 0, "leased": 0}


def test_a_told_ticket_keeps_its_value(campaign):
    tell(campaign, "ticket,value\n0,1\n")
    assert tell(campaign, "ticket,failed,value\n0,,1.0\n").known == 1
    with pytest.raises(errors.ResultsFileError, match=r"line 3.*ticket 0-\w+ already has a result, 1"):
        tell(campaign, "ticket,value\n1,5\n0,2\n")
    assert values(campaign) == [(0, 1.0)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("ticket,outcome\n0,1\n", "no column 'value'"),
        ("number,value\n0,1\n", "no column 'ticket' or 'name'"),
        ("ticket,value,value\n0,1,1\n", "more than once"),
        ("ticket,value\n0,high\n", r"line 2.*'high' is not a number"),
        ("ticket,value\n0,nan\n", "'nan' is not a number"),
        ("ticket,value\n0,1_000\n", "'1_000' is not a number"),
        ("ticket,value\n0,1e200\n", "is too large, the limit is 1e\\+100"),
        ("ticket,value\nzero,1\n", "'zero' is not a ticket"),
        ("ticket,value\n-1,1\n", "'-1' is not a ticket"),
        ("ticket,value\n,1\n", "the row has neither a ticket nor an id"),
        ("ticket,value,failed\n0,1,perhaps\n", "'perhaps' is neither true nor false"),
        ("ticket,value\n0,1,2\n", "line 2 has 3 cells"),
        ("ticket,name,value\n0,arm 999,1\n", "ticket 0 is for"),
        ('ticket,value\n"0,1\n', "not a readable CSV or TSV file"),
        ("ticket,value,failed\n0,5,yes\n", "line 2: the row has the value '5' and is also marked as failed"),
    ],
)
def test_bad_rows_are_named_and_nothing_is_kept(campaign, text, words):
    with pytest.raises(errors.ResultsFileError, match=words):
        tell(campaign, text)
    assert values(campaign) == []
    assert status(campaign)["tickets"]["open"] == 6


def test_unknown_tickets_and_ids_are_named_and_nothing_is_kept(campaign):
    with pytest.raises(errors.UnknownTicketError, match=r"r\.csv: line 3: ticket 99"):
        tell(campaign, "ticket,value\n0,1\n99,1\n")
    with pytest.raises(errors.UnknownArmError, match=r"r\.csv: line 3: .*'arm 999'"):
        tell(campaign, "name,value\narm 1,1\narm 999,1\n")
    with pytest.raises(errors.UnknownTicketError, match="ticket 99999999999999999"):
        tell(campaign, "ticket,value\n99999999999999999,1\n")
    assert values(campaign) == []


def test_tab_separated_files_byte_order_marks_and_strange_ids():
    text = '﻿ticket\tname\tvalue\n\t"a""b,\nc"\t1\n'.encode()
    (row,) = read_results(text, "r.tsv", "name")
    assert (row.ticket, row.name, row.value) == (None, 'a"b,\nc', 1.0)


def test_row_numbers_may_have_zeros_before_them(tmp_path):
    with made(tmp_path, id=None) as campaign:
        (asked,) = campaign.ask(1)
        assert tell(campaign, f"ticket,id,value\n0,00{asked.id},1\n").new == 1
        assert tell(campaign, "id,value\n07,1\n7,2\n").new == 2
        assert [each.id for each in history(campaign)] == [asked.id, "7", "7"]
        for id in ("120", "-1", "seven", "9" * 5000):
            with pytest.raises(errors.UnknownArmError, match=r"line 2: .* is not a row number"):
                tell(campaign, f"id,value\n{id},1\n")

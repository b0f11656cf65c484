"""A results file that was edited and is imported again: what is new, changed or missing."""

from __future__ import annotations

import random

import pytest

from manyarms import errors
from manyarms.campaigns.file_versions import Mode
from manyarms.campaigns.queries import corrections, history
from tests.campaigns.support import cli, made

ROWS = [(f"arm {i}", i / 8) for i in range(50)]


def text(rows):
    return "name,value\n" + "".join(f"{name},{value}\n" for name, value in rows)


@pytest.fixture
def campaign(tmp_path):
    with made(tmp_path) as found:
        found.tell_bytes(text(ROWS).encode(), "lab.csv")
        yield found


def tell(campaign, rows, name="lab.csv", mode=Mode.ASK):
    return campaign.tell_bytes(text(rows).encode(), name, mode)


def recorded(campaign):
    return sorted((each.id, each.value) for each in history(campaign))


def test_sorted_rows_are_the_same_rows(campaign):
    rows = random.Random(0).sample(ROWS, len(ROWS))
    told = tell(campaign, rows, "another folder/lab.csv")
    assert (told.new, told.known, told.missing) == (0, 50, 0)
    assert recorded(campaign) == sorted(ROWS)


def test_deleted_rows_change_nothing_and_are_counted(campaign):
    told = tell(campaign, ROWS[10:])
    assert (told.new, told.known, told.missing) == (0, 40, 10)
    assert len(history(campaign)) == 50


def test_appended_rows_are_new_also_as_replicates(campaign):
    told = tell(campaign, [*reversed(ROWS), ("arm 3", 0.375), ("arm 60", 1.0)])
    assert (told.new, told.known) == (2, 50)
    assert tell(campaign, [*ROWS, ("arm 60", 1.0), ("arm 3", 0.375)]).new == 0


def test_a_changed_value_is_asked_about_and_each_answer_is_obeyed(tmp_path):
    fixed = [("arm 7", 99.0) if name == "arm 7" else (name, value) for name, value in ROWS]
    expected = {
        Mode.CORRECT: (sorted(fixed), 0, 1),
        Mode.REPLICATES: (sorted([*ROWS, ("arm 7", 99.0)]), 1, 0),
        Mode.AS_NEW: (sorted([*ROWS, *fixed]), 50, 0),
    }
    for mode, (after, new, corrected) in expected.items():
        with made(tmp_path, f"{mode}.db") as campaign:
            tell(campaign, ROWS)
            with pytest.raises(errors.AmbiguousResultsError) as problem:
                tell(campaign, fixed)
            message = str(problem.value)
            assert "49 rows known, 1 changed (such as arm 7: 0.875, now 99)" in message
            assert all(option in message for option in ("--correct", "--replicates", "--as-new"))
            assert recorded(campaign) == sorted(ROWS)
            told = tell(campaign, fixed, mode=mode)
            assert (told.new, told.corrected) == (new, corrected)
            assert recorded(campaign) == after
            if mode is not Mode.AS_NEW:  # which means every row, every time
                assert tell(campaign, fixed, mode=mode).new == 0
                assert tell(campaign, fixed).new == 0
            assert tell(campaign, ROWS).new == 0, "the old version of the file is still known"


def test_a_corrected_id_removes_the_wrong_result_and_says_so(campaign):
    moved = [("arm 70", value) if name == "arm 7" else (name, value) for name, value in ROWS]
    with pytest.raises(
        errors.AmbiguousResultsError, match=r"1 new .such as arm 70.*1 missing .such as arm 7:"
    ):
        tell(campaign, moved)
    told = tell(campaign, moved, mode=Mode.CORRECT)
    assert (told.new, told.removed) == (1, 1)
    assert recorded(campaign) == sorted(moved)
    (entry,) = corrections(campaign)
    assert (entry.action, entry.id, entry.old_value) == ("removed", "arm 7", 0.875)
    assert "lab.csv" in entry.why


def test_a_copy_under_another_name_is_asked_about_and_a_real_replicate_is_kept(campaign):
    with pytest.raises(
        errors.AmbiguousResultsError, match=r"50 of 50 rows equal results imported from lab\.csv"
    ):
        tell(campaign, ROWS, "copy.csv")
    with pytest.raises(errors.AmbiguousResultsError, match=r"1 of 1 row equal"):
        tell(campaign, ROWS[:1], "tuesday.csv")
    assert len(history(campaign)) == 50
    assert tell(campaign, ROWS[:1], "tuesday.csv", Mode.AS_NEW).new == 1
    assert tell(campaign, ROWS[:1], "tuesday.csv").new == 0
    rest = [(name, value + 0.5) for name, value in ROWS[:9]]
    assert tell(campaign, [ROWS[12], *rest], "wednesday.csv").new == 10, (
        "one equal value among ten is no copy"
    )


def test_another_file_of_the_same_name_is_another_file_and_both_stay_known(campaign):
    second = [(f"arm {i}", 1.0) for i in range(60, 70)]
    assert tell(campaign, second).new == 10
    assert tell(campaign, ROWS).new == 0
    assert tell(campaign, [*ROWS, *second]).new == 0


def test_only_one_answer_may_be_given_and_a_correction_needs_an_earlier_version(tmp_path, campaign):
    assert cli("tell", tmp_path / "c.db", "-", "--correct", "--as-new", text=text(ROWS)).code == 2
    with pytest.raises(errors.AmbiguousResultsError, match="no earlier version"):
        tell(campaign, [("arm 99", 1.0)], "new.csv", Mode.CORRECT)


def test_the_command_asks_and_obeys(tmp_path, campaign):
    path = tmp_path / "lab.csv"
    path.write_text(text([("arm 0", 5.0), *ROWS[1:]]))
    done = cli("tell", tmp_path / "c.db", path)
    assert (done.code, done.err.count("\n")) == (3, 1)
    assert cli("tell", tmp_path / "c.db", path, "--json").json["kind"] == "AmbiguousResultsError"
    done = cli("tell", tmp_path / "c.db", path, "--correct")
    assert (done.code, "Corrected 1 result and removed 0" in done.out) == (0, True)


def test_tickets_that_differ_are_corrected_or_replicated_on_request(tmp_path):
    with made(tmp_path) as campaign:
        first, second = campaign.ask(2)
        start = f"ticket,value\n{first.code},1\n{second.code},2\n"
        changed = f"ticket,value\n{first.code},1\n{second.code},3\n"
        campaign.tell_bytes(start.encode(), "b.csv")
        with pytest.raises(errors.ResultsFileError, match="--correct to correct it, or --replicates"):
            campaign.tell_bytes(changed.encode(), "b.csv")
        assert campaign.tell_bytes(changed.encode(), "b.csv", Mode.REPLICATES).new == 1
        assert campaign.tell_bytes(changed.encode(), "b.csv", Mode.REPLICATES).new == 0
        assert campaign.tell_bytes(changed.encode(), "b.csv", Mode.CORRECT).corrected == 1
        assert [(each.ticket, each.value) for each in history(campaign)][:2] == [(0, 1.0), (1, 3.0)]
        assert campaign.tell_bytes(start.encode(), "old b.csv").known == 2, (
            "a corrected value is known as well"
        )

"""Candidates that are added, excluded, or eligible for one ask only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from manyarms import errors
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.queries import best
from manyarms.campaigns.settings import Request
from manyarms.campaigns.status import status
from tests.campaigns.support import LEARNED, cli, made, step, value_of, write_pool

HEADER = "name,price,solvent,fresh,made,my note\n"
ROWS = [
    ("a", 10, "water", "yes", "2024-01-01"),
    ("b", 20, "water", "no", "2024-02-01"),
    ("c", 30, "ethanol", "yes", "2024-03-01"),
    ("d", 40, "ethanol", "no", "2024-04-01"),
    ("e", "", "water", "", ""),
    ("f", 60, "", "yes", "2024-06-01"),
]


def table(folder: Path, rows: Any = ROWS, name: str = "pool.csv") -> Path:
    path = folder / name
    path.write_text(HEADER + "".join(",".join(map(str, row)) + f",note {row[0]}\n" for row in rows))
    return path


@pytest.fixture
def small(tmp_path: Path):
    with Campaign.new(tmp_path / "c.db", Request(pool=str(table(tmp_path)), id="name")) as campaign:
        yield campaign


# ------------------------------------------------------------------ conditions


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("price < 30", "ab"),
        ("price <= 30 and solvent == 'water'", "ab"),
        ("solvent == 'ethanol' or price >= 60", "cdf"),
        ("not solvent == 'water'", "cdf"),
        ("solvent != 'water'", "cd"),
        ("solvent in ['ethanol', 'acetone']", "cd"),
        ("solvent not in ('water',)", "cd"),
        ("10 < price < 40", "bc"),
        ("price * 2 - 10 > 50", "df"),
        ("-price > -15", "a"),
        ("price / 0 > 1", "abcdf"),
        ("fresh", "acf"),
        ("fresh == 'no'", "bd"),
        ("fresh and price > 20", "cf"),
        ("made >= '2024-03-01'", "cdf"),
        ("`my note` == 'note e'", "e"),
        ("name in ['a', 'f']", "af"),
        ("price != 10", "bcdf"),
    ],
)
def test_a_condition_selects_the_candidates_that_satisfy_it(small, condition, expected):
    mask = small.eligible(condition)
    assert "".join(np.array(list("abcdef"))[mask]) == expected


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("cost < 3", "no column 'cost'; it has .*'price'"),
        ("price", "a comparison is needed"),
        ("price < 'cheap'", "'cheap' cannot be compared with numbers"),
        ("solvent < 3", "a column of texts cannot be compared with numbers"),
        ("price <", "not a valid expression"),
        ("", "not a valid expression"),
        ("__import__('os').system('true')", "is not a comparison, a column"),
        ("price.real > 1", "'price.real' is not a comparison"),
        ("[p for p in price] == 1", "is not a comparison"),
        ("(lambda: 1)() == 1", "is not a comparison"),
        ("price ** 99999999 > 1", "is not a comparison"),
        ("solvent + 'x' == 'y'", "only numbers can be calculated with"),
        ("price is 3", "write =="),
        ("price in 3", "'in' needs a list"),
        ("f'{price}' == 'x'", "is not a comparison"),
        ("price < 3 and " * 300 + "price < 3", "at most 2000 characters"),
        ("(" * 900 + "price < 3" + ")" * 900, "not a valid expression|nested"),
        ("price < 1" + "0" * 400, "beyond 1e308"),
    ],
)
def test_anything_else_is_refused_and_nothing_is_run(small, condition, why):
    with pytest.raises(errors.SettingsError, match=why):
        small.eligible(condition)


def test_the_candidates_of_a_batch_share_a_value_or_few_of_them_do(small, tmp_path):
    def batch(*options):
        found = cli("ask", tmp_path / "c.db", "-n", "2", *options, "--json")
        tickets = found.json["tickets"]
        cli("forget", tmp_path / "c.db", "--all-open")
        return [each["columns"] for each in tickets]

    assert len({row["fresh"] for row in batch("--same", "fresh")}) == 1
    assert len({row["fresh"] for row in batch("--at-most", "fresh=1")}) == 2
    for options, words in [
        (("--same", "colour"), "candidates cannot be grouped by 'colour': the table has no column"),
        (("--at-most", "fresh=0"), "write a number, or COLUMN=NUMBER"),
        (("--at-most", "1", "-n", "1"), "cannot be combined"),
        (("--at-most", "fresh=1", "--at-most", "fresh=2"), "two limits of this kind"),
    ]:
        done = cli("ask", tmp_path / "c.db", *options)
        assert done.code, options
        assert words in " ".join(done.err.replace("│", " ").split()), done.err
    assert not small.open_tickets()


def test_an_ask_chooses_among_eligible_candidates_only(small, tmp_path):
    done = cli("ask", tmp_path / "c.db", "-n", "2", "--eligible", "price < 30", "--json")
    assert sorted(each["id"] for each in done.json["tickets"]) == ["a", "b"]
    done = cli("ask", tmp_path / "c.db", "-n", "1", "--eligible", "price < 30")
    assert (done.code, "1 arms were asked for, but only 0" in done.err or "no arm" in done.err) == (5, True)
    (tmp_path / "ids.txt").write_text("c\nd\n")
    done = cli("ask", tmp_path / "c.db", "-n", "1", "--eligible-ids", tmp_path / "ids.txt",
               "--eligible", "fresh", "--json")  # fmt: skip
    assert [each["id"] for each in done.json["tickets"]] == ["c"]
    (tmp_path / "ids.csv").write_text("plate,name\n1,d\n1,nobody\n")
    done = cli("ask", tmp_path / "c.db", "--eligible-ids", tmp_path / "ids.csv")
    assert (done.code, "line 3: no candidate of pool.csv has the id 'nobody'" in done.err) == (3, True)
    assert [each.id for each in small.ask(1, eligible="name == 'd'")] == ["d"]
    with pytest.raises(errors.InvalidParameterError, match="mask over all 6"):
        small.ask(1, eligible=np.ones(3, dtype=bool))


# ------------------------------------------------------------------ exclusion


def test_excluded_candidates_are_never_asked_until_they_are_allowed_again(tmp_path):
    with made(tmp_path, repeats="forbid") as campaign:
        kept = {"arm 3", "arm 7"}
        others = [f"arm {i}" for i in range(120) if f"arm {i}" not in kept]
        assert campaign.exclude(others, "broken glass") == 118
        assert campaign.exclude(others[:5]) == 0
        assert {each.id for each in campaign.ask(2)} == kept
        with pytest.raises(errors.NothingToAskError):
            campaign.ask(1)
        assert status(campaign)["pool"]["excluded"] == 118
    done = cli("exclude", tmp_path / "c.db", "arm 5", "--undo", "--json")
    assert (done.json["changed"], len(done.json["excluded"])) == (1, 117)
    with Campaign(tmp_path / "c.db") as campaign:
        assert [each.id for each in campaign.ask(1)] == ["arm 5"]
        with pytest.raises(errors.UnknownArmError, match="'arm 5' is not excluded"):
            campaign.readmit(["arm 6", "arm 5"])
        assert len(campaign.excluded()) == 117
    assert cli("exclude", tmp_path / "c.db", "nobody").code == 3
    assert "117 of them excluded" in cli("status", tmp_path / "c.db").out


def test_the_ticket_of_an_excluded_candidate_stays_valid(tmp_path):
    with made(tmp_path) as campaign:
        issued = campaign.ask(2)
        campaign.exclude([issued[0].id])
        assert campaign.tell_bytes(f"ticket,value\n{issued[0].code},1\n".encode(), "r.csv").new == 1


# ------------------------------------------------------------------ addition


def more_points(folder: Path, n: int = 30, scale: float = 1.0, name: str = "more.csv") -> Path:
    points = (scale * np.random.default_rng(9).random((n, 2))).round(6).tolist()
    rows = "".join(f"new {i},{a},{b},shelf 9\n" for i, (a, b) in enumerate(points))
    (folder / name).write_text("name,x1,x2,remark\n" + rows)
    return folder / name


@pytest.mark.parametrize("settings", [{}, LEARNED], ids=["given", "learned"])
def test_added_candidates_are_asked_for_and_told_like_the_others(tmp_path, place, settings):
    write_pool(tmp_path)
    with made(tmp_path, place, **{**settings, "repeats": "forbid"}) as campaign:
        step(campaign, 20)
        step(campaign, 5)
        before = [row.mean for row in best(campaign, 5)]
        assert campaign.add(more_points(tmp_path)) == 30
        assert [row.mean for row in best(campaign, 5)] == pytest.approx(before, abs=1e-6)
        found = campaign.ask(3, eligible=np.arange(150) >= 120)
        assert all(each.id.startswith("new ") for each in found)
        assert found[0].columns["remark"] == "shelf 9"
        text = "".join(f"{each.code},0.5\n" for each in found)
        assert campaign.tell_bytes(f"ticket,value\n{text}".encode(), "r.csv").new == 3
        assert campaign.tell_bytes(b"name,value\nnew 29,0.25\n", "s.csv").new == 1
        step(campaign, 5)
        assert status(campaign)["pool"]["candidates"] == 150
    with Campaign(place) as campaign:
        assert campaign.pool.n_arms == 150
        step(campaign, 5)


def test_candidates_unlike_the_others_make_the_model_learn_again(tmp_path):
    """The first table has a constant column, which the added one varies."""
    points = np.random.default_rng(0).random((60, 1)).round(4)
    (tmp_path / "pool.csv").write_text(
        "name,x,y\n" + "".join(f"a{i},{p[0]},1\n" for i, p in enumerate(points))
    )
    (tmp_path / "more.csv").write_text("name,x,y\n" + "".join(f"b{i},{i / 40},{i % 5}\n" for i in range(40)))
    with Campaign.new(tmp_path / "c.db", Request(pool=str(tmp_path / "pool.csv"), id="name")) as campaign:
        for _ in range(3):
            rows = "".join(
                f"{e.code},{value_of(float(e.columns['x']), 0.5, e.ticket)}\n" for e in campaign.ask(8)
            )
            campaign.tell_bytes(f"ticket,value\n{rows}".encode(), "r.csv")
        campaign.ask(1)
        campaign.add(tmp_path / "more.csv")
        assert campaign.model_input.prepared_at == 100
        assert [each["column"] for each in status(campaign)["model"]["lengthscales"]] == ["x"]
        issued = campaign.ask(10)
        found = status(campaign)["model"]
        assert {each["column"] for each in found["lengthscales"]} == {"x", "y"}
    with Campaign(tmp_path / "c.db") as campaign:
        assert status(campaign)["model"]["results"] == 24
        assert len({each.arm for each in issued}) == 10
        assert len(campaign.ask(5)) == 5


def test_another_process_notices_an_addition(tmp_path):
    with made(tmp_path, repeats="forbid") as campaign, Campaign(tmp_path / "c.db") as other:
        step(campaign, 5)
        assert cli("add", tmp_path / "c.db", more_points(tmp_path), "--json").json == {
            "added": 30,
            "candidates": 150,
        }
        assert len(campaign.ask(145)) == 145
        assert other.pool.n_arms == 150


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("name,x1\nnew 1,0.5\n", "no column 'x2'"),
        ("name,x1,x2\narm 3,0.5,0.5\n", "the same id 'arm 3'"),
        ("name,x1,x2\nnew 1,low,0.5\n", "'low' is not a number"),
        ("name,x1,x2\nnew 1,,0.5\n", "a cell is empty, but the first table has no empty cell"),
        ("name,x1,x2\nnew 1,inf,0.5\n", "'inf' is not a finite number"),
        ("name,x1,x2\n", "no rows"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_and_nothing_changes(tmp_path, text, why):
    with made(tmp_path) as campaign:
        (tmp_path / "more.csv").write_text(text)
        with pytest.raises(errors.ManyarmsError, match=why):
            campaign.add(tmp_path / "more.csv")
        assert status(campaign)["pool"]["candidates"] == 120
        assert campaign.pool.n_arms == 120


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("g,10,acetone,yes,2024-01-01", "'acetone' is not one of the kinds"),
        ("g,10,water,perhaps,2024-01-01", "'perhaps' is not a yes/no"),
        ("g,10,water,1,2024-01-01", "is not a yes/no"),
        ("g,10,water,yes,01.02.2024", "'01.02.2024' is not a time in the form year-month-day"),
        ("g,,,,", None),
    ],
)
def test_every_column_of_an_added_table_holds_what_it_held(small, tmp_path, row, why):
    (tmp_path / "more.csv").write_text(f"{HEADER}{row},x\n")
    if why is None:
        assert small.add(tmp_path / "more.csv") == 1
        first, *_, last = small.pool.features.tolist()
        assert len(first) == len(last)
        assert small.eligible("name == 'g'").tolist() == [False] * 6 + [True]
    else:
        with pytest.raises(errors.TableError, match=why):
            small.add(tmp_path / "more.csv")

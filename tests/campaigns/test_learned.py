"""A campaign without kernel options learns its model, carries it from ask to ask, and shows it."""

from __future__ import annotations

import csv
import json

import numpy as np
import pandas as pd
import pytest
from sqlalchemy import text, update

import manyarms as ma
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.queries import best, history
from manyarms.campaigns.report import render
from manyarms.campaigns.report.collect import collect_report
from manyarms.campaigns.settings import Request, Settings
from manyarms.campaigns.status import status, status_lines
from manyarms.campaigns.store.schema import CAMPAIGNS
from manyarms.policies import default_policy
from tests.campaigns.support import LEARNED, cli, made, step, value_of, write_pool


def learned(tmp_path, name="c.db", **changes):
    return made(tmp_path, name, **{**LEARNED, **changes})


def snapshot(campaign):
    with campaign.store.reading() as connection:
        return campaign.store.snapshot(connection)


def tell_rows(campaign, values):
    """Results nobody asked for, by id."""
    rows = "".join(f"{name},{value!r}\n" for name, value in values)
    campaign.tell_bytes(f"name,value\n{rows}".encode(), "old.csv")


# ------------------------------------------------------------------ the same search as the library's


@pytest.mark.parametrize("size", [5, None])
def test_a_campaign_chooses_what_a_run_of_the_library_chooses(tmp_path, size):
    """Through design, learning and learning again, though every ask starts from the stored state."""
    with learned(tmp_path, seed=4) as campaign:
        assert campaign.settings.build_policy(None) == default_policy()
        run = ma.Optimizer(campaign.pool, seed=4, repeats="forbid")
        for _ in range(9):
            batch = run.ask(size)
            features = campaign.pool.features[batch.arms].tolist()
            run.tell(batch, [value_of(*x, t) for x, t in zip(features, batch.tickets.tolist(), strict=True)])
            assert step(campaign, size) == batch.arms.tolist()
        found = status(campaign)["model"]
        assert found["learned_again_at_the_next_ask"] == (len(run.history) >= 2 * found["results"])
        assert found["results"] == run.model.n_pulls > 10


def test_a_design_in_small_batches_is_not_begun_again(tmp_path):
    """The state does not remember past batches; what was asked is known from results and open tickets."""
    with learned(tmp_path, repeats="allow") as campaign:
        arms = step(campaign, 4) + [each.arm for each in campaign.ask(3)] + [campaign.ask(1)[0].arm]
        assert len(set(arms)) == 8
    with learned(tmp_path, "whole.db", repeats="allow") as campaign:
        issued = campaign.ask()
        assert issued[0].reason == "initial design"
        assert [each.arm for each in issued][:8] == arms


def test_fresh_offers_a_candidate_again_only_when_all_were_tried(tmp_path):
    np.save(tmp_path / "pool.npy", _columns(12))
    pool = Request(pool=str(tmp_path / "pool.npy"), repeats="fresh")
    with Campaign.new(tmp_path / "c.db", pool) as campaign:
        issued = [campaign.ask(6), campaign.ask(6), campaign.ask(3)]
        assert sorted(each.arm for each in issued[0] + issued[1]) == list(range(12))


# ------------------------------------------------------------------ what is shown


def test_learning_again_is_due_when_results_have_doubled_and_looking_stores_nothing(tmp_path):
    with learned(tmp_path) as campaign:
        assert status(campaign)["model"] is None
        assert ("model", "will be learned from the results, starting with the first ask") in status_lines(
            status(campaign)
        )
        seen = []
        for size in (12, 6, 6, 6):
            step(campaign, size)
            before, found = snapshot(campaign), status(campaign)["model"]
            seen.append((found["results"], found["learned_again_at_the_next_ask"]))
            page, top = collect_report(campaign, k=3), best(campaign, 3)
            assert snapshot(campaign) == before
            assert [each.predicted for each in page.measurements][:13].count(None) == 12
            assert page.top == top
            shown = dict(page.facts)["model"]
            assert "again" not in shown, "the page learns what is due, and shows that model"
        assert seen == [(0, True), (12, False), (12, True), (24, False)]
        assert not any("learned again at the next ask" in line for _, line in status_lines(status(campaign)))
        campaign.ask(6)
        assert status(campaign)["model"]["results"] == 24


def test_before_any_result_no_prediction_is_shown(tmp_path):
    """The model knows no units then; a mean of 0 and a deviation of 1 would be read as predictions."""
    write_pool(tmp_path)
    with learned(tmp_path):
        pass
    for number, shown in ((1, False), (2, True)):
        batch = tmp_path / f"batch{number}.csv"
        assert cli("ask", tmp_path / "c.db", "-n", 6, "--out", batch).code == 0
        with open(batch, newline="", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
        assert len(rows) == 6
        for row in rows:
            assert bool(row["predicted_mean"]) == bool(row["predicted_sd"]) == shown
            row["value"] = str(int(row["name"].split()[1]) % 7)
        with open(batch, "w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        assert cli("tell", tmp_path / "c.db", batch).code == 0
    with ma.Campaign(tmp_path / "c.db") as campaign:
        told = campaign.history()
    assert [each is None for each in told["predicted"]] == [True] * 6 + [False] * 6
    assert [each is None for each in told["predicted_std"]] == [True] * 6 + [False] * 6


def test_status_names_the_columns_by_their_influence(tmp_path):
    write_pool(tmp_path, 300)
    points = np.random.default_rng(0).random((300, 2)).round(6)
    with learned(tmp_path) as campaign:
        tell_rows(campaign, [(f"arm {i}", float(np.sin(9 * points[i, 1]))) for i in range(240)])
        campaign.ask(5)
    found = cli("status", tmp_path / "c.db", "--json").json
    lengths = found["model"]["lengthscales"]
    assert [each["column"] for each in lengths] == ["x2", "x1"]
    assert lengths[0]["lengthscale"] == pytest.approx(lengths[0]["in_spreads"] * points[:, 1].std())
    assert found["model"]["family"].endswith("a length-scale per feature")
    assert found["kernel"] == "auto"
    words = cli("status", tmp_path / "c.db").out
    assert "learned from 240 results of 240 candidates" in words
    assert "length-scales  x2" in words
    assert "assumed        no arm was tried twice" in words
    page = tmp_path / "page.html"
    assert cli("report", tmp_path / "c.db", "--html", page).code == 0
    assert "length-scales" in page.read_text()


def test_intervals_are_in_the_user_s_units_and_cover_heavy_tails(tmp_path):
    """Values over six orders of magnitude; α: at a true share of 0.9 fewer than 30 of 40 has 3e-6."""
    write_pool(tmp_path)
    points = np.random.default_rng(0).random((120, 2)).round(6)
    values = np.exp(7 * np.sin(4 * points[:, 0]) + 0.7 * np.random.default_rng(1).normal(size=120))
    with learned(tmp_path) as campaign:
        tell_rows(campaign, [(f"arm {i}", float(values[i])) for i in range(80)])
        issued = campaign.ask(40)
        inside = [each.lower <= values[each.arm] <= each.upper for each in issued]
        assert sum(inside) >= 30
        assert all(each.lower <= each.predicted <= each.upper for each in issued)
        ranks = np.argsort(np.argsort([each.predicted for each in issued]))
        assert np.corrcoef(ranks, np.argsort(np.argsort([values[e.arm] for e in issued])))[0, 1] > 0.7


# ------------------------------------------------------------------ awkward pools and results


def _columns(n=40):
    return np.random.default_rng(3).random((n, 3))


AWKWARD = {
    "constant rewards": (_columns(), lambda i: 7.0),
    "one huge outlier": (_columns(), lambda i: 1e12 if i % 11 == 3 else float(i % 5)),
    "two distinct arms": (_columns(2)[[0, 1] * 20], lambda i: float(i % 2)),
    "all candidates equal": (np.ones((40, 2)), lambda i: float(i)),
    "one constant column": (np.column_stack([_columns(), np.full(40, 3.0)]), lambda i: float(i % 9)),
    "scales 1e-9 and 1e9": (_columns() * [1e-9, 1.0, 1e9], lambda i: 1e9 * float(_columns()[i, 0]) ** 2),
    "tiny values": (_columns(), lambda i: 1e-9 * float(_columns()[i, 2]) ** 2),
    "one candidate": (_columns(1), lambda i: 1.0),
    "codes": (np.random.default_rng(0).integers(0, 3, (40, 4)), lambda i: float(i % 3)),
    "heavy tailed column": (np.exp(9 * _columns()), lambda i: float(_columns()[i, 1])),
    "all failed": (_columns(), lambda i: None),
}


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_pools_and_results_keep_going_and_say_what_was_assumed(tmp_path, name):
    features, value = AWKWARD[name]
    np.save(tmp_path / "pool.npy", features)
    place, told = tmp_path / "c.db", 0
    Campaign.new(place, Request(pool=str(tmp_path / "pool.npy"), repeats="allow", max_failures=0)).close()
    for size in (None, 7, 7, None):
        with Campaign(place) as campaign:
            issued = campaign.ask(size)
            outcomes = [(each.code, value(each.arm)) for each in issued]
            rows = "".join(f"{t},{'' if v is None else repr(v)},{v is None}\n" for t, v in outcomes)
            told += campaign.tell_bytes(f"ticket,value,failed\n{rows}".encode(), "r").new
            assert all(np.isfinite([each.predicted, each.predicted_std]).all() for each in issued)
            known = status(campaign)["model"]["results"] > 0
            assert {each.lower is not None for each in issued} == {known}, "no units before any result"
            assert not known or all(each.lower <= each.predicted <= each.upper for each in issued)
    with Campaign(place) as campaign:
        found = status(campaign)
        assert told == found["results"]["values"] + found["results"]["failed"] >= 15
        assert found["assumptions"]
        assert json.dumps(found)
        assert render(collect_report(campaign))
        assert len(history(campaign)) == told


def test_a_policy_learns_among_the_kernels_it_can_use_and_is_refused_where_there_is_none(tmp_path):
    """Integers may turn out to be codes, and Fourier features know no Hamming kernel."""
    codes, value = AWKWARD["codes"]
    np.save(tmp_path / "pool.npy", codes)
    with Campaign.new(
        tmp_path / "c.db", Request(pool=str(tmp_path / "pool.npy"), policy="rffts")
    ) as campaign:
        rows = "".join(f"{i},{value(i)}\n" for i in range(30))
        campaign.tell_bytes(f"id,value\n{rows}".encode(), "old.csv")
        assert len(campaign.ask(3)) == 3
        assert status(campaign)["model"]["family"] != "Hamming"
    (tmp_path / "bits.csv").write_text("name,print\n" + "".join(f"m{i},{i:08b}\n" for i in range(60)))
    given = ("--pool", tmp_path / "bits.csv", "--id", "name", "--bits", "print", "--policy", "rffts")
    done = cli("new", tmp_path / "d.db", *given)
    assert done.code == 3
    assert "Tanimoto" in done.err
    assert not (tmp_path / "d.db").exists()


def test_columns_of_bits_are_compared_by_tanimoto_even_where_they_could_be_numbers(tmp_path):
    """One byte a candidate, and none above 1: by its values alone a column of numbers."""
    texts = "".join(f"m{i},0000000{i % 2}\n" for i in range(60))
    (tmp_path / "pool.csv").write_text(f"name,print\n{texts}")
    with Campaign.new(
        tmp_path / "c.db", Request(pool=str(tmp_path / "pool.csv"), id="name", bits="print")
    ) as campaign:
        tell_rows(campaign, [(f"m{i}", float(i % 2)) for i in range(24)])
        assert all(each.arm % 2 for each in campaign.ask(6))
        assert status(campaign)["model"]["family"] == "Tanimoto"
        assert status(campaign)["model"]["lengthscales"] == []
        assert "fingerprints: Tanimoto" in status(campaign)["assumptions"]


# ------------------------------------------------------------------ categories


def mixed_pool(folder, name="mixed.csv"):
    rng, kinds = np.random.default_rng(5), ("red", "green", "blue, dark")
    rows = [(f"m{i}", float(rng.random()), kinds[i % 3], f"lab {i % 2}") for i in range(300)]
    frame = pd.DataFrame(rows, columns=["name", "x", "colour", "where"])
    (frame.to_parquet if name.endswith("parquet") else frame.to_csv)(folder / name, index=False)
    return folder / name, rows


@pytest.mark.parametrize("name", ["mixed.csv", "mixed.parquet"])
def test_columns_of_texts_count_as_categories_where_the_user_says_so(tmp_path, name):
    pool, rows = mixed_pool(tmp_path, name)
    options = ("--pool", pool, "--id", "name", "--categories", "colour", "--categories", "where")
    assert cli("new", tmp_path / "c.db", *options).code == 0
    with Campaign(tmp_path / "c.db") as campaign:
        assert campaign.pool.names == [
            "x", "colour = blue, dark", "colour = green", "colour = red", "where = lab 0", "where = lab 1",
        ]  # fmt: skip
        value = {"red": 0.0, "green": 5.0, "blue, dark": 1.0}
        tell_rows(campaign, [(id, value[colour] + 0.1 * x) for id, x, colour, _ in rows[:240]])
        issued = campaign.ask(6)
        assert {each.columns["colour"] for each in issued} == {"green"}
        found = status(campaign)["model"]["lengthscales"]
        assert found[0]["column"] == "colour"
        assert {each["column"] for each in found} == {"x", "colour", "where"}
        assert campaign.source.feature_columns() == ["x"]
    moved = pool.rename(tmp_path / f"moved {name}")
    with Campaign(tmp_path / "c.db", pool=moved) as campaign:
        assert len(campaign.ask(3)) == 3


def test_columns_are_read_as_the_results_say(tmp_path):
    """Whole numbers that are names, and a category with an order, from the table to the status."""
    rng = np.random.default_rng(6)
    sizes = np.array(["2 kB", "4 kB", "8 kB", "16 kB", "32 kB", "64 kB"])
    lab, place, x = rng.integers(1, 8, size=400), rng.integers(6, size=400), rng.random(400)
    frame = pd.DataFrame({"name": [f"m{i}" for i in range(400)], "lab": lab, "size": sizes[place], "x": x})
    frame.to_csv(tmp_path / "pool.csv", index=False)
    worth = np.array([0.0, 2.0, -1.0, 1.5, -2.0, 0.3, 1.0, -0.5])
    value = worth[lab] - 0.15 * (place - 4 * x) ** 2 + 0.05 * rng.normal(size=400)
    assert cli("new", tmp_path / "c.db", "--pool", tmp_path / "pool.csv", "--id", "name").code == 0
    with Campaign(tmp_path / "c.db") as campaign:
        tell_rows(campaign, [(f"m{i}", float(value[i])) for i in range(120)])
        campaign.ask(4)
        found = status(campaign)["model"]
        assert "; column 'lab' as names, column 'size' in order" in found["family"]
        assert {each["column"] for each in found["lengthscales"]} == {"lab (name)", "size (rank)", "x"}
    with Campaign(tmp_path / "c.db") as again:
        assert status(again)["model"]["kernel"] == found["kernel"]
        assert len(again.ask(4)) == 4


def test_categories_alone_are_compared_as_categories(tmp_path):
    pool, rows = mixed_pool(tmp_path)
    request = Request(pool=str(pool), id="name", features=(), categories=("colour", "where"))
    with Campaign.new(tmp_path / "c.db", request) as campaign:
        tell_rows(campaign, [(id, float(colour == "red")) for id, _, colour, _ in rows[:40]])
        assert {each.columns["colour"] for each in campaign.ask(6)} == {"red"}
        found = status(campaign)["model"]
        assert "categories" in found["family"] or found["family"] == "Hamming"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--categories", "colour", "--features", "x,where"], "'lab 0' is not a number"),
        (["--categories", "colour,where,size"], "no column 'size'"),
        (["--categories", "colour", "--features", "x,colour"], "'colour' is a category and also"),
        (["--categories", "colour", "--smiles", "where"], "only one of"),
    ],
)
def test_categories_that_cannot_be(tmp_path, options, words):
    pool, _ = mixed_pool(tmp_path)
    done = cli("new", tmp_path / "c.db", "--pool", pool, "--id", "name", *options)
    assert (done.code, words in done.err) == (3, True), done.err


def test_too_many_texts_are_no_category(tmp_path):
    (tmp_path / "long.csv").write_text("t\n" + "".join(f"kind {i}\n" for i in range(101)))
    done = cli("new", tmp_path / "c.db", "--pool", tmp_path / "long.csv", "--categories", "t")
    assert (done.code, "101 different texts" in done.err) == (3, True), done.err


# ------------------------------------------------------------------ campaigns of earlier versions


def test_a_campaign_made_before_models_were_learned_goes_on(tmp_path, place):
    """Its settings hold a kernel and no columns, its tickets no intervals, its tables are version 1."""
    with made(tmp_path, place, noise="auto", signal="auto", mean="auto") as campaign:
        step(campaign, 10)
        plain = json.loads(campaign.settings.to_json())
        del plain["columns"], plain["source"]["categories"]
        with campaign.store.writing() as connection:
            for statement in (
                "ALTER TABLE tickets DROP COLUMN predicted_lower",
                "ALTER TABLE tickets DROP COLUMN predicted_upper",
                "UPDATE manyarms_schema SET version = 1",
            ):
                connection.execute(text(statement))
            connection.execute(update(CAMPAIGNS).values(settings=json.dumps(plain)))
    with Campaign(place) as campaign:
        assert not campaign.settings.learned
        step(campaign, 5)
        page = collect_report(campaign)
        assert [each.predicted_lower is None for each in page.measurements] == [True] * 10 + [False] * 5
        assert render(page)
        assert Settings.from_json(campaign.settings.to_json()) == campaign.settings


# ------------------------------------------------------------------ little to go by, and too much


def test_before_any_result_there_are_no_units_to_speak_of(tmp_path):
    with learned(tmp_path) as campaign:
        campaign.ask(3)
        found = status(campaign)
        assert found["model"]["noise_in_units"] is None
        assert dict(status_lines(found))["model"].endswith("until there are results to learn from")


@pytest.mark.parametrize("goal", ["maximise", "minimise"])
def test_an_outlier_between_two_fits_does_not_outweigh_the_rest(tmp_path, goal):
    sign = 1 if goal == "maximise" else -1
    with learned(tmp_path, goal=goal) as campaign:
        rows = [(f"arm {i}", sign * value_of(*campaign.pool.features[i].tolist(), i)) for i in range(30)]
        tell_rows(campaign, rows)
        campaign.ask(2)
        leader = best(campaign, 1)[0].id
        tell_rows(campaign, [("arm 90", -1e6 * sign)])
        assert status(campaign)["model"]["learned_again_at_the_next_ask"]
        assert best(campaign, 1)[0].id == leader


def test_one_result_gives_the_units(tmp_path):
    with learned(tmp_path) as campaign:
        tell_rows(campaign, [("arm 7", 5e9)])
        top = best(campaign, 1)[0]
        assert abs(top.mean - 5e9) < 2 * top.std < 5e9

"""A campaign whose candidates cost different amounts: the column, the budget, and what is said about both."""

from __future__ import annotations

import csv
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

import manyarms as ma
from manyarms import errors
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.queries import batches
from manyarms.campaigns.settings import Request
from manyarms.campaigns.status import status
from manyarms.campaigns.workers.running import RunPlan, run
from tests.campaigns.support import LEARNED, SMALL, cli, results
from tests.campaigns.test_running import Bench

N = 90


def table(folder: Path, name: str = "pool.csv", first: int = 0, **cells: object) -> Path:
    """Candidates with a price; `cells` replaces the price of a candidate by its number, as r3="free"."""
    rng = np.random.default_rng((4, first))
    with open(folder / name, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["name", "x1", "x2", "price"])
        for row in range(N):
            x1, x2, price = rng.random(), rng.random(), f"{rng.uniform(1, 9):.2f}"
            writer.writerow([f"a{first + row}", x1, x2, cells.get(f"r{row}", price)])
    return folder / name


def rows_of(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def prices(folder: Path, *names: str) -> dict[str, float]:
    rows = [row for name in names or ("pool.csv",) for row in rows_of(folder / name)]
    return {row["name"]: float(row["price"]) for row in rows}


def made(folder: Path, name: str = "c.db", **changes: object) -> Campaign:
    pool = folder / "pool.csv"
    given = {"pool": str(pool if pool.exists() else table(folder)), "id": "name", "cost": "price", **SMALL}
    return Campaign.new(folder / name, Request(**{**given, **changes}))


def spend(campaign: Campaign, n: int | None = None, **more: object) -> list[str]:
    issued = campaign.ask(n, **more)
    campaign.tell_bytes(results(issued).encode(), "results.csv")
    return [each.id for each in issued]


def test_the_column_of_costs_is_no_feature_unless_it_is_named(tmp_path):
    with made(tmp_path) as campaign:
        assert campaign.pool.names == ["x1", "x2"]
        roles = {each.name: each.role for each in campaign.settings.source.columns}
        assert roles == {"name": "id", "x1": "number", "x2": "number", "price": "cost"}
        (issued,) = campaign.ask(1)
        assert (issued.cost, issued.gain) == (prices(tmp_path)[issued.id], None)
    with made(tmp_path, "d.db", features=("x1", "price")) as campaign:
        assert campaign.pool.names == ["x1", "price"]
        assert campaign.ask(1)[0].cost is not None


@pytest.mark.parametrize("kernel", ["rbf", "auto"])
@pytest.mark.parametrize("per_cost", [False, True])
def test_the_budget_limits_every_batch_and_the_status_says_so(tmp_path, kernel, per_cost):
    settings = LEARNED if kernel == "auto" else {"repeats": "forbid"}
    with made(tmp_path, cost_budget=100.0, per_cost=per_cost, **settings) as campaign:
        cost, tried = prices(tmp_path), []
        tried += spend(campaign, 6)
        tried += spend(campaign, 4, max_cost=12.0)
        assert sum(cost[name] for name in tried[6:]) <= 12.0
        waiting = [each.id for each in campaign.ask(at_most=5, max_cost=10.0)]
        found = status(campaign)["costs"]
        assert found["spent"] == pytest.approx(sum(cost[name] for name in tried))
        assert found["open"] == pytest.approx(sum(cost[name] for name in waiting))
        assert found["left"] == pytest.approx(100.0 - found["spent"] - found["open"])
        campaign.forget([each.ticket for each in campaign.open_tickets()])
        assert status(campaign)["costs"]["left"] == pytest.approx(100.0 - found["spent"])
        with pytest.raises(errors.CostLimitError, match=r"at least [\d.]+ together"):
            campaign.ask(60)
        while True:
            try:
                tried += spend(campaign)
            except errors.BudgetSpentError:
                break
            assert sum(cost[name] for name in tried) <= 100.0
        left = 100.0 - sum(cost[name] for name in tried)
        assert min(price for name, price in cost.items() if name not in tried) > left
        assert status(campaign)["costs"]["left"] == pytest.approx(left)


def test_whoever_asks_gets_the_same_batch(tmp_path):
    settings = {"cost_budget": 90.0, "per_cost": True, "repeats": "forbid"}
    with made(tmp_path, "a.db", **settings) as kept:
        one = [spend(kept, n) for n in (5, 6, None, 7)]
    other = []
    made(tmp_path, "b.db", **settings).close()
    for n in (5, 6, None, 7):
        with Campaign(tmp_path / "b.db") as campaign:
            other.append(spend(campaign, n))
    assert one == other


def test_one_batch_by_value_per_cost_or_by_bounds(tmp_path):
    for per_cost in (False, True):
        with made(tmp_path, f"{per_cost}.db", per_cost=per_cost) as campaign:
            spend(campaign, 8)
            for now, reason in ((None, per_cost), (True, True), (False, False)):
                issued = campaign.ask(3, per_cost=now)
                assert {each.reason for each in issued} == {"gain per cost" if reason else "upper bound"}
                assert all(each.gain is not None and each.gain >= 0 for each in issued)
                campaign.forget([each.ticket for each in issued])


def test_gains_are_in_the_user_s_units_and_sign(tmp_path):
    """Against the formula: kernel, noise and units are given, so the posterior is normal in these units."""
    from scipy.stats import norm

    for goal, unit in (("maximise", 1.0), ("minimise", 20.0)):
        scale = {"goal": goal, "signal": unit, "noise": 0.1 * unit}
        with made(tmp_path, f"{goal}.db", **scale) as campaign:
            first = campaign.ask(8)
            campaign.tell_bytes(results(first, unit if goal == "maximise" else -unit).encode(), "r.csv")
            issued = campaign.ask(4)
            run, units = campaign.current(campaign_snapshot(campaign))
            mean, _ = run.predict(run.history.arms)
            sign = 1.0 if goal == "maximise" else -1.0
            best = sign * units.value(float(mean.max()))
            for each in issued[:1]:  # chosen before any pull of the batch
                z = (sign * each.predicted - best) / each.predicted_std
                expected = each.predicted_std * (z * norm.cdf(z) + norm.pdf(z))
                assert each.gain == pytest.approx(expected, rel=0.02)
                assert each.gain_per_cost == each.gain / each.cost


def campaign_snapshot(campaign: Campaign):
    with campaign.store.reading() as connection:
        return campaign.store.snapshot(connection)


def test_the_batch_file_shows_cost_and_gain_and_comes_back(tmp_path):
    table(tmp_path)
    place, out = tmp_path / "c.db", tmp_path / "b.csv"
    options = ("--pool", tmp_path / "pool.csv", "--id", "name", "--cost", "price", "--cost-budget", 60)
    assert cli("new", place, *options, "--per-cost").code == 0
    assert cli("ask", place, "-n", 5, "--max-cost", 20, "--out", out).code == 0
    rows = rows_of(out)
    assert [float(row["cost"]) for row in rows] == [float(row["price"]) for row in rows]
    assert [row["gain_per_cost"] for row in rows] == [""] * 5
    assert sum(float(row["cost"]) for row in rows) <= 20
    for place_in_batch, row in enumerate(rows):
        row["value"] = str(place_in_batch)
    with open(out, "w", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    assert cli("tell", place, out).code == 0
    asked = cli("ask", place, "-n", 2, "--json").json["tickets"]
    assert all(each["gain_per_cost"] == each["gain"] / each["cost"] for each in asked)
    again = cli("ask", place, "--again", "--json").json["tickets"]
    assert [each["gain"] for each in again] == [each["gain"] for each in asked]
    shown = cli("status", place).out
    assert "of 60 left; candidates are chosen by gain per cost" in shown
    assert cli("ask", place, "-n", 50).code != 0
    assert "gain_per_cost" in cli("ask", place, "--again").out


def test_without_costs_nothing_is_shown(tmp_path):
    with Campaign.new(tmp_path / "c.db", Request(str(table(tmp_path)), id="name", **SMALL)) as campaign:
        assert campaign.pool.names == ["x1", "x2", "price"]
        assert status(campaign)["costs"] is None
        for wrong in ({"max_cost": 3.0}, {"per_cost": True}):
            with pytest.raises(errors.InvalidParameterError, match="without costs"):
                campaign.ask(2, **wrong)
        assert batches(campaign) == []
    plain = cli("ask", tmp_path / "c.db", "-n", 2, "--json").json["tickets"]
    assert not {"cost", "gain", "gain_per_cost"} & {*plain[0]}
    with ma.Campaign(tmp_path / "c.db") as frames:
        assert "cost" not in frames.open_tickets()


@pytest.mark.parametrize("cell", ["", "free", "0", "-3", "nan", "inf", "1e400"])
def test_a_wrong_cost_is_refused_with_its_row(tmp_path, cell):
    table(tmp_path, r7=cell)
    with pytest.raises(errors.TableError, match=r"line 9.*column 'price'.*is not a positive cost"):
        made(tmp_path)
    assert not (tmp_path / "c.db").exists()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"cost": "prize"}, "no column 'prize'"),
        ({"cost": "name"}, "is the id and cannot be the cost"),
        ({"cost": None, "cost_budget": 5.0}, "cost_budget needs a column of costs"),
        ({"cost": None, "per_cost": True}, "per_cost needs a column of costs"),
        ({"cost_budget": -5.0}, "cost_budget must be a positive"),
        ({"cost_budget": float("nan")}, "cost_budget must be a positive"),
        ({"per_cost": True, "policy": "SGPTS"}, "upper bounds"),
    ],
)
def test_wrong_settings_are_refused(tmp_path, changes, text):
    with pytest.raises((errors.SettingsError, errors.TableError, errors.InvalidParameterError), match=text):
        made(tmp_path, **changes)
    assert not (tmp_path / "c.db").exists()


def test_an_id_column_cannot_have_the_name_of_a_column_of_the_batch_file(tmp_path):
    (tmp_path / "pool.csv").write_text("cost,x,price\n" + "".join(f"a{i},{i},{i + 1}\n" for i in range(9)))
    with pytest.raises(errors.SettingsError, match="reserved"):
        Campaign.new(tmp_path / "c.db", Request(str(tmp_path / "pool.csv"), id="cost", cost="price"))


def test_a_user_s_column_called_cost_keeps_its_place(tmp_path):
    text = "name,x,cost\n" + "".join(f"a{i},{i * i},{i + 1}\n" for i in range(30))
    (tmp_path / "pool.csv").write_text(text)
    request = Request(str(tmp_path / "pool.csv"), id="name", cost="cost")
    Campaign.new(tmp_path / "c.db", request).close()
    assert cli("ask", tmp_path / "c.db", "-n", 2, "--out", tmp_path / "b.csv").code == 0
    rows = rows_of(tmp_path / "b.csv")
    assert [row["pool.cost"] for row in rows] == [row["cost"].removesuffix(".0") for row in rows]
    text = "ticket,value\n" + "".join(f"{row['ticket']},1\n" for row in rows)
    (tmp_path / "b.csv").write_text(text)
    assert cli("tell", tmp_path / "c.db", tmp_path / "b.csv").code == 0


def test_added_candidates_need_costs(tmp_path):
    with made(tmp_path, cost_budget=500.0, repeats="forbid") as campaign:
        spend(campaign, 5)
        (tmp_path / "bare.csv").write_text("name,x1,x2\nz,0.1,0.2\n")
        with pytest.raises(errors.TableError, match="no column 'price'"):
            campaign.add(tmp_path / "bare.csv")
        with pytest.raises(errors.TableError, match=r"column 'price'.*is not a positive cost"):
            campaign.add(table(tmp_path, "wrong.csv", first=500, r0="-1"))
        assert campaign.pool.n_arms == N
        campaign.add(table(tmp_path, "more.csv", first=N))
        cost = prices(tmp_path, "pool.csv", "more.csv")
        issued = campaign.ask(40)
        assert [each.cost for each in issued] == [cost[each.id] for each in issued]
        assert any(int(each.id[1:]) >= N for each in issued)
    with Campaign(tmp_path / "c.db") as again:
        assert again.ask(1)[0].cost is not None


def test_molecules_and_parquet_files_have_costs_too(tmp_path):
    bits = "name,bits,price\n" + "".join(f"m{i},{i:06b},{i + 1}\n" for i in range(40))
    (tmp_path / "bits.csv").write_text(bits)
    request = Request(str(tmp_path / "bits.csv"), id="name", bits="bits", cost="price", cost_budget=99.0)
    with Campaign.new(tmp_path / "bits.db", request) as campaign:
        assert [each.cost for each in campaign.ask(3)] == [
            int(each.id[1:]) + 1 for each in campaign.open_tickets()
        ]
        assert {each.role for each in campaign.settings.source.columns} == {"id", "bits", "cost"}
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pandas.read_csv(table(tmp_path)).to_parquet(tmp_path / "pool.parquet")
    with made(tmp_path, "p.db", pool=str(tmp_path / "pool.parquet")) as campaign:
        cost = prices(tmp_path)
        assert [each.cost for each in campaign.ask(4)] == [
            pytest.approx(cost[each.id]) for each in campaign.open_tickets()
        ]
    np.save(tmp_path / "pool.npy", np.ones((5, 2)))
    with pytest.raises(errors.TableError, match="array file"):
        made(tmp_path, "n.db", pool=str(tmp_path / "pool.npy"), id=None)


@pytest.mark.parametrize(
    "plan", [RunPlan(), RunPlan(batch=7), RunPlan(workers=3)], ids=["one", "rounds", "three"]
)
def test_a_run_stops_at_the_budget(tmp_path, plan):
    with made(tmp_path, cost_budget=70.0, repeats="forbid") as campaign:
        tally = run(campaign, Bench, plan)
        assert tally.stopped_because == "budget spent"
        cost = prices(tmp_path)
        tried = {row.id for row in campaign_history(campaign)}
        assert sum(cost[name] for name in tried) <= 70.0
        left = 70.0 - sum(cost[name] for name in tried)
        assert min(price for name, price in cost.items() if name not in tried) > left


def campaign_history(campaign: Campaign):
    from manyarms.campaigns.queries import history

    return history(campaign)


def test_limits_for_labels_and_costs(tmp_path):
    with made(tmp_path, repeats="forbid") as campaign:
        spend(campaign, 5)
        rules = campaign.structure(at_most=[("price", 1)])
        assert len(campaign.ask(at_most=6, structure=rules, max_cost=9.0)) >= 1
        with pytest.raises(errors.InvalidParameterError, match="at_most"):
            campaign.ask(6, structure=rules, max_cost=9.0)


def test_a_campaign_of_version_6_goes_on_with_the_same_candidates(tmp_path):
    with Campaign.new(tmp_path / "c.db", Request(str(table(tmp_path)), id="name", **SMALL)) as campaign:
        spend(campaign, 4)
        campaign.ask(2)
    shutil.copy(tmp_path / "c.db", tmp_path / "old.db")
    connection = sqlite3.connect(tmp_path / "old.db")
    for column in ("cost", "gain"):
        connection.execute(f"ALTER TABLE tickets DROP COLUMN {column}")
    connection.execute("UPDATE manyarms_schema SET version = 6")
    connection.commit()
    connection.close()
    asked = []
    for name in ("c.db", "old.db"):
        with Campaign(tmp_path / name) as campaign:
            asked.append([(each.ticket, each.arm, each.predicted) for each in campaign.ask(5)])
            assert [each.cost for each in campaign.open_tickets()] == [None] * 7
    assert asked[0] == asked[1]


def test_a_frame_and_python(tmp_path):
    place = tmp_path / "c.db"
    with ma.Campaign.new(
        place, table(tmp_path), id="name", cost="price", cost_budget=80, per_cost=True
    ) as one:
        batch = one.ask(4, max_cost=15)
        assert sum(batch["cost"]) <= 15
        assert batch["cost"] == batch["price"]
        one.tell(batch["ticket"], [1.0, 2.0, 3.0, 4.0])
        more = one.ask(2, per_cost=False)
        assert all(gain > 0 for gain in more["gain_per_cost"])
        assert one.open_tickets()["gain_per_cost"] == more["gain_per_cost"]
        assert one.status()["costs"]["per_cost"] is True

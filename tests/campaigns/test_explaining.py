"""Explanations of campaigns: in the user's units and cells, by command, in files, from Python."""

from __future__ import annotations

import csv

import numpy as np
import pytest

import manyarms as ma
from manyarms import errors
from manyarms.campaigns import queries
from manyarms.campaigns.batch_file import EXPLAINED
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.results_file import ReportedResult
from manyarms.campaigns.settings import Request
from tests.campaigns.support import LEARNED, cli, made, results, step


@pytest.fixture
def mixed(tmp_path):
    """A campaign with numbers, one of them with gaps, and a category, and 40 results to be minimised."""
    rng = np.random.default_rng(2)
    rows = []
    for arm in range(150):
        heat, gap = rng.uniform(20, 80), rng.uniform(0, 1)
        solvent = rng.choice(["water", "dmso", "thf"])
        missing = "" if arm % 9 == 0 else f"{gap:.2f}"
        rows.append([f"r{arm}", f"{heat:.1f}", missing, solvent, "a remark"])
    with open(tmp_path / "pool.csv", "w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([["code", "heat", "gap", "solvent", "note"], *rows])
    with Campaign.new(
        tmp_path / "c.db", Request(pool=str(tmp_path / "pool.csv"), id="code", goal="minimise")
    ) as campaign:
        values = [((float(r[1]) - 50) / 10) ** 2 + 5.0 * (r[3] == "thf") + 100 for r in rows[:40]]
        campaign.tell_rows([ReportedResult("", None, r[0], v) for r, v in zip(rows, values, strict=False)])
    return tmp_path / "c.db"


def test_columns_are_the_users_and_speak_for_small_values_if_those_are_wanted(mixed):
    with Campaign(mixed) as campaign:
        (found,) = queries.explain(campaign, ["r100"])
        cells = campaign.source.cells_of([100])[0]
        of_best = campaign.source.cells_of(list(campaign._arms_by_id([found["best"]]).values()))[0]
        top = queries.best(campaign, 1)[0]
        (row,) = (each for each in queries.best(campaign, 150, everywhere=True) if each.id == "r100")
    assert found["best"] == top.id
    assert (found["mean"], found["std"]) == pytest.approx((row.mean, row.std))
    assert found["lower"] < found["mean"] < found["upper"]
    assert (found["measurements"], found["average"], found["reason"]) == (0, None, None)
    effects = {each["column"]: each for each in found["columns"]}
    assert {"heat", "solvent"} <= set(effects) <= {"heat", "gap", "gap is missing", "solvent"}
    for name, each in effects.items():
        if name in cells:
            assert each["value"] == cells[name]
            assert each["best_value"] == of_best[name]
    shown = [each["against_pool"] for each in found["columns"]]
    assert shown == sorted(shown), "small values are wanted: the most negative contribution speaks most"
    assert all(effects[name]["against_pool"] < 0 for name in found["speaks_for"])
    assert all(90 < each["average"] < 150 for each in found["neighbours"])
    assert [each["correlation"] for each in found["neighbours"]] == sorted(
        (each["correlation"] for each in found["neighbours"]), reverse=True
    )


def test_a_column_that_raises_the_value_speaks_against_a_candidate(mixed):
    with Campaign(mixed) as campaign:
        by_solvent = {}
        for arm, cells in enumerate(campaign.source.cells_of(range(150))):
            by_solvent.setdefault(cells["solvent"], []).append(f"r{arm}")
        (thf,) = queries.explain(campaign, [by_solvent["thf"][-1]])
        (water,) = queries.explain(campaign, [by_solvent["water"][-1]])
    assert next(e for e in thf["columns"] if e["column"] == "solvent")["against_pool"] > 1
    assert next(e for e in water["columns"] if e["column"] == "solvent")["against_pool"] < -0.5
    assert "solvent" in water["speaks_for"]
    assert "solvent" not in thf["speaks_for"]


def test_units_of_a_given_kernel_are_converted(tmp_path):
    found = []
    for name, scale in (("one.db", 1.0), ("many.db", 1000.0)):
        given = {"signal": scale, "mean": 5 * scale, "noise": 0.1 * scale, "goal": "minimise"}
        with made(tmp_path, name, **given) as campaign:
            issued = campaign.ask(12)
            values = [scale * (5 - float(each.columns["x1"])) for each in issued]
            told = [
                ReportedResult("", None, each.id, value) for each, value in zip(issued, values, strict=True)
            ]
            campaign.tell_rows(told)
            found.append(queries.explain(campaign, ["arm 3"])[0])
    for name in ("mean", "std", "lower", "upper"):
        assert found[1][name] == pytest.approx(1000 * found[0][name], rel=1e-6)
    for one, many in zip(found[0]["columns"], found[1]["columns"], strict=True):
        assert many["against_pool"] == pytest.approx(1000 * one["against_pool"], rel=1e-5)
    by_column = {each["column"]: each["against_pool"] for each in found[0]["columns"]}
    assert abs(by_column["x1"]) > abs(by_column["x2"])


def test_ask_explains_every_ticket_in_the_table_the_file_and_json(tmp_path):
    place, out = tmp_path / "c.db", tmp_path / "batch.csv"
    with made(tmp_path, **LEARNED) as campaign:
        step(campaign, 12)
    shown = cli("ask", place, "-n", 2, "--explain").out
    assert "nearest_measured" in shown
    assert "arm " in shown.split("speaks_for_it")[1]
    plain = cli("ask", place, "-n", 2, "--explain", "--json").json["tickets"]
    assert all(len(each["explanation"]["neighbours"]) == 3 for each in plain)
    assert plain[0]["explanation"]["reason"] == plain[0]["reason"]
    assert plain[0]["explanation"]["mean"] == pytest.approx(plain[0]["predicted"])
    assert "explanation" not in cli("ask", place, "-n", 1, "--json").json["tickets"][0]
    assert cli("ask", place, "-n", 3, "--explain", "--out", out).code == 0
    with open(out, newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert all(row["nearest_measured"].count("arm ") == 3 for row in rows)
    assert list(rows[0])[-4:] == ["reason", *EXPLAINED, "value"]
    for row in rows:
        row["value"] = "0.5"
    with open(out, "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    assert "Imported 3 new results" in cli("tell", place, out).out


def test_the_command_explains_any_candidate(tmp_path):
    place = tmp_path / "c.db"
    with made(tmp_path, **LEARNED) as campaign:
        assert "predicted" in cli("explain", place, "--id", "arm 5").out  # before any result
        issued = campaign.ask(12)
        campaign.tell_bytes(results(issued).encode(), "results.csv")
    name = issued[0].id
    shown = cli("explain", place, "--id", name, "--id", "arm 5").out
    for words in ("chosen by: initial design", "measured: average", "nearest measured", "against the pool"):
        assert words in shown
    found = cli("explain", place, "--id", name, "--json").json["explanations"]
    assert [each["id"] for each in found] == [name]
    wrong = cli("explain", place, "--id", "nobody")
    assert wrong.code == 3
    assert "nobody" in wrong.err
    assert cli("explain", place).code == 2


def test_molecules_have_neighbours_by_their_fingerprints_and_no_columns(tmp_path):
    pytest.importorskip("rdkit")
    rows = [f"M-{n},{'C' * n}" for n in range(1, 16)] + [f"A-{n},{'O' + 'C' * n}" for n in range(1, 16)]
    (tmp_path / "pool.csv").write_text("code,smiles\n" + "\n".join(rows) + "\n")
    request = Request(pool=str(tmp_path / "pool.csv"), id="code", smiles="smiles")
    with Campaign.new(tmp_path / "c.db", request) as campaign:
        names = [f"{kind}-{n}" for kind in "MA" for n in (2, 4, 6, 8, 10)]
        campaign.tell_rows([ReportedResult("", None, name, float(name[2:])) for name in names])
        found, other = queries.explain(campaign, ["M-9", "A-9"])
    assert found["columns"] == other["columns"] == []
    assert {each["id"][0] for each in found["neighbours"]} == {"M"}
    assert {each["id"][0] for each in other["neighbours"]} == {"A"}


def test_from_python(tmp_path):
    with made(tmp_path, **LEARNED) as campaign:
        step(campaign, 12)
    with ma.Campaign(tmp_path / "c.db") as campaign:
        batch = campaign.ask(2, explain=True)
        assert all(text.count("arm ") == 3 for text in batch["nearest_measured"])
        (found,) = campaign.explain([batch["name"][0]])
        assert found["reason"] == batch["reason"][0]
        with pytest.raises(errors.UnknownArmError):
            campaign.explain(["nobody"])
        assert campaign.explain([]) == []
        assert campaign.status(certify=True)["expected_gain"]["gains"]


def test_explanations_come_in_the_order_of_the_ids_and_once_each(tmp_path):
    with made(tmp_path, **LEARNED) as campaign:
        step(campaign, 12)
        told = queries.history(campaign)[0].id
        names = ["arm 90", told, "arm 1", "arm 90"]
        assert [each["id"] for each in queries.explain(campaign, names)] == names[:3]

"""Campaigns that learn from old results of files and of other campaigns."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from manyarms import errors
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.queries import best, explain, history
from manyarms.campaigns.settings import Request
from manyarms.campaigns.status import status
from tests.campaigns.support import cli

COLOURS = ("red", "green", "blue")


def truth(a: np.ndarray, b: np.ndarray, kind: np.ndarray) -> np.ndarray:
    return np.sin(5 * a) + b * b + 0.5 * kind


def table(path: Path, n: int, seed: int, header: str = "", values: bool = False) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    a, b, kind = rng.uniform(size=n), rng.uniform(size=n), rng.integers(3, size=n)
    f = truth(a, b, kind)
    lines = ["a,colour,b,value" if values else "name,a,b,colour"]
    for i in range(n):
        if values:  # other columns, another order, another scale and offset
            lines.append(f"{a[i]},{COLOURS[kind[i]]},{b[i]},{50 - 4 * f[i] + 0.2 * rng.normal()}")
        else:
            lines.append(f"arm {i},{a[i]},{b[i]},{COLOURS[kind[i]]}")
    path.write_text("\n".join(lines) + "\n")
    return a, b, kind, f


def made(folder: Path, **settings) -> Campaign:
    return Campaign.new(folder / "c.db", Request(str(folder / "pool.csv"), id="name", **settings))


def test_a_file_of_old_results_teaches_the_model_and_may_go_away(tmp_path: Path) -> None:
    *_, f = table(tmp_path / "pool.csv", 120, 0)
    table(tmp_path / "old.csv", 90, 1, values=True)
    told = "name,value\n" + "".join(f"arm {i},{f[i]}\n" for i in range(25))
    errors_of = {}
    for name, files in (("with", (str(tmp_path / "old.csv"),)), ("without", ())):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pool.csv").write_text((tmp_path / "pool.csv").read_text())
        with made(tmp_path / name, prior_results=files) as campaign:
            campaign.tell_bytes(told.encode(), "r.csv")
            campaign.ask(3)
    os.remove(tmp_path / "old.csv")
    for name in ("with", "without"):
        with Campaign(tmp_path / name / "c.db") as campaign:
            found = {row.id: row.mean for row in best(campaign, 120, everywhere=True)}
            errors_of[name] = np.mean([abs(found[f"arm {i}"] - f[i]) for i in range(25, 120)])
            assert len(history(campaign)) == 25
            assert explain(campaign, ["arm 50"])
            assert status(campaign)["model"]["lengthscales"]
            used = [each for each in status(campaign)["assumptions"] if each.startswith("old results: ")]
            assert len(used) == (name == "with")
    assert errors_of["with"] < 0.7 * errors_of["without"]


def test_old_results_have_no_costs(tmp_path: Path) -> None:
    table(tmp_path / "pool.csv", 40, 0)
    header, *rows = (tmp_path / "pool.csv").read_text().splitlines()
    priced = [f"{header},price", *(f"{row},{1 + i % 5}" for i, row in enumerate(rows))]
    (tmp_path / "pool.csv").write_text("\n".join(priced) + "\n")
    table(tmp_path / "old.csv", 30, 1, values=True)
    old = (str(tmp_path / "old.csv"),)
    with made(tmp_path, prior_results=old, cost="price", cost_budget=50.0) as campaign:
        campaign.tell_bytes("\n".join(["name,value", *(f"arm {i},{i}" for i in range(12))]).encode(), "r.csv")
        assert sum(issued.cost or 0 for issued in campaign.ask(at_most=8)) <= 50
    (tmp_path / "next").mkdir()
    table(tmp_path / "next" / "pool.csv", 40, 2)
    with made(tmp_path / "next", prior_campaign=(str(tmp_path / "c.db"),)) as campaign:
        assert len(campaign.settings.prior[0]["values"]) == 12


def test_old_results_in_other_letters(tmp_path: Path) -> None:
    table(tmp_path / "pool.csv", 40, 0)
    old = tmp_path / "old.csv"
    rows = "".join(f"0.{i},0.5,red,{i},0.{i}\n" for i in range(1, 5))
    old.write_text("a,b,colour,Value,Noise_std\n" + rows)
    with made(tmp_path, prior_results=(str(old),)) as campaign:
        (kept,) = campaign.settings.prior
        assert (kept["values"], kept["noise_std"]) == ([1.0, 2.0, 3.0, 4.0], [0.1, 0.2, 0.3, 0.4])


def test_a_batch_file_with_failed_and_open_rows_is_a_file_of_old_results(tmp_path: Path) -> None:
    table(tmp_path / "pool.csv", 40, 0)
    old = tmp_path / "plate.csv"
    old.write_text(
        "ticket,a,b,colour,value,Failed\n1,0.1,0.5,red,1,\n2,0.2,0.5,red,,yes\n3,0.3,0.5,blue,3,no\n"
        "4,0.4,0.5,red,,\n5,0.5,0.5,green,5,\n"
    )
    with made(tmp_path, prior_results=(str(old),)) as campaign:
        (kept,) = campaign.settings.prior
        assert (kept["values"], [row[0] for row in kept["features"]]) == ([1.0, 3.0, 5.0], [0.1, 0.3, 0.5])
        said = "old results of plate.csv: 3 used; 2 that failed or have no value left out"
        assert said in campaign.settings.assumptions
        assert campaign.ask(3)


def test_the_batch_file_of_a_campaign_with_an_open_row_is_a_file_of_old_results(tmp_path: Path) -> None:
    """A batch file has no column for failed trials unless somebody adds one."""
    old = tmp_path / "plate.csv"
    old.write_text(
        "ticket,a,b,colour,value\n1,0.1,0.5,red,1\n2,0.2,0.5,red,\n3,0.3,0.5,blue,3\n4,0.4,0,red,4\n"
    )
    table(tmp_path / "pool.csv", 40, 0)
    with made(tmp_path, prior_results=(str(old),)) as campaign:
        assert campaign.settings.prior[0]["values"] == [1.0, 3.0, 4.0]
        said = "old results of plate.csv: 3 used; 1 that failed or have no value left out"
        assert said in campaign.settings.assumptions


def test_errors_in_old_results_name_the_line(tmp_path: Path) -> None:
    table(tmp_path / "pool.csv", 40, 0)
    old = tmp_path / "old.csv"
    old.write_text("a,b,colour,value\n0.1,0.5,red,1\n0.2,0.5,red,2\n0.3,0.5,red,many\n")
    with pytest.raises(errors.ResultsFileError, match=r"row 2 \(line 4\), column 'value': 'many'"):
        made(tmp_path, prior_results=(str(old),))


def test_the_results_of_another_campaign(tmp_path: Path) -> None:
    for name, seed in (("old", 2), ("new", 3)):
        (tmp_path / name).mkdir()
        table(tmp_path / name / "pool.csv", 80, seed)
    *_, f = table(tmp_path / "old" / "pool.csv", 80, 2)
    with made(tmp_path / "old") as old:
        lines = [f"arm {i},{100 + f[i]},,{1 + i % 3}" for i in range(40)] + ["arm 50,90,5,"]
        old.tell_bytes(("name,value,noise_std,replicates\n" + "\n".join(lines) + "\n").encode(), "r.csv")
    with made(tmp_path / "new", prior_campaign=(str(tmp_path / "old" / "c.db"),)) as new:
        (kept,) = new.settings.prior
        assert len(kept["values"]) == 41
        assert kept["replicates"][:3] == [1, 2, 3]
        assert kept["noise_std"][40] == 5.0
        first = new.ask(4)
        a, b, kind = (np.array([float(each.columns["a"]) for each in first]),
                      np.array([float(each.columns["b"]) for each in first]),
                      np.array([COLOURS.index(each.columns["colour"]) for each in first]))  # fmt: skip
        assert truth(a, b, kind).mean() > np.quantile(f, 0.7)  # good ones by the old results


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,colour,value\n0.1,red,3\n", "'b'"),
        ("a,b,colour,value\n0.1,0.2,pink,3\n", "'pink' is not one of the kinds"),
        ("a,b,colour,value\n0.1,many,red,3\n", "'many'"),
        ("a,b,colour,value\n0.1,,red,3\n", "a cell is empty"),
        ("a,b,colour,value\n0.1,0.2,red,\n", "column 'value': '' is not a number"),
        ("a,b,colour,value\n0.1,0.2,red,nan\n", "column 'value': 'nan' is not a number"),
        ("a,b,colour\n0.1,0.2,red\n", "no column 'value'"),
        ("a,b,colour,value,failed\n0.1,0.2,red,1,yes\n", "has the value '1' and is also marked as failed"),
        ("a,b,colour,value,failed\n0.1,0.2,red,1,maybe\n", "'maybe' is neither true nor false"),
        ("a,b,colour,value,failed\n0.1,0.2,red,,yes\n", "0 old results, from 3"),
        ("a,b,colour,value,noise_std\n0.1,0.2,red,1,-1\n", "'-1' is not a positive number"),
        ("a,b,colour,value\n0.1,0.2,red,1\n", "1 old results, from 3"),
    ],
)
def test_wrong_files_are_refused_and_no_campaign_is_made(tmp_path: Path, text: str, words: str) -> None:
    table(tmp_path / "pool.csv", 60, 4)
    (tmp_path / "old.csv").write_text(text)
    with pytest.raises(errors.ManyarmsError, match=words):
        made(tmp_path, prior_results=(str(tmp_path / "old.csv"),))
    assert not (tmp_path / "c.db").exists()


def test_what_cannot_be_combined_is_refused(tmp_path: Path) -> None:
    table(tmp_path / "pool.csv", 60, 5)
    table(tmp_path / "old.csv", 30, 6, values=True)
    files = (str(tmp_path / "old.csv"),)
    with pytest.raises(errors.ManyarmsError, match="left out where the kernel is given"):
        made(tmp_path, kernel="matern", prior_results=files)
    with pytest.raises(errors.ManyarmsError, match="no such file"):
        made(tmp_path, prior_results=(str(tmp_path / "gone.csv"),))
    with made(tmp_path):
        pass
    (tmp_path / "next").mkdir()
    table(tmp_path / "next" / "pool.csv", 60, 5)
    with pytest.raises(errors.NoResultsError, match="the campaign has no results"):
        made(tmp_path / "next", prior_campaign=(str(tmp_path / "c.db"),))


def test_the_command(tmp_path: Path) -> None:
    table(tmp_path / "pool.csv", 60, 7)
    table(tmp_path / "old.csv", 30, 8, values=True)
    (tmp_path / "c.toml").write_text('pool = "pool.csv"\nid = "name"\nprior_results = "old.csv"\n')
    file, pool = tmp_path / "old.csv", tmp_path / "pool.csv"
    assert cli("new", tmp_path / "c.db", "--config", tmp_path / "c.toml").code == 0
    assert cli("ask", tmp_path / "c.db", "-n", "3").code == 0
    made = cli("new", tmp_path / "d.db", "--pool", pool, "--id", "name", "--prior-results", file)
    assert made.code == 0
    refused = cli("new", tmp_path / "e.db", "--pool", pool, "--prior-results", tmp_path / "gone.csv")
    assert refused.code != 0
    assert "gone.csv: no such file" in refused.err
    with Campaign(tmp_path / "c.db") as one, Campaign(tmp_path / "d.db") as other:
        assert one.settings.prior == other.settings.prior

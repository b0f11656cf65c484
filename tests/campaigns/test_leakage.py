"""Columns of the table that hold the results are warned of, and refused when results show it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import manyarms as ma
from manyarms import errors
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.leakage import RESULT_WORDS, named_like_results, resembling_columns
from manyarms.campaigns.results_file import ReportedResult
from manyarms.campaigns.settings import Request
from manyarms.campaigns.status import status
from tests.campaigns.support import cli

N = 60


def _table(folder: Path, column: str = "score") -> tuple[Path, dict[str, float]]:
    rng = np.random.default_rng(5)
    heat, dose = rng.uniform(20, 80, N), rng.uniform(0, 1, N)
    truth = np.sin(heat / 9) + dose
    rows = [f"r{i},{heat[i]:.4f},{dose[i]:.4f},{truth[i]:.6f}" for i in range(N)]
    path = folder / "table.csv"
    path.write_text(f"name,heat,dose,{column}\n" + "\n".join(rows) + "\n")
    return path, {f"r{i}": float(f"{truth[i]:.6f}") for i in range(N)}


def _tell(campaign: Campaign, truth: dict[str, float], n: int, change: float = 0.0) -> None:
    names = list(truth)[:n]
    campaign.tell_rows([ReportedResult("", None, name, 3.0 - 2.0 * truth[name] + change * i)
                        for i, name in enumerate(names)])  # fmt: skip


def test_a_column_named_like_a_result_is_warned_of(tmp_path):
    path, _ = _table(tmp_path)
    shown = " ".join(cli("new", tmp_path / "c.db", "--pool", path, "--id", "name").out.split())
    assert "warning: column 'score' is used as a feature, but its name is that of a result" in shown
    chosen = cli("new", tmp_path / "d.db", "--pool", path, "--id", "name", "--features", "heat,score")
    assert "warning" not in chosen.out
    assert named_like_results(["heat", " Y ", "Result", "yield"])[0].startswith("warning: column ' Y '")
    assert len(named_like_results(sorted(RESULT_WORDS))) == len(RESULT_WORDS)


@pytest.mark.parametrize(
    "name", ["Measured value (mg)", "y_mean", "result 2", "final_score", "Target", "true y", "Response [%]"]
)
def test_names_that_consist_of_words_for_results_are_warned_of(name):
    assert len(named_like_results([name])) == 1


@pytest.mark.parametrize(
    "name",
    ["target_temperature", "set value of the pump", "yield stress", "x1", "year", "final temperature",
     "credit score", "p_value_column_width", "mean", "test", "42", "", "(y)"],
)  # fmt: skip
def test_names_of_other_things_are_not(name):
    assert named_like_results([name]) == ()


def test_a_column_that_holds_the_results_is_refused_and_nothing_is_handed_out(tmp_path):
    path, truth = _table(tmp_path, "extra")
    with Campaign.new(tmp_path / "c.db", Request(pool=str(path), id="name")) as campaign:
        _tell(campaign, truth, 7)
        campaign.ask(2)  # seven results do not show it
        _tell(campaign, dict(list(truth.items())[7:]), 3)
        before = status(campaign)["tickets"]
        with pytest.raises(errors.LeakingColumnError, match=r"column 'extra' .* 10 results so far"):
            campaign.ask(2)
        assert status(campaign)["tickets"] == before
    done = cli("ask", tmp_path / "c.db", "-n", "2")
    assert done.code
    assert "name the columns that are known before a measurement with --features" in done.err


def test_features_that_the_user_chose_and_columns_that_only_resemble_the_results_are_used(tmp_path):
    path, truth = _table(tmp_path, "extra")
    request = Request(pool=str(path), id="name", features=("heat", "extra"))
    with Campaign.new(tmp_path / "c.db", request) as campaign:
        _tell(campaign, truth, 12)
        assert len(campaign.ask(2)) == 2
    with Campaign.new(tmp_path / "d.db", Request(pool=str(path), id="name")) as campaign:
        _tell(campaign, truth, 12, change=1e-3)  # a correlation of 0.99998
        assert len(campaign.ask(2)) == 2


SHAPES = {
    "the results with noise": lambda y, rng: 3 - 2 * y + 0.01 * rng.standard_normal(len(y)),
    "another scale": lambda y, rng: np.exp(2 * y),
    "the other sign, rounded": lambda y, rng: -np.round(y, 2),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_column_that_resembles_the_results_is_warned_of_at_the_ask_and_in_status(tmp_path, shape):
    rng = np.random.default_rng(0)
    heat, dose = rng.uniform(20, 80, N), rng.uniform(0, 1, N)
    truth = np.sin(heat / 9) + dose
    extra = SHAPES[shape](truth, rng)
    rows = [f"r{i},{heat[i]:.4f},{dose[i]:.4f},{extra[i]:.6f}" for i in range(N)]
    (tmp_path / "table.csv").write_text("name,heat,dose,extra\n" + "\n".join(rows) + "\n")
    for name, chosen in (("c.db", None), ("d.db", ("heat", "dose", "extra"))):
        request = Request(pool=str(tmp_path / "table.csv"), id="name", features=chosen)
        with Campaign.new(tmp_path / name, request) as campaign:
            campaign.tell_rows([ReportedResult("", None, f"r{i}", float(truth[i])) for i in range(15)])
        done = cli("ask", tmp_path / name, "-n", "2")
        warned = "column 'extra' almost determines the 15 results so far" in done.err
        assert warned == (chosen is None), "a column that was chosen is not warned of"
        assert ("warning" in cli("status", tmp_path / name).out) == warned


def test_honest_tables_are_not_warned_of():
    """Of 200 columns that are unrelated to 12 results, and 20 good but imperfect ones, none is named."""
    rng = np.random.default_rng(1)
    truth = rng.standard_normal(12)
    unrelated = rng.standard_normal((12, 200))
    good = truth[:, None] + 0.3 * rng.standard_normal((12, 20))  # correlations of about 0.96
    pool = ma.Pool(np.hstack([unrelated, good]))
    assert resembling_columns(pool, list(enumerate(truth.tolist()))) == ()
    few = ma.Pool(np.stack([np.arange(12.0), truth], axis=1))
    assert len(resembling_columns(few, list(enumerate(truth.tolist())))) == 1
    assert resembling_columns(few, list(enumerate(truth[:11].tolist()))) == (), "eleven results are too few"


def test_few_different_results_say_nothing(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("name,a,b\n" + "".join(f"r{i},{i % 2},{i % 3}\n" for i in range(24)))
    with Campaign.new(tmp_path / "c.db", Request(pool=str(path), id="name")) as campaign:
        campaign.tell_rows([ReportedResult("", None, f"r{i}", float(i % 2)) for i in range(12)])
        assert len(campaign.ask(2)) == 2

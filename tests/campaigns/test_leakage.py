"""Columns of the table that hold the results are warned of, and refused when results show it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from manyarms import errors
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.leakage import RESULT_WORDS, named_like_results
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


def test_few_different_results_say_nothing(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("name,a,b\n" + "".join(f"r{i},{i % 2},{i % 3}\n" for i in range(24)))
    with Campaign.new(tmp_path / "c.db", Request(pool=str(path), id="name")) as campaign:
        campaign.tell_rows([ReportedResult("", None, f"r{i}", float(i % 2)) for i in range(12)])
        assert len(campaign.ask(2)) == 2

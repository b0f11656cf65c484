"""`ma.Campaign`: frames in the user's own library, mappings and arrays, and the example of the documents."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import manyarms as ma
from manyarms import errors
from tests.campaigns.support import ROOT, cli

TABLE = {
    "code": [f"c{i}" for i in range(24)],
    "x": [i / 8 for i in range(24)],
    "kind": ["u", "v", "w"] * 8,
    "value": list(range(24)),
}
FRAMES: dict[str, Any] = {"pandas": pd.DataFrame, "polars": pl.DataFrame}


def made(folder: Path, library: str = "pandas", **settings: Any) -> ma.Campaign:
    return ma.Campaign.new(folder / "c.db", FRAMES[library](TABLE), id="code", **settings)


def test_the_example_of_the_documents_runs(tmp_path, monkeypatch, capsys):
    text = (ROOT / "docs" / "campaigns.md").read_text(encoding="utf-8").partition("## From Python")[2]
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "docs/campaigns.md", "exec"), {})
    assert "code" in capsys.readouterr().out
    found = cli("status", tmp_path / "recipes.db", "--json").json
    assert (found["results"]["values"], found["results"]["unasked"], found["pool"]["excluded"]) == (20, 1, 1)


@pytest.mark.parametrize("library", FRAMES)
def test_a_batch_is_a_frame_of_the_user_s_library_and_can_be_told_as_it_is(tmp_path, library):
    with made(tmp_path, library) as campaign:
        batch = campaign.ask(5)
        assert type(batch).__module__.startswith(library)
        assert list(batch.columns) == [
            "ticket", "code", "x", "kind", "pool.value", "predicted_mean", "predicted_sd", "reason", "value",
        ]  # fmt: skip
        assert {type(cell) for cell in batch["x"].to_list()} == {float}
        assert campaign.tell(batch).unmeasured == 5
        values = [float(x) for x in batch["x"].to_list()]
        full = (
            batch.assign(value=values) if library == "pandas" else batch.with_columns(value=pl.Series(values))
        )
        assert campaign.tell(full).new == 5
        assert (campaign.tell(full).new, campaign.tell(full).known) == (0, 5)
        history = campaign.history()
        assert type(history).__module__.startswith(library)
        assert history["value"].to_list() == values
        best = campaign.best(2)
        place = TABLE["code"].index(best["code"].to_list()[0])
        assert best["value"].to_list()[0] == TABLE["value"][place]  # the column of the table
        assert len(campaign.open_tickets()) == 0
    with ma.Campaign(tmp_path / "c.db", frames=library) as campaign:
        assert type(campaign.ask(1)).__module__.startswith(library)


def test_without_frames_there_are_dicts_of_lists(tmp_path):
    pd.DataFrame(TABLE).to_csv(tmp_path / "pool.csv", index=False)
    with ma.Campaign.new(tmp_path / "c.db", tmp_path / "pool.csv", id="code", budget=9) as campaign:
        batch = campaign.ask(4, eligible=["c1", "c2", "c3", "c4"])
        assert sorted(batch["code"]) == ["c1", "c2", "c3", "c4"]
        assert campaign.tell({"ticket": batch["ticket"], "value": np.arange(4.0)}).new == 4
        assert campaign.tell(ids=np.array(["c9"]), values=np.array([2.5])).unasked == 1
        assert campaign.tell(ids=["c9"], values=[2.5]).unasked == 1  # a replicate with the same value
        assert campaign.tell(ids=["c10"], values=[None], failed=[True]).failed == 1
        again = campaign.ask(2)
        campaign.forget(again["ticket"])
        assert campaign.status()["budget_left"] == 5
        assert campaign.exclude([again["code"][0]]) == campaign.readmit([again["code"][0]]) == 1
        assert campaign.history()["id"][4:] == ["c9", "c9", "c10"]


@pytest.mark.parametrize(
    ("told", "error", "why"),
    [
        ({"results": {"value": [1.0]}}, errors.ResultsFileError, "need 'value' and 'ticket' or 'code'"),
        ({"ids": ["c1"]}, errors.ResultsFileError, "need 'value'"),
        ({"ids": ["c1", "c2"], "values": [1.0]}, errors.ResultsFileError, "differ in length"),
        ({"ids": ["c1", "no"], "values": [1.0, 2.0]}, errors.UnknownArmError, "row 1: .*'no'"),
        ({"ids": ["c1"], "values": ["high"]}, errors.ResultsFileError, "row 0.*'high' is not a number"),
        ({"ids": ["c1"], "values": [np.inf]}, errors.ResultsFileError, "too large"),
        ({"tickets": [99], "values": [1.0]}, errors.UnknownTicketError, "ticket 99"),
        ({"results": 3}, errors.InvalidParameterError, "a frame or a mapping"),
        ({"results": {"value": [1]}, "ids": ["c1"]}, errors.InvalidParameterError, "without ids"),
    ],
)
def test_a_bad_tell_says_why_and_records_nothing(tmp_path, told, error, why):
    with made(tmp_path) as campaign:
        campaign.ask(2)
        with pytest.raises(error, match=why):
            campaign.tell(**told)
        assert len(campaign.history()) == 0


def test_a_campaign_that_cannot_be_created_leaves_nothing_behind(tmp_path):
    with pytest.raises(errors.SettingsError):
        made(tmp_path, policy="magic")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "c.pool.csv").write_text("mine")
    with pytest.raises(errors.TableError, match="already exists"):
        made(tmp_path)
    assert (tmp_path / "c.pool.csv").read_text() == "mine"
    with pytest.raises(errors.InvalidParameterError, match="frames"):
        ma.Campaign.new(tmp_path / "d.db", pd.DataFrame(TABLE), frames="numpy")


def test_frames_with_dates_flags_and_holes_are_understood(tmp_path):
    frame = pd.DataFrame(
        {
            "day": pd.date_range("2024-01-01", periods=12),
            "fresh": [True, False] * 6,
            "x": [1.5, None, *range(10)],
        }
    )
    with ma.Campaign.new(tmp_path / "c.db", frame) as campaign:
        batch = campaign.ask(12)
        assert sorted(batch["id"]) == sorted(str(i) for i in range(12))
        assert batch["x"].isna().sum() == 1
        assert campaign._inner.inner.pool.names == ["day", "fresh", "x", "x is missing"]

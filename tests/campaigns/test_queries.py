"""What a campaign says of itself: the best, the history, files, the report's data, the assumptions."""

from __future__ import annotations

import csv
import math

import numpy as np
import pyarrow.parquet as pq
import pytest

import manyarms as ma
from manyarms.campaigns import next_batch
from manyarms.campaigns.assumptions import (
    assumed_kernel,
    assumed_units,
    median_lengthscales,
    most_inducing,
    replicate_noise,
)
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.export import export
from manyarms.campaigns.queries import batches, best, history
from manyarms.campaigns.report import render
from manyarms.campaigns.report.collect import collect_report
from manyarms.campaigns.status import status
from tests.campaigns.support import made, step


def test_the_best_are_those_of_the_model_in_the_user_s_units(tmp_path):
    with made(tmp_path, goal="minimise", noise="auto", signal="auto", mean="auto") as campaign:
        for _ in range(4):
            step(campaign, 6)
        top = best(campaign, 5)
        means = [row.mean for row in top]
        assert means == sorted(means)
        values: dict[str, list[float]] = {}
        for each in history(campaign):
            values.setdefault(each.id, []).append(each.value)
        for row in top:
            assert row.pulls == len(values[row.id])
            assert row.average == pytest.approx(np.mean(values[row.id]))
            assert abs(row.mean - row.average) < 4 * row.std + 0.3
        everywhere = best(campaign, 120, everywhere=True)
        assert len(everywhere) == 120
        assert any(row.pulls == 0 and math.isnan(row.average) for row in everywhere)


def test_history_exports_and_the_report_agree(tmp_path):
    with made(tmp_path) as campaign:
        step(campaign, 6)
        lost = campaign.ask(3)
        campaign.tell_bytes(f"ticket,value,failed\n{lost[0].code},,1\n".encode(), "r.csv")
        campaign.tell_bytes(b"name,value\narm 5,0.5\n", "r.csv")
        told, page = history(campaign), collect_report(campaign, k=3, optimum=1.0)
        assert export(campaign, tmp_path / "all.csv") == export(campaign, tmp_path / "all.parquet") == 8
    with open(tmp_path / "all.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["id"] for row in rows] == [each.id for each in told]
    assert [row["value"] for row in rows][6:] == ["", "0.5"]
    table = pq.read_table(tmp_path / "all.parquet").to_pylist()
    assert [row["value"] for row in table] == [each.value for each in told]
    assert [each.number for each in page.measurements] == list(range(1, 9))
    assert [each.failed for each in page.measurements][6:] == [True, False]
    assert page.measurements[-1].predicted is None
    assert len(page.batches) == 2
    assert len(page.top) == 3
    for each in page.measurements[:6]:
        std = told[each.number - 1].predicted_std
        assert each.predicted_upper - each.predicted_lower > 2 * 1.64 * std, "an interval counts the noise"
    shown = {row.id for row in page.top}
    assert len(shown) == 3
    for name in shown:
        assert f"<bdi>{name}</bdi>" in render(page)


def test_an_empty_campaign_has_a_report_too(tmp_path):
    with made(tmp_path) as campaign:
        page = collect_report(campaign)
        assert (page.measurements, page.batches, page.top) == ([], [], [])
        assert render(page)


def test_a_copy_of_the_folder_is_a_campaign_of_its_own(tmp_path):
    with made(tmp_path) as campaign:
        step(campaign, 4)
    other = tmp_path / "copy"
    other.mkdir()
    for name in ("c.db", "pool.csv"):
        (tmp_path / name).rename(other / name)
    with Campaign(other / "c.db") as campaign:
        step(campaign, 4)
        assert status(campaign)["results"]["values"] == 8


# ------------------------------------------------------------------ assumptions


def test_length_scales_follow_each_feature_s_spread():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(3000, 3)) * [1e-6, 1.0, 1e6]
    features[:, 1] = 4.0
    lengths, factor = median_lengthscales(ma.Pool(features))
    assert lengths[0] / 1e-6 == pytest.approx(lengths[2] / 1e6, rel=0.1)
    assert factor == pytest.approx(1.67, rel=0.05)  # the median of √χ²₂·√2
    assert lengths[1] == pytest.approx(factor)
    assert median_lengthscales(ma.Pool(np.ones((5, 2))))[1] == 1.0


def test_kernels_by_name_have_unit_variance():
    pool = ma.Pool(np.random.default_rng(0).integers(0, 4, (200, 5)))
    for name in ("rbf", "matern", "linear", "hamming"):
        kernel, _ = assumed_kernel(pool, name, "auto", 1.5, molecular=False)
        assert np.mean(kernel.diag(pool.features)) == pytest.approx(1.0, rel=0.05)
    assert assumed_kernel(pool, "matern", 0.7, 1.5, False)[0] == ma.Matern(0.7, 1.5)


def test_units_are_the_user_s_where_given_and_else_from_the_results():
    told = [(0, 10.0), (1, 14.0), (2, 12.0)]
    units = assumed_units(1.0, None, None, None, told)
    assert (units.mean, units.scale) == (12.0, pytest.approx(math.sqrt(8 / 3)))
    assert units.value(float(units.rewards([13.5])[0])) == pytest.approx(13.5)
    assert "assumed share" in units.assumptions[-1]
    given = assumed_units(-1.0, 0.5, 2.0, 5.0, told)
    assert (given.mean, given.scale, given.noise_std, given.assumptions) == (-5.0, 2.0, 0.25, ())
    assert given.interval(-1.0, 2.0) == (1.0, 7.0)
    empty = assumed_units(1.0, None, None, None, [])
    assert (empty.scale, empty.assumptions[0]) == (1.0, "mean: 0, until there are results")
    assert assumed_units(1.0, None, None, None, [(0, 3.0), (1, 3.0)]).scale == 1.0


def test_replicates_show_the_noise():
    rng = np.random.default_rng(0)
    told = [(arm, arm + 0.2 * rng.normal()) for arm in range(300) for _ in range(3)]
    assert replicate_noise(told) == pytest.approx(0.2, rel=0.1)
    assert replicate_noise(told[:3]) is None


def test_the_sketch_stays_within_its_limit_and_the_choice_stays_sensible(tmp_path, monkeypatch):
    monkeypatch.setattr(next_batch, "most_inducing", lambda n_arms: 12)
    with made(tmp_path, lengthscale=0.1) as campaign:
        rows = "".join(f"arm {i},{i % 7}\n" for i in range(0, 120, 2))
        campaign.tell_bytes(f"name,value\n{rows}".encode(), "old.csv")
        for _ in range(3):
            step(campaign, 10)
        assert all(batch["dictionary_size"] <= 12 for batch in batches(campaign))
    limits = [most_inducing(n_arms) for n_arms in (2_000, 20_000, 1_000_000, 10_000_000)]
    assert limits[0] > limits[1] >= limits[2] > limits[3]

"""Importance and effects of columns, against known functions and a plain Gaussian process."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import manyarms as ma
from manyarms.errors import InvalidParameterError, NothingToPlotError
from manyarms.plots.data.influence import AVERAGED
from manyarms.pool.columns import columns_of
from manyarms.run.optimizer import NINETY
from tests.campaigns.support import made, results

KERNEL, RIDGE = ma.RBF((0.5, 0.8, 1.0)), 0.01


def told_run(rng: np.random.Generator, minimize: bool = False) -> ma.Optimizer:
    """An exact model: every measured arm is in the sketch."""
    features = rng.random((80, 3))
    pool = ma.Pool(features, names=["a", "b", "c"])
    run = ma.Optimizer(pool, ma.GPUCB(kernel=KERNEL, noise_std=RIDGE**0.5), seed=0, minimize=minimize)
    arms = np.arange(50)
    run.tell(arms=arms, rewards=np.sin(4 * features[arms, 0]) + features[arms, 1] ** 2)
    return run


def plain_effect(run: ma.Optimizer, rows: np.ndarray, place: int, value: float) -> tuple[float, float]:
    """Mean and standard deviation of the average over the rows, from the covariance of all of them."""
    X, y = run.pool.features[run.history.arms], run.history.sums / run.history.counts
    rows = rows.copy()
    rows[:, place] = value
    covariance = KERNEL.matrix(X, X) + RIDGE * np.eye(len(X))
    towards = KERNEL.matrix(rows, X)
    joint = KERNEL.matrix(rows, rows) - towards @ np.linalg.solve(covariance, towards.T)
    mean = towards @ np.linalg.solve(covariance, y)
    return float(mean.mean()), float(np.sqrt(joint.mean()))


@pytest.mark.parametrize("minimize", [False, True])
def test_an_effect_is_the_average_of_the_gaussian_process(rng: np.random.Generator, minimize: bool) -> None:
    run = told_run(rng, minimize)
    data = ma.plots.effect_data(run, "b")
    arms = np.sort(np.random.default_rng(0).permutation(80)[:AVERAGED])
    assert data.n == len(arms)
    for value, mean, lower, upper in zip(data.values, data.mean, data.lower, data.upper, strict=True):
        expected, std = plain_effect(run, run.pool.features[arms], 1, value)
        assert mean == pytest.approx(expected, abs=1e-6)
        assert (upper - lower) / 2 == pytest.approx(NINETY * std, rel=1e-4, abs=1e-6)
        assert lower < mean < upper


def test_an_effect_around_one_candidate_keeps_its_other_columns(rng: np.random.Generator) -> None:
    run = told_run(rng)
    data = ma.plots.effect_data(run, "a", around=7)
    own = run.pool.features[[7]]
    expected, std = plain_effect(run, own, 0, data.values[3])
    assert (data.n, data.around) == (1, "7")
    assert data.mean[3] == pytest.approx(expected, abs=1e-6)
    assert (data.upper[3] - data.lower[3]) / 2 == pytest.approx(NINETY * std, rel=1e-4)


def test_importance_is_the_total_sobol_index_of_a_known_function() -> None:
    """f = 3 x₁ + x₂ with independent uniform columns: the indices are 9/10 and 1/10, and 0 for the rest."""
    rng = np.random.default_rng(1)
    features = rng.random((3000, 4))
    run = ma.Optimizer(ma.Pool(features, names=["big", "small", "none", "nothing"]), seed=0)
    run.tell(arms=np.arange(150), rewards=3 * features[:150, 0] + features[:150, 1])
    data = ma.plots.importance_data(run)
    assert data.columns[:2] == ["big", "small"]
    found = dict(zip(data.columns, data.importance, strict=True))
    assert found["big"] == pytest.approx(0.9, abs=0.1)
    assert found["small"] == pytest.approx(0.1, abs=0.04)
    assert max(found["none"], found["nothing"]) < 0.01
    assert ma.plots.effect(run).data.column == "big"
    assert [each.data.column for each in ma.plots.effects(run, most=2)] == ["big", "small"]


def frame_run(rng: np.random.Generator) -> ma.Optimizer:
    frame = pd.DataFrame(
        {"x": rng.random(200), "solvent": pd.Categorical(rng.choice(["dmso", "water", "<b>"], 200)), "k": 1.0}
    )
    run = ma.Optimizer(ma.Pool(frame), seed=0)
    lift = frame["solvent"].map({"dmso": 0.0, "water": 5.0, "<b>": 1.0}).to_numpy(dtype=float)
    run.tell(arms=np.arange(90), rewards=(lift + frame["x"].to_numpy())[:90])
    return run


def test_a_category_has_kinds_and_a_constant_column_is_left_out(rng: np.random.Generator) -> None:
    run = frame_run(rng)
    data = ma.plots.importance_data(run)
    assert data.columns == ["solvent", "x"]
    effect = ma.plots.effect_data(run, "solvent")
    assert effect.is_category
    means = dict(zip(effect.values, effect.mean, strict=True))
    assert means["water"] - means["dmso"] == pytest.approx(5.0, abs=0.5)
    assert "<b>" in means


def test_columns_of_a_campaign_are_those_of_its_table(tmp_path) -> None:
    pool = tmp_path / "pool.csv"
    rng = np.random.default_rng(2)
    kinds = rng.choice(["dmso", "water"], 60)
    lines = [f"arm {i},{x:.4f},{kind}" for i, (x, kind) in enumerate(zip(rng.random(60), kinds, strict=True))]
    pool.write_text("name,x1,solvent\n" + "\n".join(lines) + "\n", encoding="utf-8")
    with ma.Campaign.new(tmp_path / "c.db", pool, id="name", goal="minimise") as campaign:
        for _ in range(2):
            batch = campaign.ask(12)
            values = [
                10.0 + 4.0 * (kind == "water") + x
                for x, kind in zip(batch["x1"], batch["solvent"], strict=True)
            ]
            campaign.tell({**batch, "value": values})
        campaign.ask(3)
        data = ma.plots.importance_data(campaign)
        assert sorted(data.columns) == ["solvent", "x1"]
        assert data.columns[0] == "solvent"
        effect = ma.plots.effect_data(campaign, "solvent")
        means = dict(zip(effect.values, effect.mean, strict=True))
        assert means["water"] - means["dmso"] == pytest.approx(4.0, abs=0.8)
        assert 9.5 < means["dmso"] < 11.5
        numbers = ma.plots.effect_data(campaign, "x1", around="arm 3")
        assert numbers.around == "arm 3"
        chart = ma.plots.pool_map_data(campaign)
        assert chart.counts["measured"] + chart.counts["recommended"] >= 24
        assert chart.counts["pending"] + chart.counts["recommended"] >= 3
        top = [p for p in chart.points if p.kind == "recommended"]
        rest = [p.mean for p in chart.points if p.kind != "recommended"]
        assert max(p.mean for p in top) <= min(rest) + 1e-9  # minimised: the recommended are the lowest


def test_a_campaign_with_a_given_kernel_shows_its_own_units(tmp_path) -> None:
    with made(tmp_path, signal=50.0, mean=1000.0, noise=5.0) as inner:
        for _ in range(3):
            issued = inner.ask(10)
            inner.tell_bytes(results([*issued]).encode(), "r.csv")
    with ma.Campaign(tmp_path / "c.db") as campaign:
        best = campaign.best(1)
        view = campaign.chart_view()
        model = view.model()
        predicted = model.to_user(model.run.predict()[0])
        assert float(predicted.max()) == pytest.approx(campaign.best(1, everywhere=True)["mean"][0])
        assert best["mean"][0] <= float(predicted.max()) + 1e-9


def test_fingerprints_and_texts_have_no_columns(rng: np.random.Generator) -> None:
    bits = ma.Pool(rng.integers(0, 256, size=(40, 16)).astype(np.uint8))
    assert columns_of(bits, ma.Scale(ma.Tanimoto(), 2.0)) == ()
    run = ma.Optimizer(bits, ma.BKB(kernel=ma.Tanimoto(), noise_std=0.1))
    run.tell(arms=[0, 1, 2], rewards=[1.0, 2.0, 3.0])
    with pytest.raises(NothingToPlotError, match="no columns"):
        ma.plots.importance(run)
    words = ma.Optimizer(ma.Pool(["abc", "abd", "xyz"]), seed=0)
    words.tell(arms=[0, 1], rewards=[1.0, 2.0])
    for draw in (ma.plots.importance, ma.plots.pool_map):
        with pytest.raises(NothingToPlotError):
            draw(words)


def test_unknown_columns_and_missing_results_are_refused(rng: np.random.Generator) -> None:
    run = told_run(rng)
    with pytest.raises(InvalidParameterError, match="'a', 'b', 'c'"):
        ma.plots.effect(run, "d")
    empty = ma.Optimizer(run.pool)
    for draw in (
        ma.plots.importance,
        ma.plots.effect,
        ma.plots.pool_map,
        ma.plots.predicted,
        ma.plots.progress,
    ):
        with pytest.raises(NothingToPlotError):
            draw(empty)


def test_a_column_over_orders_of_magnitude_is_drawn_on_a_logarithmic_axis(rng: np.random.Generator) -> None:
    """As the learned model sees it; linear values would put half of the candidates into the first step."""
    features = np.column_stack([10 ** rng.uniform(-4, 1, 200), rng.random(200)])
    run = ma.Optimizer(ma.Pool(features, names=["amount", "b"]), seed=0)
    run.tell(arms=np.arange(60), rewards=-((np.log10(features[:60, 0]) + 1) ** 2))
    data = ma.plots.effect_data(run, "amount")
    assert data.logarithmic
    values = np.array(data.values, dtype=float)
    assert np.all(np.diff(values) > 0)
    assert np.diff(np.log10(values)).max() < 0.5
    assert features[:, 0].min() <= values[0] * (1 + 1e-12)
    assert values[-1] <= features[:, 0].max()
    assert not ma.plots.effect_data(run, "b").logarithmic
    scales = [str(ma.plots.effect(run, name).spec()).count("'type': 'log'") for name in ("amount", "b")]
    assert scales[0] > 0
    assert scales[1] == 0

"""The map of the pool: principal components against numpy, and which candidates are drawn as what."""

from __future__ import annotations

import numpy as np
import pytest

import manyarms as ma
from manyarms.errors import InvalidParameterError, NothingToPlotError
from manyarms.plots.data.pool_map import MOST_OTHERS, RECOMMENDED


def run_on(features: np.ndarray, **settings: object) -> ma.Optimizer:
    run = ma.Optimizer(ma.Pool(features), ma.BKB(kernel=ma.RBF(1.0), noise_std=0.1), **settings)
    run.tell(arms=np.arange(20), rewards=np.asarray(features[:20, 0], dtype=float))
    return run


def test_the_axes_are_the_principal_components(rng: np.random.Generator) -> None:
    features = rng.normal(size=(300, 5)) @ rng.normal(size=(5, 5)) * [1, 10, 100, 1, 1] + 7
    run = run_on(features)
    data = ma.plots.pool_map_data(run)
    scaled = (features - features.mean(axis=0)) / features.std(axis=0)
    values, vectors = np.linalg.eigh(scaled.T @ scaled)
    expected = scaled @ vectors[:, [-1, -2]]
    assert data.explained == pytest.approx(values[-2:].sum() / values.sum())
    for point in data.points:
        assert abs(point.x) == pytest.approx(abs(expected[int(point.id), 0]), abs=1e-9)
        assert abs(point.y) == pytest.approx(abs(expected[int(point.id), 1]), abs=1e-9)


def test_every_candidate_is_drawn_once_and_as_what_it_is(rng: np.random.Generator) -> None:
    run = run_on(rng.random((100, 2)))
    batch = run.ask(4)
    data = ma.plots.pool_map_data(run)
    kinds = {point.id: point.kind for point in data.points}
    assert len(data.points) == len(kinds) == sum(data.counts.values()) == 100
    best = {str(arm) for arm in np.argsort(-run.predict()[0])[:RECOMMENDED]}
    assert {id for id, kind in kinds.items() if kind == "recommended"} == best
    for arm in batch.arms.tolist():
        assert kinds[str(arm)] in ("pending", "recommended")
    for arm in range(20):
        assert kinds[str(arm)] in ("measured", "recommended", "pending")
    means = run.predict()[0]
    assert all(point.mean == pytest.approx(means[int(point.id)]) for point in data.points)


def test_large_pools_are_thinned_and_counted(rng: np.random.Generator) -> None:
    data = ma.plots.pool_map_data(run_on(rng.random((5000, 2))))
    drawn = [point for point in data.points if point.kind == "not measured"]
    assert len(drawn) == MOST_OTHERS < data.counts["not measured"]
    assert sum(data.counts.values()) == 5000
    assert "1,500 of" in " ".join(ma.plots.pool_map(run_on(rng.random((5000, 2)))).caption)


def test_the_map_by_columns_shows_the_two_most_important(rng: np.random.Generator) -> None:
    features = rng.random((200, 3))
    run = ma.Optimizer(ma.Pool(features, names=["a", "b", "c"]), ma.BKB(kernel=ma.RBF(0.5), noise_std=0.1))
    run.tell(arms=np.arange(60), rewards=5 * features[:60, 2] + features[:60, 0])
    data = ma.plots.pool_map_data(run, by="columns")
    assert (data.x_title, data.y_title) == ("c", "a")
    assert all((p.x, p.y) == (features[int(p.id), 2], features[int(p.id), 0]) for p in data.points)
    with pytest.raises(InvalidParameterError, match="by"):
        ma.plots.pool_map(run, by="rows")


def test_bits_codes_and_one_column_have_a_map(rng: np.random.Generator) -> None:
    bits = rng.integers(0, 256, size=(60, 32)).astype(np.uint8)
    run = ma.Optimizer(ma.Pool(bits), seed=0)
    run.tell(arms=np.arange(12), rewards=rng.normal(size=12))
    assert len(ma.plots.pool_map_data(run).points) == 60
    single = ma.Optimizer(ma.Pool(rng.random((30, 1))), seed=0)
    single.tell(arms=np.arange(5), rewards=np.arange(5.0))
    assert {point.y for point in ma.plots.pool_map_data(single).points} == {0.0}
    codes = ma.Optimizer(ma.Pool(rng.integers(0, 4, size=(50, 3))), seed=0)
    codes.tell(arms=np.arange(9), rewards=rng.normal(size=9))
    assert len(ma.plots.pool_map_data(codes).points) == 50
    with pytest.raises(NothingToPlotError, match="two columns"):
        ma.plots.pool_map(single, by="columns")

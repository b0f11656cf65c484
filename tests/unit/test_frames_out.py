"""A run as data frames: every row is what the run itself says, in the library of the user."""

from __future__ import annotations

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pytest

import manyarms as ma
from manyarms.run.frames import frame_columns


def a_run(pool=None, **settings) -> ma.Optimizer:
    """A run with results, a failure, a forgotten ticket, a pending one and a result without a ticket."""
    rng = np.random.default_rng(0)
    pool = pool or ma.Pool(rng.normal(size=(30, 2)), ids=[f"c{i}" for i in range(30)], names=["a", "mean"])
    run = ma.Optimizer(pool, ma.BBKB(kernel=ma.RBF(), noise_std=0.1), seed=0, **settings)
    batch = run.ask(4)
    run.tell(batch, [1.0, 2.0, 0.0, 4.0], failed=[False, False, True, False])
    second = run.ask(3)
    run.tell(second.tickets[:1], [3.0])
    run.forget(second.tickets[1:2])
    run.tell(arms=[29], rewards=[9.0])
    return run


LIBRARIES = {"pandas": pd.DataFrame, "polars": pl.DataFrame}


@pytest.mark.parametrize("library", LIBRARIES)
def test_trials_are_the_trace(library: str) -> None:
    run = a_run()
    frame = run.to_frame(library=library)
    assert isinstance(frame, LIBRARIES[library])
    rows = list(nw.from_native(frame).iter_rows(named=True))
    assert [row["ticket"] for row in rows] == list(range(7))
    assert [row["batch"] for row in rows] == [0] * 4 + [1] * 3
    assert [row["state"] for row in rows] == ["done"] * 2 + ["failed"] + ["done"] * 2 + [
        "forgotten",
        "pending",
    ]
    assert [row["id"] for row in rows] == run.pool.ids_of([row["arm"] for row in rows])
    assert [row["why"] for row in rows] == [why for record in run.trace for why in record.why]
    rewards = [row["reward"] for row in rows]
    np.testing.assert_array_equal(np.isnan(rewards), [False, False, True, False, False, True, True])
    np.testing.assert_array_equal(np.array(rewards)[[0, 1, 3, 4]], [1.0, 2.0, 4.0, 3.0])


def test_candidates_have_features_predictions_and_results() -> None:
    run = a_run()
    frame = run.to_frame("candidates")
    mean, std = run.predict()
    np.testing.assert_array_equal(frame["mean"], mean)
    np.testing.assert_array_equal(frame["std"], std)
    np.testing.assert_array_equal(frame["a"], run.pool.features[:, 0])
    np.testing.assert_array_equal(frame["feature mean"], run.pool.features[:, 1])  # the name is taken
    assert frame["pulls"].sum() == run.history.pulls == 5
    assert frame.loc[29, "average"] == 9.0
    assert frame["average"].isna().sum() == 30 - 5


@pytest.mark.parametrize("minimize", [False, True])
def test_the_best_come_first(minimize: bool) -> None:
    run = a_run(minimize=minimize)
    frame = run.to_frame("best", 3)
    assert frame["rank"].tolist() == [1, 2, 3]
    assert frame.loc[0, "arm"] == run.best().arm
    assert frame.loc[0, "mean"] == run.best().mean
    every = run.to_frame("best")
    assert len(every) == len(run.history)
    assert (np.diff(every["mean"]) * (1 if minimize else -1) >= 0).all()


def test_batches_are_the_records_of_the_trace() -> None:
    run = a_run()
    frame = run.to_frame("batches", library="polars")
    assert frame["size"].to_list() == [4, 3]
    assert frame["results"].to_list() == [3, 1]
    assert frame["failed"].to_list() == [1, 0]
    for name in ("width", "dictionary_size", "ratio", "ended_because", "effective_dimension"):
        assert frame[name].to_list() == [getattr(record, name) for record in run.trace]


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_library_is_that_of_the_pool(library: str) -> None:
    rng = np.random.default_rng(0)
    table = LIBRARIES[library]({"a": rng.normal(size=20), "b": rng.normal(size=20)})
    run = a_run(ma.Pool(table).extended(LIBRARIES[library]({"a": [0.0] * 10, "b": [1.0] * 10})))
    assert isinstance(run.to_frame(), LIBRARIES[library])
    assert isinstance(run.to_frame(library="polars"), pl.DataFrame)


def test_a_result_as_a_frame() -> None:
    pool = ma.Pool(np.linspace(0, 1, 20)[:, None], names=["x"])
    result = ma.maximize(lambda arm: float(arm.features[0]), pool, budget=12, seed=0)
    frame = result.to_frame(library="polars")
    assert frame["arm"].to_list() == result.arms.tolist()
    assert frame["reward"].to_list() == result.rewards.tolist()


def test_categorical_features_keep_their_texts() -> None:
    table = pd.DataFrame({"kind": pd.Categorical(["x", "y"] * 10), "a": np.arange(20.0)})
    run = ma.Optimizer(ma.Pool(table), seed=0)
    run.tell(run.ask(3), [1.0, 2.0, 3.0])
    assert run.to_frame("candidates")["kind"].tolist() == ["x", "y"] * 10


def test_a_run_without_results() -> None:
    run = ma.Optimizer(ma.Pool([[0.0], [1.0]]), ma.BKB(kernel=ma.RBF()))
    assert len(run.to_frame()) == len(run.to_frame("batches")) == 0
    assert run.to_frame("candidates")["pulls"].tolist() == [0, 0]
    with pytest.raises(ma.errors.NoResultsError):
        run.to_frame("best")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"of": "arms"}, "'trials'"),
        ({"library": "dask"}, "'pandas' or 'polars'"),
        ({"of": "trials", "k": 3}, "left out"),
        ({"of": "best", "k": 0}, "k must be"),
    ],
)
def test_what_is_refused(arguments, message: str) -> None:
    with pytest.raises(ma.errors.InvalidParameterError, match=message):
        a_run().to_frame(**arguments)


def test_columns_need_no_other_library() -> None:
    columns = frame_columns(a_run(), "best", 2)
    assert {len(column) for column in columns.values()} == {2}

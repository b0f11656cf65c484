"""Settings of a program become features that a model can learn from."""

from __future__ import annotations

import numpy as np
import pytest

import manyarms as ma
from manyarms.pool.parameter_rows import MANY_LABELS, parameter_features


def columns(*rows):
    features, names = parameter_features(rows)
    return {name: features[:, j].tolist() for j, name in enumerate(names)}


def test_numbers_and_booleans_are_numbers() -> None:
    features, names = parameter_features([{"a": 1, "b": True}, {"a": 2.5, "b": np.False_}])
    assert features.dtype == np.float64
    assert dict(zip(names, features.T.tolist(), strict=True)) == {"a": [1.0, 2.5], "b": [1.0, 0.0]}


def test_other_values_are_labels_and_equal_ones_are_the_same() -> None:
    found = columns({"k": "rbf"}, {"k": None}, {"k": "rbf"}, {"k": ("a", 1)})
    assert found == {"k": ["value 0", "value 1", "value 0", "value 2"]}


def test_true_and_one_are_different_labels() -> None:
    assert columns({"k": "a"}, {"k": (True,)}, {"k": (1, 2)})["k"] == ["value 0", "value 1", "value 2"]


def test_values_that_cannot_be_hashed_are_told_apart() -> None:
    array = np.arange(3)
    assert columns({"w": array}, {"w": [1, "x"]}, {"w": array})["w"] == ["value 0", "value 1", "value 0"]


def test_numbers_among_other_values_keep_their_order() -> None:
    found = columns({"depth": None}, {"depth": 2}, {"depth": 8}, {"depth": float("inf")})
    assert found["depth"] == [5.0, 2.0, 8.0, 5.0]
    assert found["depth (kind)"] == ["value 0", "value 1", "value 1", "value 2"]


def test_a_parameter_that_some_rows_do_not_have() -> None:
    found = columns({"kernel": "linear", "C": 1.0}, {"kernel": "rbf", "C": 1.0, "gamma": 0.1})
    assert found["gamma"] == [0.1, 0.1]
    assert found["gamma (kind)"] == ["value 0", "value 1"]


def test_tuples_of_numbers_become_one_column_per_position() -> None:
    assert columns({"layers": (10, 20)}, {"layers": (30, 40)}) == {
        "layers[0]": [10.0, 30.0],
        "layers[1]": [20.0, 40.0],
    }
    assert list(columns({"layers": (10,)}, {"layers": (30, 40)})) == ["layers"]


def test_very_many_labels_become_numbers() -> None:
    rows = [{"text": f"t{i}"} for i in range(MANY_LABELS + 1)]
    assert columns(*rows)["text"] == [float(i) for i in range(MANY_LABELS + 1)]


def test_a_huge_integer_is_a_label() -> None:
    assert columns({"n": 10**400}, {"n": 3})["n (kind)"] == ["value 0", "value 1"]


def test_a_run_can_learn_from_every_kind() -> None:
    rows = [
        {"a": a, "k": k, "depth": d, "layers": (a, 2 * a)}
        for a in (1, 10, 100)
        for k in ("x", "y")
        for d in (None, 3, 4)
    ]
    features, names = parameter_features(rows)
    run = ma.Optimizer(ma.Pool(features, names=names), seed=0)
    for _ in range(4):
        batch = run.ask(3)
        run.tell(batch, [float(rows[arm]["a"] + (rows[arm]["k"] == "y")) for arm in batch])
    assert rows[run.best().arm]["a"] == 100


def test_no_rows_are_refused() -> None:
    with pytest.raises(ma.errors.EmptyPoolError, match="no settings"):
        parameter_features([])

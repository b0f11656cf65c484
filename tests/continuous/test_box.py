"""Boxes: what is accepted, and the coordinates of their points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import manyarms as ma
from manyarms.errors import InvalidParameterError

MIXED = ma.Box([-5.0, 1.0, 1e-4, 1], [10.0, 6.0, 1.0, 1000], integer=[1, 3], log=[2, 3])

BAD = [
    ({"lower": [], "upper": []}, "lower"),
    ({"lower": 0.0, "upper": 1.0}, "lower"),
    ({"lower": [0.0], "upper": [1.0, 2.0]}, "2 numbers|1 numbers"),
    ({"lower": ["a"], "upper": [1.0]}, "lower"),
    ({"lower": [True], "upper": [2.0]}, "lower"),
    ({"lower": [0.0], "upper": [float("nan")]}, "upper"),
    ({"lower": [-np.inf], "upper": [0.0]}, "lower"),
    ({"lower": [1.0], "upper": [1.0]}, "above lower"),
    ({"lower": [2.0], "upper": [1.0]}, "above lower"),
    ({"lower": [-1.7e308], "upper": [1.7e308]}, "difference is finite"),
    ({"lower": [0.0], "upper": [1.0], "log": True}, "logarithmic"),
    ({"lower": [-1.0], "upper": [1.0], "log": [0]}, "logarithmic"),
    ({"lower": [0.5], "upper": [3.0], "integer": True}, "whole number"),
    ({"lower": [0], "upper": [10**10], "integer": True}, "at most"),
    ({"lower": [0.0], "upper": [1.0], "integer": [1]}, "integer"),
    ({"lower": [0.0, 0.0], "upper": [1.0, 1.0], "integer": [True]}, "integer"),
    ({"lower": [0.0], "upper": [1.0], "integer": "yes"}, "integer"),
    ({"lower": [0.0], "upper": [1.0], "log": 1.5}, "log"),
    ({"lower": [[0.0]], "upper": [[1.0]]}, "lower"),
]


@pytest.mark.parametrize(("settings", "says"), BAD)
def test_bad_boxes_are_refused_and_named(settings: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidParameterError, match=says):
        ma.Box(**settings)


def test_flags_and_numbers_of_axes_say_the_same() -> None:
    assert ma.Box([1, 1], [3, 3], integer=[0]) == ma.Box([1, 1], [3, 3], integer=[True, False])
    assert ma.Box([1], [2], integer=True, log=True).log == (True,)
    assert ma.Box([1, 1], [3, 3], integer=[]).integer == (False, False)
    assert repr(ma.Box([0], [1])).startswith("Box(lower=(0.0,)")


@settings(deadline=None)  # the machine may be busy
@given(st.lists(st.floats(0.0, 1.0), min_size=4, max_size=4))
def test_points_are_inside_and_have_their_coordinates(coordinates: list[float]) -> None:
    point = MIXED.points(np.array([coordinates]))
    assert MIXED.contains(point).all()
    back = MIXED.coordinates(point)
    np.testing.assert_array_equal(MIXED.points(back)[:, [1, 3]], point[:, [1, 3]])  # whole numbers exactly
    np.testing.assert_allclose(MIXED.points(back), point, rtol=1e-12)
    assert abs(back[0, 0] - coordinates[0]) < 1e-12
    assert abs(back[0, 2] - coordinates[2]) < 1e-12


def test_every_whole_number_is_equally_likely() -> None:
    box = ma.Box([0], [9], integer=True)
    drawn = box.points(np.linspace(0, 1, 10_001)[:, None])[:, 0]
    assert np.bincount(drawn.astype(int)).tolist() == pytest.approx([1000] * 10, abs=2)


def test_saved_boxes_are_the_same() -> None:
    assert ma.Box.from_plain(MIXED.to_plain()) == MIXED


@pytest.mark.parametrize(
    "points", [[[0.0, 1.5, 0.5, 3.0]], [[11.0, 1.0, 0.5, 3.0]], [[0.0, 1.0]], "x", [[np.nan, 1, 0.5, 3]]]
)
def test_points_outside_are_refused(points: object) -> None:
    with pytest.raises(InvalidParameterError, match="points"):
        MIXED.checked(points)

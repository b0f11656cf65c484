"""Kernels of categories and of tables: equal to those of the one-hot columns that they never build."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import manyarms as ma
from manyarms.errors import InvalidFeaturesError, InvalidKernelError, InvalidParameterError
from manyarms.kernels import Kernel, Mixed, OneHot, Reading
from manyarms.kernels.describe import describe, from_description
from manyarms.kernels.mismatches import Mismatches
from manyarms.testing import KernelContract

LENGTHS = (0.5, 1.0, 2.0, 0.7)
READINGS = (
    Reading("number", (0,), scale=2.0),
    Reading("name", (1,)),
    Reading("present", (2,), (0.5, 1.0), 0.7),
    Reading("missing", (2,), (0.5,)),
    Reading("logarithm", (3,), (0.5,)),
    Reading("level", (1,), (0.0, 2.0, 1.0, 1.0)),
    Reading("rank", (4, 5, 6), (2.0, 0.0, 1.0), 0.8),
    Reading("indicators", (4, 5, 6)),
    Reading("power", (0,), (0.3,)),
    Reading("present logarithm", (2,), (0.5, 1.0, 0.2)),
)
MIXED = Mixed(READINGS, tuple(np.linspace(0.8, 3.0, len(READINGS))))


def table(rng: np.random.Generator, n: int) -> np.ndarray:
    codes, one = rng.integers(3, size=n), np.eye(3)[rng.integers(3, size=n)]
    return np.column_stack([rng.normal(size=n), codes, rng.integers(4, size=n), rng.exponential(size=n), one])


def expanded(X: np.ndarray) -> np.ndarray:
    """The columns of the readings above, written out."""
    x = X[:, 2]
    present = np.where(x < 0.5, 1.0, x)
    return np.column_stack(
        [
            X[:, 0] / 2.0,
            np.eye(3)[X[:, 1].astype(int)],
            present / 0.7,
            x < 0.5,
            np.arcsinh(X[:, 3] / 0.5),
            np.array([0.0, 2.0, 1.0])[X[:, 1].astype(int)],
            X[:, 4:] @ [2.0, 0.0, 1.0] / 0.8,
            X[:, 4:],
            0.3 * np.sinh(X[:, 0]),
            np.arcsinh(present / 0.2),
        ]
    )


WIDTHS = [1, 3, 1, 1, 1, 1, 1, 3, 1, 1]


class _Codes(KernelContract):
    def features(self, rng: np.random.Generator, n: int) -> Any:
        return rng.integers(3, size=(n, 4))


class TestOneHot(_Codes):
    def kernel(self) -> Kernel:
        return OneHot(1.3)


class TestOneHotByPosition(_Codes):
    def kernel(self) -> Kernel:
        return OneHot(LENGTHS)


class TestOneHotRBFOfStrings(_Codes):
    def kernel(self) -> Kernel:
        return OneHot(LENGTHS, nu=None)

    def features(self, rng: np.random.Generator, n: int) -> Any:
        return np.array(["".join(row) for row in np.array(list("ACG"))[rng.integers(3, size=(n, 4))]])


class TestOneHotOfWords(_Codes):
    def kernel(self) -> Kernel:
        return OneHot(LENGTHS)

    def features(self, rng: np.random.Generator, n: int) -> Any:
        return np.array(["red", "blue", "green"])[rng.integers(3, size=(n, 4))]


class TestMixed(KernelContract):
    def kernel(self) -> Kernel:
        return MIXED

    def features(self, rng: np.random.Generator, n: int) -> Any:
        return table(rng, n)


class TestMixedOfNamesAlone(_Codes):
    def kernel(self) -> Kernel:
        return Mixed((Reading("name", (3,)), Reading("name", (1,))), 0.8, nu=None)


@pytest.mark.parametrize("nu", [None, 1.5, 2.5])
@pytest.mark.parametrize(("n", "m"), [(1, 9), (7, 5000), (300, 40), (40, 5000)])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.float64])
def test_one_hot_kernels_are_those_of_the_columns(nu: float | None, n: int, m: int, dtype: type) -> None:
    rng = np.random.default_rng(0)
    sizes = (2, 3, 4, 5, 3, 2, 6, 3, 4, 7)
    X, Y = (rng.integers(sizes, size=(rows, 10)) for rows in (n, m))
    lengths = rng.uniform(0.5, 5.0, size=10)
    wide = tuple(np.repeat(lengths, sizes).tolist())
    columns = [np.hstack([np.eye(s)[rows[:, j]] for j, s in enumerate(sizes)]) for rows in (X, Y)]
    X, Y = X.astype(dtype), Y.astype(dtype)
    for one_hot, lengthscale in ((OneHot(tuple(lengths), nu), wide), (OneHot(2.3, nu), 2.3)):
        oracle = ma.RBF(lengthscale) if nu is None else ma.Matern(lengthscale, nu)
        np.testing.assert_allclose(one_hot.matrix(X, Y), oracle.matrix(*columns), rtol=1e-12, atol=1e-15)


def test_the_shared_rbf_is_hamming() -> None:
    X = np.random.default_rng(1).integers(4, size=(50, 8))
    hamming = ma.Hamming(0.3).matrix(X, X)
    np.testing.assert_allclose(OneHot((8 * 0.3) ** 0.5, nu=None).matrix(X, X), hamming, rtol=1e-13)


def test_mixed_is_the_kernel_of_the_expanded_columns() -> None:
    rng = np.random.default_rng(2)
    X, Y = table(rng, 5000), table(rng, 30)
    wide = tuple(np.repeat(MIXED.lengthscale, WIDTHS).tolist())
    np.testing.assert_allclose(
        MIXED.matrix(X, Y), ma.Matern(wide).matrix(expanded(X), expanded(Y)), rtol=1e-10, atol=1e-13
    )


@pytest.mark.parametrize("values", [(0, 1, 2), (0.5, 1.5, 7.25), (-1, 10**9, 3), (100, 200, 4000)])
def test_all_ways_to_add_mismatches_give_the_same_bits(values: tuple[float, ...]) -> None:
    """One arm and many, whole numbers or not, in reach of a table or not."""
    rng = np.random.default_rng(3)
    weights = 10.0 ** rng.uniform(-6, 6, size=11)
    few, many = (np.array(values)[rng.integers(3, size=(n, 11))] for n in (40, 900))
    many[0, 0] = 77  # that no other arm has
    together, alone = np.empty((40, 900)), np.empty((1, 900))
    measure = Mismatches(few, weights)
    measure.fill(together, slice(0, 40), measure.prepared(many))
    for i in (0, 17, 39):
        single = Mismatches(few[i : i + 1], weights)
        single.fill(alone, slice(0, 1), single.prepared(many))
        np.testing.assert_array_equal(alone[0], together[i])
    plain = ((few[:, None] != many[None]) * weights).sum(axis=2)
    np.testing.assert_allclose(together, plain, rtol=1e-15, atol=1e-15 * weights.sum())


def test_parts_of_a_pool_have_the_bits_of_the_whole() -> None:
    rng = np.random.default_rng(4)
    X, Y = table(rng, 9000), table(rng, 20)
    codes = rng.integers(4, size=(9000, 4))
    for kernel, arms, points in ((MIXED, X, Y), (OneHot(LENGTHS), codes, codes[:20])):
        whole = kernel.matrix(arms, points)
        for part in (slice(0, 4096), slice(4096, 9000)):
            np.testing.assert_array_equal(kernel.matrix(arms[part], points), whole[part])


@pytest.mark.parametrize(
    "kernel", [OneHot(1.5), OneHot(LENGTHS, nu=None), MIXED, ma.kernels.Scale(MIXED, 2.0)]
)
def test_they_are_written_and_read_back(kernel: Kernel) -> None:
    import json

    assert from_description(json.loads(json.dumps(describe(kernel)))) == kernel


def test_a_level_that_is_not_known_is_the_last_one() -> None:
    reading = Reading("level", (0,), (0.0, 1.0, 2.0, 5.0))
    np.testing.assert_array_equal(reading.numbers(np.array([[2.0], [-1.0], [3.0]])).ravel(), [2.0, 5.0, 5.0])


@pytest.mark.parametrize(
    ("kind", "columns", "values", "says"),
    [
        ("square", (0,), (), "'square'"),
        ("number", (0, 1), (), "one column"),
        ("rank", (), (), "one or more"),
        ("rank", (0, 1), (1.0,), "2 for the kind"),
        ("logarithm", (0,), (), "1 for the kind"),
        ("missing", (0,), (np.nan,), "values"),
        ("number", (-1,), (), "columns"),
    ],
)
def test_readings_are_checked(
    kind: str, columns: tuple[int, ...], values: tuple[float, ...], says: str
) -> None:
    with pytest.raises(InvalidParameterError, match=says):
        Reading(kind, columns, values)


def test_features_must_fit() -> None:
    with pytest.raises(InvalidKernelError, match="4 length-scales"):
        OneHot(LENGTHS).diag(np.zeros((3, 5), dtype=int))
    with pytest.raises(InvalidFeaturesError, match="3 and with 4"):
        OneHot(1.0).matrix(np.zeros((3, 3), dtype=int), np.zeros((3, 4), dtype=int))
    with pytest.raises(InvalidFeaturesError, match="column 6"):
        MIXED.diag(np.zeros((3, 5)))
    with pytest.raises(InvalidKernelError, match="2 length-scales"):
        Mixed(READINGS, (1.0, 2.0))
    with pytest.raises(InvalidParameterError, match="readings"):
        Mixed(())

"""Kernels that read some of the columns."""

from __future__ import annotations

import numpy as np
import pytest

import manyarms as ma
from manyarms.errors import InvalidFeaturesError, InvalidParameterError
from manyarms.kernels.describe import describe, from_description
from manyarms.testing import KernelContract


class TestOnColumns(KernelContract):
    def kernel(self):
        return ma.OnColumns(ma.RBF(0.7), range(1, 3)) * ma.OnColumns(ma.Matern(1.0), [3, 0])

    def features(self, rng, n):
        return rng.normal(size=(n, 4))


def test_values_are_those_of_the_columns(rng):
    X, Y = rng.normal(size=(5, 4)), rng.normal(size=(6, 4))
    kernel, part = ma.RBF(0.7), [2, 0]
    on = ma.OnColumns(kernel, part)
    np.testing.assert_array_equal(on.matrix(X, Y), kernel.matrix(X[:, part], Y[:, part]))
    np.testing.assert_array_equal(on.diag(X), kernel.diag(X[:, part]))
    np.testing.assert_array_equal(ma.OnColumns(kernel, 3).matrix(X, Y), kernel.matrix(X[:, 3:], Y[:, 3:]))


def test_a_repeated_context_is_evaluated_once(rng):
    calls = []

    class Counting(ma.RBF):
        def matrix(self, X, Y):
            calls.append((len(X), len(Y)))
            return super().matrix(X, Y)

    X, Y = rng.normal(size=(8, 3)), rng.normal(size=(5, 3))
    X[:, 1:] = X[0, 1:]
    on = ma.OnColumns(Counting(0.5), [1, 2])
    found = on.matrix(X, Y), on.matrix(Y, X)
    assert calls == [(1, 5), (5, 1)]
    np.testing.assert_allclose(found[0], ma.RBF(0.5).matrix(X[:, 1:], Y[:, 1:]), rtol=1e-14)
    np.testing.assert_allclose(found[1], found[0].T, rtol=1e-14)


def test_it_is_plain_data():
    kernel = 2.0 * (ma.OnColumns(ma.RBF(0.7), [0, 2]) + ma.OnColumns(ma.Hamming(), 1))
    again = from_description(describe(kernel))
    assert again == kernel
    assert hash(again) == hash(kernel)
    assert repr(ma.OnColumns(ma.RBF(0.7), [0, 2])) == "OnColumns(RBF(lengthscale=0.7), [0, 2])"


@pytest.mark.parametrize("columns", [[], [-1], [0, 0], ["a"], [0.5], None, [True]])
def test_wrong_columns_are_refused(columns):
    with pytest.raises(InvalidParameterError, match="columns"):
        ma.OnColumns(ma.RBF(1.0), columns)


def test_features_without_the_column_are_refused():
    with pytest.raises(InvalidFeaturesError, match=r"column 3, the features have shape \(2, 2\)"):
        ma.OnColumns(ma.RBF(1.0), 3).matrix(np.eye(2), np.eye(2))

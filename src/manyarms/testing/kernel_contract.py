"""The properties every kernel must have, as a test class to inherit.

    class TestMyKernel(KernelContract):
        def kernel(self): return MyKernel()
        def features(self, rng, n): return rng.normal(size=(n, 3))

Run it with pytest; this module does not import pytest.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from manyarms.kernels import KernelLike


class KernelContract:
    """Symmetric, positive semi-definite, consistent diagonal and blocks, inputs unchanged, float64 output."""

    seeds = (0, 1, 2)
    n = 40

    def kernel(self) -> KernelLike:
        """The kernel under test."""
        raise NotImplementedError("override kernel() to return the kernel under test")

    def features(self, rng: np.random.Generator, n: int) -> Any:
        """The features of n arms, as the kernel expects them."""
        raise NotImplementedError("override features() to return the features of n arms")

    def _cases(self) -> list[tuple[Any, Any]]:
        return [
            (self.features(rng, self.n), self.features(rng, 7))
            for rng in map(np.random.default_rng, self.seeds)
        ]

    def test_shapes_and_type(self) -> None:
        """matrix is len(X) × len(Y) and diag len(X), both finite float64."""
        for X, Y in self._cases():
            K, d = self.kernel().matrix(X, Y), self.kernel().diag(X)
            assert K.shape == (self.n, 7), K.shape
            assert d.shape == (self.n,), d.shape
            assert K.dtype == d.dtype == np.float64, (K.dtype, d.dtype)
            assert np.isfinite(K).all()
            assert np.isfinite(d).all()

    def test_symmetric(self) -> None:
        """k(x, y) = k(y, x)."""
        for X, Y in self._cases():
            np.testing.assert_allclose(
                self.kernel().matrix(X, Y), self.kernel().matrix(Y, X).T, rtol=1e-10, atol=1e-13
            )

    def test_positive_semi_definite(self) -> None:
        """No eigenvalue of a Gram matrix is negative beyond rounding error."""
        for X, _ in self._cases():
            values = np.linalg.eigvalsh(self.kernel().matrix(X, X))
            assert values[0] >= -1e-10 * max(values[-1], 1e-300), values[0]

    def test_diag_agrees(self) -> None:
        """diag(X) is the diagonal of matrix(X, X) and not negative."""
        for X, _ in self._cases():
            d = self.kernel().diag(X)
            assert (d >= 0).all()
            np.testing.assert_allclose(d, np.diag(self.kernel().matrix(X, X)), rtol=1e-10, atol=1e-13)

    def test_blocks_agree(self) -> None:
        """Every block equals the same part of the full matrix, since passes over a pool go block by block."""
        for X, Y in self._cases():
            whole = self.kernel().matrix(X, Y)
            for i in (slice(0, 1), slice(3, 17), slice(17, self.n)):
                for j in (slice(0, 1), slice(2, 7)):
                    np.testing.assert_allclose(
                        self.kernel().matrix(X[i], Y[j]), whole[i, j], rtol=1e-10, atol=1e-13
                    )

    def test_no_arms(self) -> None:
        """An empty X or Y gives an empty matrix, as before the first pull."""
        for X, Y in self._cases():
            assert self.kernel().matrix(X, Y[:0]).shape == (self.n, 0)
            assert self.kernel().matrix(X[:0], Y).shape == (0, 7)

    def test_inputs_untouched(self) -> None:
        """Neither argument is modified."""
        for X, Y in self._cases():
            X_before, Y_before = copy.deepcopy(X), copy.deepcopy(Y)
            self.kernel().matrix(X, Y)
            self.kernel().diag(X)
            assert _same(X, X_before)
            assert _same(Y, Y_before)

    def test_read_only_inputs(self) -> None:
        """Read-only arrays are accepted: the features of a pool are read-only."""
        for X, Y in self._cases():
            for features in (X, Y):
                if isinstance(features, np.ndarray):
                    features.flags.writeable = False
            self.kernel().matrix(X, Y)
            self.kernel().diag(X)


def _same(features: Any, before: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(features, before, strict=True))

"""The kernel contract: every kernel of the package keeps it, and it detects kernels that do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process import kernels as sk

import manyarms as ma
from manyarms.kernels import Kernel, as_kernel
from manyarms.testing import KernelContract


class _Numbers(KernelContract):
    d = 3

    def features(self, rng: np.random.Generator, n: int) -> Any:
        return rng.normal(size=(n, self.d))


class TestRBF(_Numbers):
    def kernel(self) -> Kernel:
        return ma.RBF(lengthscale=(0.5, 1.0, 2.0))


class TestRBFManyFeatures(_Numbers):
    d = 80

    def kernel(self) -> Kernel:
        return ma.RBF(lengthscale=9.0)


class TestRBFSingle(_Numbers):
    def kernel(self) -> Kernel:
        return ma.RBF()

    def features(self, rng: np.random.Generator, n: int) -> Any:
        return rng.normal(size=(n, 3)).astype(np.float32)


class TestRBFDuplicates(_Numbers):
    def kernel(self) -> Kernel:
        return ma.RBF()

    def features(self, rng: np.random.Generator, n: int) -> Any:
        return rng.integers(0, 2, size=(n, 2)) + 1e-9 * rng.normal(size=(n, 2))


class TestMaternHalf(_Numbers):
    def kernel(self) -> Kernel:
        return ma.Matern(nu=0.5)


class TestMatern32(_Numbers):
    def kernel(self) -> Kernel:
        return ma.Matern(lengthscale=(1.0, 2.0, 3.0), nu=1.5)


class TestMatern52(_Numbers):
    def kernel(self) -> Kernel:
        return ma.Matern(nu=2.5)


class TestMaternGeneral(_Numbers):
    def kernel(self) -> Kernel:
        return ma.Matern(nu=0.9)


class TestMaternVerySmooth(_Numbers):
    def kernel(self) -> Kernel:
        return ma.Matern(nu=150.0)


class TestLinear(_Numbers):
    def kernel(self) -> Kernel:
        return ma.Linear(bias=0.3)


class TestTanimotoBooleans(KernelContract):
    def kernel(self) -> Kernel:
        return ma.Tanimoto()

    def features(self, rng: np.random.Generator, n: int) -> Any:
        return rng.random((n, 50)) < 0.2


class TestTanimotoPacked(TestTanimotoBooleans):
    def features(self, rng: np.random.Generator, n: int) -> Any:
        return np.packbits(super().features(rng, n), axis=1)


class TestHammingStrings(KernelContract):
    def kernel(self) -> Kernel:
        return ma.Hamming(lengthscale=0.4)

    def features(self, rng: np.random.Generator, n: int) -> Any:
        return np.array(["".join(word) for word in rng.choice(list("ACGT"), size=(n, 6))])


class TestHammingCodes(TestHammingStrings):
    def features(self, rng: np.random.Generator, n: int) -> Any:
        return rng.integers(0, 3, size=(n, 5))


class TestSum(_Numbers):
    def kernel(self) -> Kernel:
        return ma.RBF() + ma.Linear()


class TestProduct(_Numbers):
    def kernel(self) -> Any:
        return ma.RBF() * ma.Matern()


class TestScale(_Numbers):
    def kernel(self) -> Kernel:
        return ma.Scale(ma.RBF(), 3.0)


class TestSklearn(_Numbers):
    def kernel(self) -> Kernel:
        return ma.SklearnKernel(2.0 * sk.RBF(0.8) + sk.DotProduct())


class TestSklearnIsotropicMatern(_Numbers):
    def kernel(self) -> Any:
        return as_kernel(sk.Matern(nu=1.5))


# ---------------------------------------------------------------------- the contract itself


class _Asymmetric:
    def matrix(self, X: Any, Y: Any) -> Any:
        return np.asarray(X[:, :1] - 2 * Y[:, :1].T)

    def diag(self, X: Any) -> Any:
        return np.ones(len(X))


class _Negative(_Asymmetric):
    def matrix(self, X: Any, Y: Any) -> Any:
        return -X @ Y.T

    def diag(self, X: Any) -> Any:
        return -np.einsum("ij,ij->i", X, X)


class _Writer(_Asymmetric):
    def matrix(self, X: Any, Y: Any) -> Any:
        X += 1.0
        return X @ Y.T


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (_Asymmetric, "test_symmetric"),
        (_Asymmetric, "test_diag_agrees"),
        (_Negative, "test_positive_semi_definite"),
        (_Negative, "test_diag_agrees"),
        (_Writer, "test_inputs_untouched"),
    ],
)
def test_the_contract_catches_broken_kernels(broken: Any, check: str) -> None:
    class Suite(_Numbers):
        def kernel(self) -> Any:
            return broken()

    with pytest.raises(AssertionError):
        getattr(Suite(), check)()

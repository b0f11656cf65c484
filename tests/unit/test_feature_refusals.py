"""Feature maps: what they refuse and say instead, and that their arrays alone rebuild them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import manyarms as ma
from manyarms.embeddings import (
    Eigenfunctions,
    FourierFeatures,
    HilbertSpaceFeatures,
    Projection,
    QuadratureFourierFeatures,
    RandomFourierFeatures,
    RandomProjection,
    kernel_error,
)
from manyarms.errors import (
    InvalidFeaturesError,
    InvalidKernelError,
    InvalidParameterError,
    UnsuitableKernelError,
)
from manyarms.kernels import KernelLike
from manyarms.posterior.frequent_directions import FrequentDirections


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


NO_SPECTRUM: list[KernelLike] = [
    ma.Tanimoto(),
    ma.Hamming(),
    ma.Linear(),
    ma.RBF() * ma.RBF(),  # type: ignore[list-item]
    ma.RBF() + ma.Matern(),
    3.0 * ma.Linear(),
]
X2 = np.random.default_rng(5).random((40, 2))


@pytest.mark.parametrize("kernel", NO_SPECTRUM, ids=repr)
def test_kernels_without_a_spectral_density_are_refused(kernel: KernelLike) -> None:
    for build in (
        lambda: RandomFourierFeatures(kernel, 10, rng(), 2),
        lambda: QuadratureFourierFeatures(kernel, 10, 2),
        lambda: HilbertSpaceFeatures(kernel, 10, [0, 0], [1, 1]),
    ):
        with pytest.raises(UnsuitableKernelError, match="inducing points"):
            build()


def test_a_kernel_of_somebody_else_is_not_taken_for_its_parent() -> None:
    class Periodic(ma.RBF):
        pass

    with pytest.raises(UnsuitableKernelError, match="Periodic"):
        RandomFourierFeatures(Periodic(), 10, rng(), 2)


def test_quadrature_refuses_heavy_tails_and_large_grids() -> None:
    with pytest.raises(UnsuitableKernelError, match="HilbertSpaceFeatures"):
        QuadratureFourierFeatures(ma.Matern(), 10, 2)
    with pytest.raises(InvalidParameterError, match=r"at most 3 for 8 features.*HilbertSpaceFeatures"):
        QuadratureFourierFeatures(ma.RBF(), 4, 8)
    assert QuadratureFourierFeatures(ma.RBF(), 3, 8).dimension == 3**8
    assert QuadratureFourierFeatures(ma.RBF(), 10, 4).dimension == 10_000, "the limit itself is allowed"


@pytest.mark.parametrize(
    ("lower", "upper", "name"),
    [
        ([0.0, -np.inf], [1.0, 1.0], "lower"),
        ([0.0, 0.0], [1.0, np.nan], "upper"),
        ([0.0, 2.0], [1.0, 1.0], "upper"),
        ([0.0, 0.0], 1.0, "upper"),
        ("a", 1.0, "lower"),
    ],
)
def test_a_box_must_be_bounded(lower, upper, name: str) -> None:
    with pytest.raises(InvalidParameterError) as caught:
        HilbertSpaceFeatures(ma.RBF(), 10, lower, upper)
    assert caught.value.name == name


def test_an_unbounded_box_gets_advice() -> None:
    with pytest.raises(InvalidParameterError, match="RandomFourierFeatures"):
        HilbertSpaceFeatures(ma.RBF(), 10, 0.0, np.inf)


def test_arms_outside_the_box_are_refused() -> None:
    features = HilbertSpaceFeatures(ma.RBF(0.2), 20, [0.0, 0.0], [1.0, 1.0], margin=1.0)
    features.matrix([[1.19, 0.5]])
    with pytest.raises(
        InvalidFeaturesError, match=r"feature 1 of row 1 is 1.3, outside the box \[-0.2, 1.2\]"
    ):
        features.matrix([[0.5, 0.5], [0.5, 1.3]])
    with pytest.raises(InvalidFeaturesError, match="outside"):
        features.matrix([[np.nan, 0.5]])


@pytest.mark.parametrize("constant", [0, 1])
def test_a_constant_feature_costs_nothing(constant: int) -> None:
    X = np.insert(X2, constant, 7.0, axis=1)
    lengthscales = np.insert([0.3, 0.5], constant, 0.1)
    kernel = ma.Matern(tuple(lengthscales), nu=1.5)
    features = HilbertSpaceFeatures(kernel, 50, X.min(axis=0), X.max(axis=0))
    without = HilbertSpaceFeatures(ma.Matern((0.3, 0.5), nu=1.5), 50, X2.min(axis=0), X2.max(axis=0))
    np.testing.assert_allclose(features.matrix(X), without.matrix(X2), rtol=1e-12)
    with pytest.raises(InvalidFeaturesError, match="outside"):
        features.matrix(X + 0.01)


def test_arms_that_are_all_equal_need_one_feature() -> None:
    features = HilbertSpaceFeatures(4.0 * ma.RBF(), 10, [1.0, 2.0], [1.0, 2.0])  # type: ignore[arg-type]
    assert features.dimension == 1
    np.testing.assert_allclose(features.matrix([[1.0, 2.0]]), [[2.0]])


def test_leading_features_are_those_of_largest_weight() -> None:
    features = HilbertSpaceFeatures(ma.RBF(0.4), 30, [0, 0], [1, 1])
    assert (np.diff(features.weights) <= 0).all()
    np.testing.assert_array_equal(features.leading(7).matrix(X2), features.matrix(X2)[:, :7])
    np.testing.assert_allclose(
        features.matrix(X2), np.sqrt(features.weights) * features.functions(X2), rtol=1e-14
    )
    with pytest.raises(InvalidParameterError, match="at most 30"):
        features.leading(31)


@pytest.mark.parametrize("kernel", [ma.RBF(0.4), ma.Matern(0.4, nu=0.3), ma.Matern(0.4, nu=1e-3)])
def test_fourier_features_leave_no_residual(kernel: KernelLike) -> None:
    features = RandomFourierFeatures(ma.kernels.Scale(kernel, 3.0), 7, rng(), 2)
    Z = features.matrix(X2)
    assert Z.shape == (40, features.dimension) == (40, 14)
    np.testing.assert_allclose((Z**2).sum(axis=1), 3.0, rtol=1e-13)


MAPS = {
    "random": (lambda: RandomFourierFeatures(ma.Matern(0.4), 9, rng(), 2), FourierFeatures),
    "quadrature": (lambda: QuadratureFourierFeatures(ma.RBF(0.4), 5, 2), FourierFeatures),
    "eigen": (lambda: HilbertSpaceFeatures(ma.RBF(0.4), 20, [0, 0], [1, 1]), Eigenfunctions),
    "projection": (lambda: RandomProjection(ma.Linear(0.5), 2, rng(), 2), Projection),
}


@pytest.mark.parametrize("name", MAPS)
def test_a_map_is_its_arrays(name: str) -> None:
    """Rebuilt from its fields it is the same map bit for bit, and nobody can change it on the way."""
    build, kind = MAPS[name]
    features = build()
    saved = {field.name: np.array(getattr(features, field.name)) for field in dataclasses.fields(kind)}
    again = kind(**saved)
    np.testing.assert_array_equal(again.matrix(X2), features.matrix(X2))
    np.testing.assert_array_equal(build().matrix(X2), features.matrix(X2))
    for array in saved.values():
        array[...] = 0
    np.testing.assert_array_equal(again.matrix(X2), features.matrix(X2))
    with pytest.raises(ValueError, match="read-only"):
        next(iter(vars(again).values()))[...] = 0.0


@pytest.mark.parametrize("name", MAPS)
def test_rows_must_have_the_features_of_the_map(name: str) -> None:
    with pytest.raises(InvalidFeaturesError, match="made for 2 features"):
        MAPS[name][0]().matrix(np.zeros((3, 5)))


def test_lengthscales_must_fit_the_features() -> None:
    with pytest.raises(InvalidKernelError, match="2 length-scales, the arms have 3 features"):
        RandomFourierFeatures(ma.RBF((1.0, 2.0)), 10, rng(), 3)


def test_projection_is_for_the_linear_kernel() -> None:
    with pytest.raises(UnsuitableKernelError, match="use Linear"):
        RandomProjection(ma.RBF(), 2, rng(), 5)
    with pytest.raises(InvalidParameterError, match="at most 5"):
        RandomProjection(ma.Linear(), 6, rng(), 5)
    biased = RandomProjection(ma.Linear(bias=1e3), 3, rng(), 5)
    assert biased.dimension == 4
    assert kernel_error(biased, ma.Linear(bias=1e3), rng().random((9, 5))) < 20, "the bias is exact"


def test_frequent_directions_refuses_what_it_cannot_use() -> None:
    sketch = FrequentDirections(4, 3).updated(np.eye(3))
    for wrong in ([1.0, 1.0], [1.0, -1.0, 1.0], [1.0, np.inf, 1.0]):
        with pytest.raises(InvalidParameterError, match="counts"):
            sketch.updated(np.eye(3), wrong)
    with pytest.raises(InvalidParameterError, match="size"):
        FrequentDirections(1, 3)
    with pytest.raises(InvalidParameterError, match="orthogonal"):
        FrequentDirections(4, 2, np.array([[1.0, 0.0], [1.0, 1.0]]))
    with pytest.raises(InvalidParameterError, match="ridge"):
        sketch.quadratic(np.eye(3), 0.0)
    with pytest.raises(InvalidFeaturesError, match="made for 3 features"):
        sketch.updated(np.eye(4))

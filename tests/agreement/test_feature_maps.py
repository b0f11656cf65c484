"""Feature maps against what they stand for: spectral densities and eigenpairs by numerical integration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import jv

import manyarms as ma
from manyarms.embeddings import HilbertSpaceFeatures, QuadratureFourierFeatures, kernel_error
from manyarms.embeddings.eigenfunctions import MARGINS, smallest_indices
from manyarms.embeddings.nystrom import Nystrom
from manyarms.kernels.spectral import spectrum_of

KERNELS = [ma.RBF(0.7), ma.Matern(0.7, nu=2.5), ma.Matern(0.7, nu=1.5), ma.Matern(0.7, nu=3.2) * 2.5]
NAMES = ["rbf", "matern52", "matern32", "scaled-matern"]
UNIT_SQUARE = np.random.default_rng(0).random((150, 2))


def at_distance(kernel: ma.RBF | ma.Matern, r: float, d: int) -> float:
    point = np.zeros((1, d))
    point[0, 0] = r
    return float(kernel.matrix(np.zeros((1, d)), point)[0, 0])


def hankel(radial, s: float, d: int, far: float) -> float:
    """The Fourier transform in d dimensions of a function of the distance, at the distance s > 0."""
    order = 0.5 * d - 1.0
    inside = quad(lambda r: radial(r) * jv(order, s * r) * r ** (0.5 * d), 0, far, limit=2000)[0]
    return float((2 * math.pi) ** (0.5 * d) * s**-order * inside)


# ---------------------------------------------------------------- spectral densities


@pytest.mark.parametrize("d", [1, 2, 3, 8])
@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
def test_density_is_the_fourier_transform_of_the_kernel(kernel, d: int) -> None:
    spectrum = spectrum_of(kernel, d, "tests")
    for frequency in (0.3, 1.0, 4.0):
        wanted = hankel(lambda r: at_distance(kernel, r, d), frequency, d, far=25.0)
        found = spectrum.density(np.array([(0.7 * frequency) ** 2]))[0]
        assert found == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
def test_kernel_is_the_inverse_transform_of_the_density(kernel, d: int) -> None:
    """And its integral over (2π)ᵈ is k(0)."""
    spectrum = spectrum_of(kernel, d, "tests")
    far = 15.0 if math.isinf(spectrum.nu) else 400.0

    def density(w: float) -> float:
        return float(spectrum.density(np.array([(0.7 * w) ** 2]))[0])

    sphere = {1: 2.0, 2: 2.0 * math.pi}[d]
    mass = sphere * quad(lambda w: density(w) * w ** (d - 1), 0, far, limit=2000)[0]
    assert mass / (2 * math.pi) ** d == pytest.approx(at_distance(kernel, 0.0, d), rel=1e-4)
    for r in (0.2, 0.7, 2.0):
        found = hankel(density, r, d, far) / (2 * math.pi) ** d
        assert found == pytest.approx(at_distance(kernel, r, d), rel=1e-4, abs=1e-6)


def test_density_with_one_lengthscale_per_feature() -> None:
    """For RBF the density is a product over the features."""
    lengthscales, frequency = (0.3, 2.0, 0.9), np.array([1.0, 0.4, 2.0])
    parts = [
        spectrum_of(ma.RBF(l), 1, "tests").density(np.array([(l * w) ** 2]))[0]
        for l, w in zip(lengthscales, frequency, strict=True)  # noqa: E741
    ]
    q = ((np.array(lengthscales) * frequency) ** 2).sum()
    whole = spectrum_of(ma.RBF(lengthscales), 3, "tests").density(np.array([q]))[0]
    assert whole == pytest.approx(np.prod(parts))


@pytest.mark.parametrize("d", [1, 2, 5])
def test_matern_density_tends_to_that_of_rbf(d: int) -> None:
    q = np.array([0.0, 1.0, 9.0])
    smooth = spectrum_of(ma.Matern(0.4, nu=1e9), d, "tests").density(q)
    np.testing.assert_allclose(smooth, spectrum_of(ma.RBF(0.4), d, "tests").density(q), rtol=1e-7)


# ---------------------------------------------------------------- eigenpairs


def on_grid(features: HilbertSpaceFeatures, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss–Legendre nodes of the whole box, and their weights."""
    nodes, weights = np.polynomial.legendre.leggauss(n)
    axes = [c + L * nodes for c, L in zip(features.centre, features.half_widths, strict=True)]
    X = np.array(list(itertools.product(*axes)))
    return X, np.array([math.prod(w) for w in itertools.product(*([weights] * len(axes)))]) * math.prod(
        features.half_widths
    )


@pytest.mark.parametrize(("d", "size", "nodes"), [(1, 25, 80), (2, 40, 40)])
def test_functions_are_orthonormal_on_the_box(d: int, size: int, nodes: int) -> None:
    features = HilbertSpaceFeatures(ma.Matern((0.4, 0.9)[:d]), size, [-1.0, 3.0][:d], [0.5, 4.0][:d])
    X, weights = on_grid(features, nodes)
    phi = features.functions(X)
    np.testing.assert_allclose(phi.T @ (weights[:, None] * phi), np.eye(size), atol=1e-10)


def test_functions_are_eigenfunctions_of_the_laplacian() -> None:
    """−Δφ = λφ by central differences, φ = 0 on the walls, and the weight is S(√λ)."""
    kernel = ma.Matern(0.5, nu=1.5)
    features = HilbertSpaceFeatures(kernel, 30, [0.0, 0.0], [1.0, 2.0], margin=1.3)
    X, step = np.array([[0.31, 0.77], [0.9, 1.6]]), 1e-4
    eigenvalues = ((0.5 * np.pi * features.indices / features.half_widths) ** 2).sum(axis=1)
    laplacian = -4.0 * features.functions(X)
    for shift in ([step, 0], [-step, 0], [0, step], [0, -step]):
        laplacian += features.functions(X + shift)
    np.testing.assert_allclose(-laplacian / step**2, eigenvalues * features.functions(X), atol=1e-4)
    wall = features.centre + features.half_widths * [[1.0, 0.2], [-0.4, -1.0]]
    np.testing.assert_allclose(features.functions(wall), 0.0, atol=1e-12)
    density = spectrum_of(kernel, 2, "tests").density(0.25 * eigenvalues)
    np.testing.assert_allclose(features.weights, density, rtol=1e-12)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_matern_eigenpairs_against_numerical_integration(nu: float) -> None:
    """∬ φ_i k φ_j over the box → S(√λ_j) δ_ij for the leading pairs: twice the box, half the error."""
    errors = []
    for margin in (15.0, 30.0):
        kernel = ma.Matern(0.2, nu=nu)
        features = HilbertSpaceFeatures(kernel, 8, 0.0, 0.5, margin=margin)
        X, weights = on_grid(features, 700)
        weighted = weights[:, None] * features.functions(X)
        operator = weighted.T @ kernel.matrix(X, X) @ weighted
        errors.append(np.abs(operator - np.diag(features.weights)).max() / features.weights[0])
    assert errors[0] < 0.02
    assert errors[1] < 0.6 * errors[0]


@pytest.mark.parametrize("steps", [(1.0,), (1.0, 1.0), (0.3, 2.0, 0.7), (0.01, 5.0)])
def test_largest_weights_are_found_without_the_grid(steps: tuple[float, ...]) -> None:
    found = smallest_indices(np.array(steps), 60)
    assert len({tuple(index) for index in found.tolist()}) == 60
    grid = np.array(list(itertools.product(range(1, 62), repeat=len(steps))))
    wanted = np.sort((grid**2 * steps).sum(axis=1))[:60]
    np.testing.assert_allclose((found**2 * steps).sum(axis=1), wanted, rtol=1e-12)


# ---------------------------------------------------------------- kernel errors


@pytest.mark.parametrize(("factor", "error"), [(1.2, 0.80), (1.5, 0.25), (2.0, 0.004), (3.0, 0.0)])
def test_error_at_a_fixed_box_is_that_of_the_images(factor: float, error: float) -> None:
    """The published example: RBF of length-scale 0.3, half-range 0.5, box of `factor` half-ranges, any m."""
    X = np.linspace(-0.5, 0.5, 101)[:, None]
    for size in (100, 400):
        features = HilbertSpaceFeatures(ma.RBF(0.3), size, -0.5, 0.5, margin=(factor - 1) * 0.5 / 0.3)
        assert kernel_error(features, ma.RBF(0.3), X) == pytest.approx(error, abs=5e-3)


@pytest.mark.parametrize("kernel", [ma.RBF(0.3), ma.Matern(0.3, nu=2.5), ma.Matern(0.3, nu=0.5) * 4.0])
@pytest.mark.parametrize("size", [16, 64, 256])
def test_chosen_margin_is_nearly_the_best(kernel, size: int) -> None:
    """Against every margin tried, measured on all pairs of other points than those it was chosen on."""

    def error(margin: float | None) -> float:
        features = HilbertSpaceFeatures(kernel, size, [0, 0], [1, 1], margin=margin)
        return kernel_error(features, kernel, UNIT_SQUARE)

    assert error(None) <= 1.2 * min(map(error, MARGINS))


@pytest.mark.parametrize("kernel", [ma.RBF(0.4), ma.Matern(0.4, nu=0.5), ma.Matern(0.4, nu=2.5)])
@pytest.mark.parametrize("margin", [None, 0.25, 3.0])
def test_eigenfunctions_never_exceed_the_prior_variance(kernel, margin: float | None) -> None:
    """So the residual that the posterior keeps is never negative."""
    for size in (1, 30, 500):
        features = HilbertSpaceFeatures(kernel, size, [0, 0], [1, 1], margin=margin)
        assert (features.matrix(UNIT_SQUARE) ** 2).sum(axis=1).max() <= 1.0 + 1e-14


def test_eigenfunctions_in_eight_features() -> None:
    """Hundreds of features chosen out of a grid of 10⁸, and more of them are better."""
    X, kernel = np.random.default_rng(1).random((100, 8)), ma.RBF(2.0)
    errors = [
        kernel_error(HilbertSpaceFeatures(kernel, size, [0] * 8, [1] * 8), kernel, X)
        for size in (50, 200, 800)
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.06


@pytest.mark.parametrize("nodes", [8, 9, 16])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_half_a_grid_computes_what_the_whole_grid_does(nodes: int, d: int) -> None:
    """Σ over all nodes and all signs of w cos ωᵀr, written out."""
    X = np.random.default_rng(2).random((20, d))
    points, weights = np.polynomial.hermite.hermgauss(nodes)
    grid = np.array(list(itertools.product(points * math.sqrt(2) / 0.6, repeat=d)))
    w = np.array([math.prod(p) for p in itertools.product(weights, repeat=d)]) / math.pi ** (d / 2)
    wanted = np.tensordot(np.cos((X[:, None] - X[None]) @ grid.T), w, axes=1)
    features = QuadratureFourierFeatures(ma.RBF(0.6), nodes, d)
    Z = features.matrix(X)
    assert features.dimension == Z.shape[1] == nodes**d
    np.testing.assert_allclose(Z @ Z.T, wanted, atol=1e-12)


def test_quadrature_error_falls_below_a_millionth_on_the_unit_square() -> None:
    kernel = ma.RBF(0.5)
    errors = [
        kernel_error(QuadratureFourierFeatures(kernel, nodes, 2), kernel, UNIT_SQUARE)
        for nodes in (4, 8, 12, 16)
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > 1e-3
    assert errors[2] < 1e-6


def test_quadrature_stays_finite_with_many_nodes() -> None:
    X = np.linspace(0, 1, 50)[:, None]
    assert kernel_error(QuadratureFourierFeatures(ma.RBF(0.02), 4000, 1), ma.RBF(0.02), X) < 1e-9


def test_kernel_error_is_zero_for_a_map_on_the_points_themselves() -> None:
    X = UNIT_SQUARE[:30]
    kernel = ma.Matern(0.3)
    exact = Nystrom(kernel, X, np.linalg.cholesky(kernel.matrix(X, X)))
    assert kernel_error(exact, kernel, X) < 1e-12

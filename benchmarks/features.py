"""Feature maps: kernel error against size, and the time to map a pool.

The error is max |z(x)ᵀz(y) − k(x, y)| over all pairs of 200 arms drawn uniformly from the unit cube. For
maps with random parts it is the median of several draws. `python -m benchmarks.feature_figure` draws it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

import manyarms as ma
from benchmarks import Row, at_most
from benchmarks.timing import cpu_seconds
from manyarms.embeddings import (
    Embedding,
    HilbertSpaceFeatures,
    Nystrom,
    QuadratureFourierFeatures,
    RandomFourierFeatures,
    kernel_error,
)
from manyarms.embeddings.fourier import MOST_QUADRATURE_FEATURES
from manyarms.embeddings.nystrom import independent_subset
from manyarms.kernels import KernelLike


@dataclass(frozen=True)
class Settings:
    """Sizes of the measurements."""

    sizes: tuple[int, ...] = (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
    draws: int = 9
    n_arms: int = 100_000
    dimension: int = 500


FULL = Settings()
SMOKE = Settings(sizes=(4, 16), draws=1, n_arms=500, dimension=20)
# Kernels for each number of features d, with length-scales that are typical for it: longer for d = 8.
KERNELS: dict[tuple[int, str], KernelLike] = {
    (1, "RBF"): ma.RBF(0.2),
    (1, "Matérn 5/2"): ma.Matern(0.2, nu=2.5),
    (2, "RBF"): ma.RBF(0.5),
    (2, "Matérn 5/2"): ma.Matern(0.5, nu=2.5),
    (8, "RBF"): ma.RBF(1.5),
    (8, "Matérn 5/2"): ma.Matern(1.5, nu=2.5),
}
Build = Callable[[KernelLike, int, int, np.random.Generator], Embedding | None]


@dataclass(frozen=True)
class Point:
    """One measured error; `dimension` is that of the map, which for a grid is at most the size asked for."""

    n_features: int
    kernel: str
    map: str
    dimension: int
    error: float


def random_fourier(kernel: KernelLike, size: int, d: int, rng: np.random.Generator) -> Embedding:
    return RandomFourierFeatures(kernel, max(1, size // 2), rng, d)


def quadrature(kernel: KernelLike, size: int, d: int, rng: np.random.Generator) -> Embedding | None:
    """The largest grid within the size; None for Matérn, or if not even two nodes per feature fit."""
    nodes = int(size ** (1 / d) + 1e-9)
    fits = isinstance(kernel, ma.RBF) and nodes >= 2 and nodes**d <= MOST_QUADRATURE_FEATURES
    return QuadratureFourierFeatures(kernel, nodes, d) if fits else None


def hilbert_space(kernel: KernelLike, size: int, d: int, rng: np.random.Generator) -> Embedding:
    return HilbertSpaceFeatures(kernel, size, np.zeros(d), np.ones(d))


def nystrom(kernel: KernelLike, size: int, d: int, rng: np.random.Generator) -> Embedding:
    points = rng.random((size, d))
    chosen, factor = independent_subset(kernel.matrix(points, points), np.ones(size), 1e-10)
    return Nystrom(kernel, points[chosen], factor)


MAPS: dict[str, Build] = {
    "random Fourier": random_fourier,
    "quadrature Fourier": quadrature,
    "eigenfunctions": hilbert_space,
    "Nyström, random points": nystrom,
}


def kernel_errors(settings: Settings) -> Iterator[Point]:
    """Every map at every size, for every kernel."""
    for (d, name), kernel in KERNELS.items():
        X = np.random.default_rng(100 + d).random((200, d))
        for label, build in MAPS.items():
            for size in settings.sizes:
                point = _measured(kernel, size, d, build, X, settings.draws)
                if point is not None:
                    yield Point(d, name, label, *point)


def _measured(
    kernel: KernelLike, size: int, d: int, build: Build, X: np.ndarray, draws: int
) -> tuple[int, float] | None:
    rng = np.random.default_rng(size)
    maps = [build(kernel, size, d, rng) for _ in range(draws if build in (random_fourier, nystrom) else 1)]
    built = [embedding for embedding in maps if embedding is not None]
    if not built:
        return None
    return built[0].dimension, statistics.median(kernel_error(embedding, kernel, X) for embedding in built)


def error_against_size(smoke: bool) -> list[Row]:
    """The largest error of every map at its largest size; quadrature on the unit square has a bar."""
    largest: dict[tuple[int, str, str], Point] = {}
    for point in kernel_errors(SMOKE if smoke else FULL):
        largest[point.n_features, point.kernel, point.map] = point
    rows = []
    for point in largest.values():
        name = f"d = {point.n_features}, {point.kernel}: {point.map}, dimension {point.dimension}"
        barred = (point.n_features, point.map) == (2, "quadrature Fourier")
        rows.append(at_most(name, point.error, 1e-6) if barred else Row(name, point.error))
    return rows


def time_to_map_a_pool(smoke: bool) -> list[Row]:
    """CPU time of z for every arm, in blocks of 4096."""
    s = SMOKE if smoke else FULL
    X, rng, kernel = np.random.default_rng(0).random((s.n_arms, 2)), np.random.default_rng(1), ma.RBF(0.5)
    rows = []
    for label, build in MAPS.items():
        embedding = build(kernel, s.dimension, 2, rng)
        assert embedding is not None
        seconds = cpu_seconds(
            lambda: [embedding.matrix(X[i : i + 4096]) for i in range(0, s.n_arms, 4096)]  # noqa: B023
        )
        rows.append(Row(f"{s.n_arms} × 2 pool, {label}, dimension {embedding.dimension}", seconds, "s CPU"))
    return rows


BENCHMARKS = [error_against_size, time_to_map_a_pool]

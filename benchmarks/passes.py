"""Passes over the rows of a pool: a step of the posterior, threads, kernels, and rebuilding the sketch.

A step of a range is compared with a matrix–vector product of the same size, and everything else with the
plain way to compute the same, in turns in one run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any

import numpy as np

import manyarms as ma
from benchmarks import Row, at_least, at_most
from benchmarks.timing import cpu_seconds, one_thread
from manyarms.embeddings import Nystrom
from manyarms.kernels import tanimoto
from manyarms.posterior.fused_pass import advance
from manyarms.posterior.pool_step import ByFactor, LeverageScale, PoolValues, Step
from manyarms.posterior.update import Border, Pulls
from manyarms.support.column_store import BLOCK_ROWS, Columns


def _in_turns(
    works: dict[str, Callable[[], Any]],
    repeats: int,
    clock: Callable[..., float],
    of: Callable[..., float] = median,
) -> dict:
    """The median time of each work (or another statistic), after one call that is not counted."""
    for work in works.values():
        work()
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            times[name].append(clock(work))
    return {name: of(found) for name, found in times.items()}


def _elapsed(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


class _Range:
    """Random columns of z and a step that appends one arm and pulls one, as in BKB."""

    def __init__(self, rows: int, columns: int, storage: type) -> None:
        rng = np.random.default_rng(0)
        self.rows, self.columns = rows, Columns(rows, storage, columns + 1)
        for start in range(0, rows, BLOCK_ROWS):
            part = slice(start, min(start + BLOCK_ROWS, rows))
            self.columns.write(part, 0, rng.standard_normal((part.stop - start, columns)))
        one = np.ones((1, 1))
        border = Border(2.0 * one, rng.normal(size=(columns, 1)), one, one[0])
        pulls = Pulls(rng.normal(size=(columns + 1, 1)), one, one[0])
        self.step = Step(
            forms=np.hstack([rng.normal(size=(columns, 1)), border.H, pulls.G[:columns]]),
            scale=LeverageScale(1.0, 0, 1.0, True),
            border=border,
            pulls=pulls,
            accepted=np.zeros(1, dtype=np.int64),
            points=None,
            seen=np.arange(5),
            at_seen=np.ones((1, 5)),
        )
        self.covariances = rng.random((1, rows))
        self.values = PoolValues(1e6 * np.ones(rows), np.ones(rows), np.zeros(rows))

    def advanced(self, row: slice, compiled: bool) -> PoolValues:
        values = PoolValues(*(array[row] for array in vars(self.values).values()))
        covariances = self.covariances[:, row]
        return advance(self.columns, self.step, row, covariances, self.step.seen, values, compiled=compiled)

    def divided(self, threads: ThreadPoolExecutor, parts: int, compiled: bool) -> list[PoolValues]:
        edges = [part * self.rows // parts // BLOCK_ROWS * BLOCK_ROWS for part in range(parts)]
        rows = [slice(*ends) for ends in zip(edges, [*edges[1:], self.rows], strict=True)]
        return list(threads.map(lambda row: self.advanced(row, compiled), rows))


def step_of_a_range(smoke: bool) -> list[Row]:
    """A step for stored columns, compiled and with numpy, compared with one matrix–vector product."""
    rows, columns, repeats = (500, 20, 2) if smoke else (20_000, 400, 41)
    found = []
    for storage in (np.float64, np.float32):
        arms = _Range(rows, columns, storage)
        matrix = np.random.default_rng(1).standard_normal((rows, columns)).astype(storage)
        vector = np.ones(columns, dtype=storage)
        whole = slice(0, rows)
        with one_thread():
            works = {
                "product": lambda matrix=matrix, vector=vector: matrix @ vector,
                "compiled": lambda arms=arms, whole=whole: arms.advanced(whole, True),
                "numpy": lambda arms=arms, whole=whole: arms.advanced(whole, False),
            }
            times = _in_turns(works, repeats, cpu_seconds)
        name = f"{rows} × {columns} {np.dtype(storage)}: a step of the columns / matrix–vector product"
        found += [
            at_most(f"{name}, compiled", times["compiled"] / times["product"], 1.3, "times"),
            Row(f"{name}, numpy", times["numpy"] / times["product"], "times"),
        ]
    return found


def threads(smoke: bool) -> list[Row]:
    """The same step on one and on two threads, in elapsed time; needs two idle cores.

    Other programs only add to it, so the fastest of several steps is compared.
    """
    rows, columns, repeats = (2 * BLOCK_ROWS, 20, 2) if smoke else (1_000_000, 300, 15)
    found = []
    for storage in (np.float64, np.float32):
        arms = _Range(rows, columns, storage)
        for compiled in (True, False):
            with ThreadPoolExecutor(2) as pool, one_thread():
                works = {
                    str(parts): lambda parts=parts, arms=arms, compiled=compiled, pool=pool: arms.divided(
                        pool, parts, compiled
                    )
                    for parts in (1, 2)
                }
                times = _in_turns(works, repeats, _elapsed, of=min)
            way = "compiled" if compiled else "numpy"
            name = f"{rows} × {columns} {np.dtype(storage)}: one thread / two, {way}"
            ratio = times["1"] / times["2"]
            found.append(at_least(name, ratio, 1.6, "times") if compiled else Row(name, ratio, "times"))
    return found


def _plain_tanimoto(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Row by row, as a first version would: the bits of each pair are counted and summed for all rows."""
    x, y = x.view(np.uint64), y.view(np.uint64)
    x_bits = np.bitwise_count(x).sum(axis=1, dtype=np.float64)
    result = np.empty((len(x), len(y)))
    for start in range(0, len(x), BLOCK_ROWS):
        block = slice(start, start + BLOCK_ROWS)
        for j in range(len(y)):
            shared = np.bitwise_count(x[block] & y[j]).sum(axis=1, dtype=np.float64)
            result[block, j] = shared / (x_bits[block] + np.bitwise_count(y[j]).sum() - shared)
    return result


def fingerprints(smoke: bool) -> list[Row]:
    """Tanimoto similarities of fingerprints of 1024 bits with 8 inducing arms."""
    rows, repeats = (300, 2) if smoke else (50_000, 9)
    rng = np.random.default_rng(0)
    bits = np.packbits(rng.random((rows, 1024)) < 0.05, axis=1)
    few, kernel = bits[:8].copy(), ma.Tanimoto()

    def without_numba() -> np.ndarray:
        return tanimoto._by_words(few.view(np.uint64), bits.view(np.uint64)).T

    def compiled() -> np.ndarray:
        from manyarms.kernels.compiled_tanimoto import similarities

        result = np.empty((len(few), rows))
        similarities(few.view(np.uint64), bits.view(np.uint64), result)
        return result.T

    expected = _plain_tanimoto(bits, few)
    for found in (kernel.matrix(bits, few), without_numba(), compiled()):
        assert np.array_equal(found, expected)
    works = {"plain": lambda: _plain_tanimoto(bits, few), "numpy": without_numba, "compiled": compiled}
    times = _in_turns(works, repeats, cpu_seconds)
    name = f"{rows} fingerprints × 8"
    return [
        Row(f"{name}: rows a CPU second, compiled", rows / times["compiled"] / 1e6, "million"),
        at_least(f"{name}: plain / compiled", times["plain"] / times["compiled"], 5, "times"),
        at_least(f"{name}: plain / numpy", times["plain"] / times["numpy"], 1.3, "times"),
    ]


def kernels(smoke: bool) -> list[Row]:
    """A Gaussian kernel of many pairs, compared with all distances first and the function afterwards."""
    from scipy.spatial.distance import cdist

    rows, points, repeats = (1500, 20, 2) if smoke else (65_536, 300, 7)
    found = []
    for features in (8, 32):
        X = np.random.default_rng(0).normal(size=(rows, features))
        Y = X[:points]

        def plain(X: np.ndarray = X, Y: np.ndarray = Y) -> np.ndarray:
            values = cdist(Y, X, "sqeuclidean")
            values *= -0.5
            return np.exp(values, out=values)

        with one_thread():
            works = {"plain": plain, "ours": lambda X=X, Y=Y: ma.RBF().matrix(Y, X)}
            error = float(np.abs(works["ours"]() - plain()).max())
            times = _in_turns(works, repeats, cpu_seconds)
        name = f"RBF, {rows} × {points} arms of {features} features"
        found += [
            at_least(f"{name}: plain / in pieces", times["plain"] / times["ours"], 1.4, "times"),
            at_most(f"{name}: largest difference", error, 1e-12),
        ]
    return found


def rebuilding(smoke: bool) -> list[Row]:
    """z and the values of a pool from scratch, compared with LAPACK and row-wise storage."""
    from scipy.linalg import lapack

    rows, points, repeats = (600, 40, 2) if smoke else (32_768, 500, 5)
    rng = np.random.default_rng(0)
    X, kernel = rng.normal(size=(rows, 8)), ma.RBF(5**0.5)
    gram = kernel.matrix(X[:points], X[:points])
    factor = np.linalg.cholesky(gram + 1e-6 * np.eye(points))
    embedding, E = Nystrom(kernel, X[:points], factor), np.tril(rng.normal(size=(points, points))) / points
    weights, prior = rng.normal(size=points), np.ones(rows)
    rule = ByFactor(E, weights)
    blocks = [slice(start, min(start + 4096, rows)) for start in range(0, rows, 4096)]
    stores = Columns(rows, np.float64, points), Columns(rows, np.float64, points)

    def plain() -> np.ndarray:
        means = []
        for block in blocks:
            z = lapack.dtrtrs(factor, kernel.matrix(X[:points], X[block]), lower=1)[0].T
            stores[0].write(block, 0, z)
            np.maximum(prior[block] - np.einsum("ij,ij->i", z, z), 0.0)
            whitened = E @ z.T
            np.einsum("ij,ij->j", whitened, whitened)
            means.append(z @ weights)
        return np.concatenate(means)

    def ours() -> np.ndarray:
        means = []
        for block in blocks:
            z = embedding.matrix(X[block])
            stores[1].write(block, 0, z)
            means.append(rule.values(z, prior[block]).mean)
        return np.concatenate(means)

    with one_thread():
        error = float(np.abs(plain() - ours()).max())
        times = _in_turns({"plain": plain, "ours": ours}, repeats, cpu_seconds)
    name = f"rebuilding {rows} × 8 arms, m = {points}"
    return [
        at_least(f"{name}: plain / in blocks", times["plain"] / times["ours"], 1.5, "times"),
        at_most(f"{name}: largest difference of the means", error, 1e-6),
    ]


BENCHMARKS = [step_of_a_range, threads, fingerprints, kernels, rebuilding]

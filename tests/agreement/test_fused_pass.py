"""A step for a range of arms: numpy and compiled loops agree with a plain oracle, however the pool is cut."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyarms.engines.base import BLOCK
from manyarms.posterior import compiled_step
from manyarms.posterior.fused_pass import advance
from manyarms.posterior.pool_step import ByFactor, LeverageScale, PoolValues, Step
from manyarms.posterior.update import Border, Pulls
from manyarms.support import compiled_forms
from manyarms.support.column_store import BLOCK_ROWS, MOST_COMPILED_FORMS, Columns

WAYS = pytest.mark.parametrize("compiled", [False, True], ids=["numpy", "compiled"])
STORAGES = pytest.mark.parametrize("storage", [np.float64, np.float32])


def lower(rng: np.random.Generator, size: int) -> np.ndarray:
    return np.tril(rng.normal(size=(size, size)), -1) / max(size, 1) + np.diag(1.0 + rng.random(size))


@dataclass
class Problem:
    """A pool of random rows of z and a random step; the numbers need not come from a posterior."""

    z: np.ndarray  # arms × m, as stored
    step: Step
    rows: np.ndarray
    covariances: np.ndarray
    seen: np.ndarray
    values: PoolValues

    @classmethod
    def random(cls, seed: int, n: int, m: int, a: int, u: int, H: bool, storage: type) -> Problem:
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(a, m)) / np.sqrt(max(m, 1))
        border = pulls = None
        if a:
            spread = rng.normal(size=(m, a)) / np.sqrt(max(m, 1))
            border = Border(lower(rng, a), H * spread, lower(rng, a), rng.normal(size=a))
        if u:
            G = rng.normal(size=(m + a, u)) / np.sqrt(m + a + 1)
            pulls = Pulls(G, lower(rng, u), rng.normal(size=u))
        forms = [rows.T, border.H] if border is not None and H else [rows.T]
        forms += [] if pulls is None else [pulls.G[:m]]
        seen = rng.choice(n, size=min(n, 7), replace=False)
        return cls(
            z=rng.normal(size=(n, m)).astype(storage),
            step=Step(
                forms=np.hstack(forms),
                scale=LeverageScale(1.0, 0, 1.0, True),
                border=border,
                pulls=pulls,
                accepted=np.arange(a),
                points=None,
                seen=seen,
                at_seen=rng.normal(size=(a, len(seen))),
            ),
            rows=rows,
            covariances=rng.normal(size=(a, n)),
            seen=seen,
            values=PoolValues(rng.random(n) * 4, rng.random(n), rng.normal(size=n)),
        )

    def part(self, begin: int, end: int) -> Problem:
        """The same step on these arms alone."""
        values = self.values
        return Problem(
            self.z[begin:end],
            self.step,
            self.rows,
            self.covariances[:, begin:end],
            self.seen - begin,
            PoolValues(values.residual[begin:end], values.quadratic[begin:end], values.mean[begin:end]),
        )

    def advanced(self, compiled: bool) -> np.ndarray:
        """Residual, quadratic form, mean and the new columns as stored, (3 + a) × arms."""
        n, m = self.z.shape
        columns = Columns(n, self.z.dtype, m + len(self.step.accepted))
        columns.write(slice(0, n), 0, self.z)
        after = advance(
            columns, self.step, slice(0, n), self.covariances, self.seen, self.values, compiled=compiled
        )
        new = columns.rows(np.arange(n), m + len(self.step.accepted))[:, m:]
        return np.vstack([after.residual, after.quadratic, after.mean, new.T])


def oracle(problem: Problem) -> np.ndarray:
    """Arm by arm, with solves and explicit sums in double precision."""
    step, results = problem.step, []
    m, a = problem.z.shape[1], len(step.accepted)
    exact = dict(zip(problem.seen.tolist(), step.at_seen.T, strict=True))
    for i, row in enumerate(problem.z.astype(np.float64)):
        residual, quadratic, mean = (
            getattr(problem.values, name)[i] for name in ("residual", "quadratic", "mean")
        )
        new = np.empty(0)
        if step.border is not None:
            new = np.linalg.solve(step.border.factor, problem.covariances[:, i] - problem.rows @ row)
            new = exact.get(i, new.astype(problem.z.dtype).astype(np.float64))
            difference = step.border.H.T @ row - new
            residual = max(residual - sum(new**2), 0.0)
            quadratic += sum((step.border.inverse_schur @ difference) ** 2)
            mean -= step.border.weights @ difference
        if step.pulls is not None:
            projection = step.pulls.G[:m].T @ row + step.pulls.G[m : m + a].T @ new
            quadratic -= sum((step.pulls.inverse_factor @ projection) ** 2)
            mean += step.pulls.gain @ projection
        results.append([residual, quadratic, mean, *new.astype(problem.z.dtype)])
    return np.array(results).reshape(len(results), 3 + a).T


def assert_close(found: np.ndarray, expected: np.ndarray, storage: type) -> None:
    tolerance = 1e-11 if storage is np.float64 else 2e-5
    assert found.shape == expected.shape
    assert np.abs(found - expected).max(initial=0.0) <= tolerance * (1 + np.abs(expected).max(initial=0.0))


@WAYS
@STORAGES
@pytest.mark.parametrize("appended", [0, 1, 3])
@pytest.mark.parametrize("pulled", [0, 1, 3])
@pytest.mark.parametrize("inside", [False, True], ids=["H", "H=0"])
def test_every_kind_of_step_agrees_with_the_oracle(compiled, storage, appended, pulled, inside) -> None:
    for seed, (n, m) in enumerate([(1, 0), (5, 1), (33, 0), (40, 131), (37, 300)]):
        problem = Problem.random(seed, n, m, appended, pulled, not inside, storage)
        assert_close(problem.advanced(compiled), oracle(problem), storage)


@WAYS
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 60),
    m=st.integers(0, 270),
    a=st.integers(0, 6),
    u=st.integers(0, 6),
    H=st.booleans(),
    single=st.booleans(),
)
def test_any_step_agrees_with_the_oracle(compiled, seed, n, m, a, u, H, single) -> None:
    storage = np.float32 if single else np.float64
    problem = Problem.random(seed, n, m, a, u, H, storage)
    assert_close(problem.advanced(compiled), oracle(problem), storage)


@WAYS
@STORAGES
@pytest.mark.parametrize(("appended", "pulled"), [(1, 1), (0, 2), (3, 3), (1, 0)])
def test_the_bits_do_not_depend_on_the_division(compiled, storage, appended, pulled) -> None:
    """At multiples of a block, into ranges of one store and into stores of their own, on two threads."""
    assert BLOCK % BLOCK_ROWS == 0, "shards begin at multiples of BLOCK"
    n = 3 * BLOCK_ROWS + 777
    problem = Problem.random(3, n, 140, appended, pulled, True, storage)
    whole = problem.advanced(compiled)
    for cuts in ([1], [1, 3], [1, 2, 3]):
        edges = [0, *(cut * BLOCK_ROWS for cut in cuts), n]
        parts = [problem.part(begin, end) for begin, end in pairwise(edges)]
        with ThreadPoolExecutor(2) as threads:
            found = list(threads.map(lambda part: part.advanced(compiled), parts))
        assert np.array_equal(np.hstack(found), whole), cuts


def test_a_compiled_row_does_not_depend_on_its_neighbours() -> None:
    """Wherever a range begins: vectorised loops and their remainders round alike."""
    problem = Problem.random(4, 211, 137, 2, 1, True, np.float64)
    whole = problem.advanced(True)
    for begin, end in [(0, 1), (1, 18), (3, 210), (100, 211), (210, 211)]:
        assert np.array_equal(problem.part(begin, end).advanced(True), whole[:, begin:end])


@STORAGES
@pytest.mark.parametrize("n_forms", [0, 1, 2, 3, 4, 5, 7, 8, MOST_COMPILED_FORMS + 1, 30])
def test_linear_forms(storage, n_forms, rng) -> None:
    for n, m in [(1, 1), (70, 0), (4100, 260), (9, 128)]:
        z, forms = rng.normal(size=(n, m)).astype(storage), rng.normal(size=(m, n_forms))
        columns = Columns(n, storage, m)
        columns.write(slice(0, n), 0, z)
        expected = (z.astype(np.float64) @ forms).T
        for row in (slice(None), slice(n // 3, n), slice(0, n // 2)):
            for compiled in (False, True):
                assert_close(columns.product(forms, row, compiled), expected[:, row], storage)


@WAYS
def test_a_call_leaves_its_arguments_alone(compiled) -> None:
    problem = Problem.random(5, 50, 20, 2, 2, True, np.float64)
    before = [problem.values.residual.copy(), problem.values.quadratic.copy(), problem.values.mean.copy()]
    frozen = [problem.covariances, problem.step.forms, problem.step.at_seen, *vars(problem.values).values()]
    frozen += [*vars(problem.step.border).values(), *vars(problem.step.pulls).values()]
    for array in frozen:
        array.flags.writeable = False
    problem.advanced(compiled)
    assert all(np.array_equal(*pair) for pair in zip(before, vars(problem.values).values(), strict=True))


def test_values_from_scratch(rng) -> None:
    m, n = 150, 60
    z, prior, weights = rng.normal(size=(m, n)) / 9, 1.5 + rng.random(n), rng.normal(size=m)
    E = lower(rng, m)
    for Z in (z.T, np.ascontiguousarray(z.T)):
        found = ByFactor(E, weights).values(Z, prior)
        for i in range(n):
            assert np.isclose(found.residual[i], max(prior[i] - z[:, i] @ z[:, i], 0.0), atol=1e-12)
            assert np.isclose(found.quadratic[i], ((E @ z[:, i]) ** 2).sum(), rtol=1e-12)
            assert np.isclose(found.mean[i], weights @ z[:, i], rtol=1e-10)


def test_compiled_loops_release_the_interpreter() -> None:
    """So that threads can work on several ranges at once; benchmarks/passes.py measures that they do."""
    for module in (compiled_step, compiled_forms):
        loops = [item for item in vars(module).values() if hasattr(item, "targetoptions")]
        assert len(loops) >= 6
        assert all(loop.targetoptions["nogil"] for loop in loops)

"""One step of the posterior for a range of arms, in one sweep over their stored columns.

A step needs a few linear forms of z(x) for every arm x (update.py says which), and from these the new columns
of z, the residual, the quadratic form and the mean. `advance` computes all of them for a range of rows of a
column store, either with numpy or with compiled loops; both give the same values up to rounding.

The bits of an arm's values do not depend on the range if ranges begin at multiples of `BLOCK_ROWS` and end at
one or at the end of the pool (column_store.py). Both ways release the interpreter lock, so several ranges can
be worked on by as many threads; the numpy way must then run inside `support.threads.one_thread`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from manyarms.posterior.update import Border, PoolValues, Pulls, new_columns
from manyarms.support.column_store import BLOCK_ROWS, MOST_COMPILED_FORMS, Columns
from manyarms.support.triangles import LowerTriangle
from manyarms.support.validation import Floats, Ints

SPAN_ROWS = 4 * BLOCK_ROWS  # rows whose linear forms and values stay in the cache between the compiled loops


@dataclass(frozen=True)
class Step:
    """What a step does to every arm: append a columns of z, then condition on u arms pulled.

    Either part may be missing. The forms are those of z before the step (m columns): a for the new columns,
    a for Hᵀz (none if H = 0), and u for the pulls.
    """

    forms: Floats  # m × r
    border: Border | None
    pulls: Pulls | None

    @classmethod
    def of(cls, rows: Floats, border: Border | None, pulls: Pulls | None) -> Step:
        """The step that appends arms with these rows of z (a × m; 0 × m without a border) and pulls arms."""
        m = rows.shape[1]
        forms = [np.empty((m, 0))]
        if border is not None:
            forms += [rows.T, border.H] if border.H.any() else [rows.T]
        if pulls is not None:
            forms.append(pulls.G[:m])
        return cls(np.ascontiguousarray(np.hstack(forms)), border, pulls)

    @property
    def appended(self) -> int:
        """a, the number of new columns."""
        return 0 if self.border is None else len(self.border.factor)

    @property
    def pulled(self) -> int:
        """u, the number of different arms pulled."""
        return 0 if self.pulls is None else len(self.pulls.gain)


@dataclass(frozen=True)
class KnownColumns:
    """Arms at which the new columns are already known in double precision: the arms pulled so far.

    Positions count from the first row of the column store; those outside a range are ignored there.
    """

    arms: Ints
    values: Floats  # a × arms

    def within(self, row: slice) -> tuple[Ints, Floats]:
        """The positions in a range, counted from its beginning, and their values."""
        inside = (self.arms >= row.start) & (self.arms < row.stop)
        return self.arms[inside] - row.start, self.values[:, inside]


def advance(
    columns: Columns,
    step: Step,
    row: slice,
    covariances: Floats,
    known: KnownColumns,
    values: PoolValues,
    *,
    compiled: bool,
) -> PoolValues:
    """The values of the rows in `row` after a step; the new columns of these rows are written to `columns`.

    `covariances` are those of the appended arms with the rows (a × rows), and `values` the present values of
    the rows, which are not changed. Room for the new columns must have been reserved. The residual of the
    appended arms themselves is left as computed, a rounding error; the caller sets it to zero.
    """
    result = PoolValues(values.residual.copy(), values.quadratic.copy(), values.mean.copy())
    if compiled and step.forms.shape[1] <= MOST_COMPILED_FORMS:
        _advance_compiled(columns, step, row, covariances, known, result)
    else:
        for start in range(row.start, row.stop, BLOCK_ROWS):
            part = slice(start, min(start + BLOCK_ROWS, row.stop))
            here = slice(part.start - row.start, part.stop - row.start)
            _advance_block(columns, step, part, covariances[:, here], known, _part(result, here))
    return result


def rebuild(
    columns: Columns, row: slice, z: Floats, prior: Floats, inverse_factor: LowerTriangle, weights: Floats
) -> PoolValues:
    """The values of the rows in `row` from scratch; their z (m × rows) is written to `columns`.

    `prior` are the prior variances k(x, x) of the rows, `inverse_factor` is E⁻¹ with E Eᵀ = V, and `weights`
    is w = V⁻¹b. Call it for blocks of `BLOCK_ROWS` rows, so that z and what is computed from it stay in the
    cache and the bits do not depend on the division of the pool.
    """
    columns.write_columns(row, 0, z)
    residual = np.maximum(prior - np.einsum("ij,ij->j", z, z), 0.0)
    return PoolValues(residual, inverse_factor.squares(z), weights @ z)


def upper_bounds(
    values: PoolValues, prior: Floats, ridge: float, largest: float, width: float, *, compiled: bool
) -> Floats:
    """mean + β √leverage of some arms with these values and prior variances; β is the `width`.

    The leverage is that of state.py: max(zᵀV⁻¹z, (k − residual)/`largest`) + residual/λ, where `largest` is
    λ + tκ², which no eigenvalue of V exceeds.
    """
    bounds = np.empty(len(prior))
    if compiled:
        from manyarms.posterior import compiled_step as loops

        arrays = values.residual, values.quadratic, values.mean, prior
        loops.upper_bounds(*arrays, float(ridge), float(largest), float(width), bounds)
        return bounds
    np.subtract(prior, values.residual, out=bounds)
    bounds /= largest
    np.maximum(values.quadratic, bounds, out=bounds)
    bounds += values.residual / ridge
    np.sqrt(bounds, out=bounds)
    bounds *= width
    bounds += values.mean
    return bounds


def _part(values: PoolValues, here: slice) -> PoolValues:
    """Views of a part of the values."""
    return PoolValues(values.residual[here], values.quadratic[here], values.mean[here])


def _advance_block(
    columns: Columns, step: Step, row: slice, covariances: Floats, known: KnownColumns, values: PoolValues
) -> None:
    """Change the values of a block of rows with numpy."""
    (m, n_forms), a, u = step.forms.shape, step.appended, step.pulled
    products, now = columns.product(step.forms, row), values
    if step.border is not None:
        new = new_columns(step.border, covariances, products[:a])
        new = new.astype(columns.dtype).astype(np.float64)
        places, exact = known.within(row)
        new[:, places] = exact
        columns.write_columns(row, m, new)
        now = now.bordered(step.border, products[a : n_forms - u], new)
    if step.pulls is not None:
        projections = products[n_forms - u :]
        if step.border is not None:
            projections = projections + step.pulls.G[m:].T @ new
        now = now.pulled(step.pulls, projections)
    values.residual[:], values.quadratic[:], values.mean[:] = now.residual, now.quadratic, now.mean


def _advance_compiled(
    columns: Columns, step: Step, row: slice, covariances: Floats, known: KnownColumns, values: PoolValues
) -> None:
    """Change the values of a range with compiled loops, span by span."""
    from manyarms.posterior import compiled_step as loops

    (m, n_forms), a, u = step.forms.shape, step.appended, step.pulled
    single = columns.dtype == np.float32
    arms, exact = _own(known.arms, np.int64), _own(known.values)
    if step.border is not None:
        factor, inverse_schur = _own(step.border.factor), _own(step.border.inverse_schur)
        weights = _own(step.border.weights)
    if step.pulls is not None:
        further, inverse_factor = _own(step.pulls.G[m:]), _own(step.pulls.inverse_factor)
        gain = _own(step.pulls.gain)
    for start in range(row.start, row.stop, SPAN_ROWS):
        part = slice(start, min(start + SPAN_ROWS, row.stop))
        here = slice(part.start - row.start, part.stop - row.start)
        now, rows = _part(values, here), part.stop - part.start
        products, new = columns.product(step.forms, part, compiled=True), np.empty((a, rows))
        if step.border is not None:
            loops.new_columns(_contiguous(covariances[:, here]), products[:a], factor, single, new)
            loops.place(new, arms, exact, start)
            columns.write_columns(part, m, new)
            projections = products[a : n_forms - u] if n_forms > a + u else np.zeros((a, rows))
            loops.border(new, projections, inverse_schur, weights, now.residual, now.quadratic, now.mean)
        if step.pulls is not None:
            projections = products[n_forms - u :]
            loops.pull(new, projections, further, inverse_factor, gain, now.quadratic, now.mean)


def _own(array: Floats | Ints, dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """A small array copied, so that its layout is always that of the compiled loops."""
    return np.array(array, dtype=dtype, order="C")


def _contiguous(array: Floats) -> Floats:
    return np.ascontiguousarray(array, dtype=np.float64)

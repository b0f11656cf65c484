"""One step of the posterior for a range of arms, in one sweep over their stored columns.

A step needs a few linear forms of z(x) for every arm x (pool_step.py says which), and from these the new
columns of z, the residual, the quadratic form and the mean. `advance` computes all of them for a range of
rows of a column store, with numpy or with compiled loops; both give the same values up to rounding.

The bits of an arm's values do not depend on the range if ranges begin at multiples of `BLOCK_ROWS` and end at
one or at the end of the pool (column_store.py). Both ways release the interpreter lock, so several ranges can
be worked on by as many threads; the numpy way must then run inside `support.threads.one_thread`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from manyarms.posterior.pool_step import PoolValues, Step, new_columns
from manyarms.support.column_store import BLOCK_ROWS, MOST_COMPILED_FORMS, Columns
from manyarms.support.validation import Floats, Ints

_MANY_FORMS_ROWS = BLOCK_ROWS // 4  # rows at a time, if there are many linear forms of each
_NAMES = ("residual", "quadratic", "mean")


def advance(
    columns: Columns,
    step: Step,
    row: slice,
    covariances: Floats,
    seen: Ints,
    values: PoolValues,
    *,
    compiled: bool,
) -> PoolValues:
    """The values of the rows in `row` after a step; the new columns of these rows are written to `columns`.

    `covariances` are those of the accepted arms with the rows (a × rows), `seen` are the arms of `step.seen`
    as positions in the store (those outside `row` are left out), and `values` the present values of the rows,
    which are not changed; the result shares those that stay the same. Room for the new columns must have been
    reserved. The residual of the accepted arms is left as computed, a rounding error; the caller sets it to
    zero.
    """
    few = step.forms.shape[1] <= MOST_COMPILED_FORMS
    if compiled and few:
        result = PoolValues(values.residual.copy(), values.quadratic.copy(), values.mean.copy())
        _advance_compiled(columns, step, row, covariances, seen, result)
        return result
    rows = BLOCK_ROWS if few else _MANY_FORMS_ROWS
    if row.stop - row.start <= rows:
        return _advanced_block(columns, step, row, covariances, seen, values)
    parts = []
    for start in range(row.start, row.stop, rows):
        part = slice(start, min(start + rows, row.stop))
        here = slice(part.start - row.start, part.stop - row.start)
        now = _part(values, here)
        parts.append(_advanced_block(columns, step, part, covariances[:, here], seen, now))
    return joined(parts)


def joined(parts: list[PoolValues]) -> PoolValues:
    """The values of consecutive ranges of rows as those of one."""
    return PoolValues(*(np.concatenate([getattr(part, name) for part in parts]) for name in _NAMES))


def _pulled(step: Step) -> int:
    """u, the number of different arms pulled."""
    return 0 if step.pulls is None else len(step.pulls.gain)


def _part(values: PoolValues, here: slice) -> PoolValues:
    """Views of a part of the values."""
    return PoolValues(values.residual[here], values.quadratic[here], values.mean[here])


def _advanced_block(
    columns: Columns, step: Step, row: slice, covariances: Floats, seen: Ints, values: PoolValues
) -> PoolValues:
    """The values of a block of rows after a step, with numpy; what does not change is shared."""
    (m, n_forms), a, u = step.forms.shape, len(step.accepted), _pulled(step)
    products, now = columns.product(step.forms, row), values
    if step.border is not None:
        new = new_columns(step.border, covariances, products[:a])
        new = new.astype(columns.dtype).astype(np.float64)
        inside = (seen >= row.start) & (seen < row.stop)
        new[:, seen[inside] - row.start] = step.at_seen[:, inside]
        columns.write_columns(row, m, new)
        now = now.bordered(step.border, products[a : n_forms - u], new)
    if step.pulls is not None:
        projections = products[n_forms - u :]
        if step.border is not None:
            projections = projections + step.pulls.G[m:].T @ new
        now = now.pulled(step.pulls, projections)
    return now


def _advance_compiled(
    columns: Columns, step: Step, row: slice, covariances: Floats, seen: Ints, values: PoolValues
) -> None:
    """Change the values of a range with compiled loops, block by block."""
    from manyarms.posterior import compiled_step as loops

    (m, n_forms), a, u = step.forms.shape, len(step.accepted), _pulled(step)
    single = columns.dtype == np.float32
    arms, exact = _own(seen, np.int64), _own(step.at_seen)
    if step.border is not None:
        factor, inverse_schur = _own(step.border.factor), _own(step.border.inverse_schur)
        weights = _own(step.border.weights)
    if step.pulls is not None:
        further, inverse_factor = _own(step.pulls.G[m:]), _own(step.pulls.inverse_factor)
        gain = _own(step.pulls.gain)
    for start in range(row.start, row.stop, BLOCK_ROWS):
        part = slice(start, min(start + BLOCK_ROWS, row.stop))
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

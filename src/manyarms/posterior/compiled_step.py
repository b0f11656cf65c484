"""The values of a range of arms after a step, from linear forms of their z, compiled (support/compiled.py).

The formulas are those of pool_step.py, the notation is that of update.py. Every loop runs over arms and
treats each alike, so the bits of an arm's values do not depend on the range that it is computed in. Arrays
are changed in place.
"""

from __future__ import annotations

from numba import float32, float64

from manyarms.support.compiled import compiled
from manyarms.support.validation import Floats, Ints


@compiled
def new_columns(covariances: Floats, products: Floats, factor: Floats, single: bool, columns: Floats) -> None:
    """columns = L⁻¹ (k(s, x) − z(s)ᵀz(x)), a × arms, rounded to single precision if `single`."""
    for c in range(len(columns)):
        column, covariance, product, pivot = columns[c], covariances[c], products[c], factor[c, c]
        for i in range(len(column)):
            column[i] = covariance[i] - product[i]
        for d in range(c):
            _add_multiple(column, columns[d], -factor[c, d])
        for i in range(len(column)):
            column[i] /= pivot
    if single:
        for c in range(len(columns)):
            column = columns[c]
            for i in range(len(column)):
                column[i] = float64(float32(column[i]))


@compiled
def place(columns: Floats, arms: Ints, values: Floats, first: int) -> None:
    """columns[:, arm − first] = values[:, k] for each of `arms` that is in the range."""
    for k in range(len(arms)):
        i = arms[k] - first
        if 0 <= i < columns.shape[1]:
            for c in range(len(columns)):
                columns[c, i] = values[c, k]


@compiled
def border(
    columns: Floats,
    projections: Floats,
    inverse_schur: Floats,
    weights: Floats,
    residual: Floats,
    quadratic: Floats,
    mean: Floats,
) -> None:
    """Change the values by the new columns; `projections` (Hᵀz, a × arms) are used up."""
    for c in range(len(columns)):
        column, difference, weight = columns[c], projections[c], weights[c]
        for i in range(len(column)):
            residual[i] -= column[i] * column[i]
            difference[i] -= column[i]
        _add_multiple(mean, difference, -weight)
    for i in range(len(residual)):
        residual[i] = max(residual[i], 0.0)
    _add_squares(quadratic, inverse_schur, projections, 1.0)


@compiled
def pull(
    columns: Floats,
    projections: Floats,
    further: Floats,
    inverse_factor: Floats,
    gain: Floats,
    quadratic: Floats,
    mean: Floats,
) -> None:
    """Change the values by pulls; `projections` (Gᵀz of the old columns, u × arms) are used up.

    `further` are the rows of G that belong to the new columns, a × u.
    """
    for k in range(len(projections)):
        projection = projections[k]
        for c in range(len(columns)):
            _add_multiple(projection, columns[c], further[c, k])
        _add_multiple(mean, projection, gain[k])
    _add_squares(quadratic, inverse_factor, projections, -1.0)


@compiled
def _add_multiple(total: Floats, values: Floats, factor: float) -> None:
    for i in range(len(total)):
        total[i] += factor * values[i]


@compiled
def _add_squares(total: Floats, triangle: Floats, rows: Floats, sign: float) -> None:
    """total += sign · Σ_c (Σ_{d≤c} triangle[c, d] rows[d])²; `rows` are used up, beginning with the last."""
    for back in range(len(rows)):
        c = len(rows) - 1 - back
        row, diagonal = rows[c], triangle[c, c]
        for i in range(len(row)):
            row[i] *= diagonal
        for d in range(c):
            _add_multiple(row, rows[d], triangle[c, d])
        for i in range(len(total)):
            total[i] += sign * (row[i] * row[i])

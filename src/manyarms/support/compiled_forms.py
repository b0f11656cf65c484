"""Several linear forms of the stored columns in one sweep over memory, compiled (see compiled.py).

Reading the columns takes nearly all the time of one linear form, so up to four are computed from each number
that is read: four forms take about as long as a matrix–vector product.

The value of a row is a fixed sequence of fused multiply–adds in double precision, for storage in single
precision too. Its bits depend neither on the other rows, nor on the processor, nor on the number of threads.
"""

from __future__ import annotations

from typing import Any

from numba import float64
from numba.extending import intrinsic
from numpy.typing import NDArray

from manyarms.support.compiled import compiled
from manyarms.support.validation import Floats

# Rows of a column that are read in sequence. The sums of three forms of them stay in the L2 cache; shorter
# sequences are slower, because the processor reads ahead.
_TILE = 1 << 13


def _fused_multiply_add(context: Any, a: Any, b: Any, c: Any) -> Any:
    """a·b + c, rounded once, as LLVM's instruction; numba has no function of this name."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return float64(float64, float64, float64), generate


_fma: Any = intrinsic(_fused_multiply_add)


@compiled
def add_forms(panel: NDArray[Any], forms: Floats, first: int, begin: int, total: Floats) -> None:
    """total[r, i] += Σ_j forms[r, first + j] · panel[j, begin + i], for all columns j of a panel.

    `panel` holds columns × rows, `forms` has a row for each linear form, and `total` has one column for each
    of the rows from `begin` on.
    """
    columns, n_forms, rows = len(panel), len(forms), total.shape[1]
    eights = columns // 8 * 8
    for tile in range(0, rows, _TILE):
        end = min(tile + _TILE, rows)
        for j in range(0, eights, 8):
            block = _eight_columns(panel, j, begin + tile, begin + end)
            r = 0
            while n_forms - r >= 4:
                _add_four(block, forms, r, first + j, total, tile)
                r += 4
            if n_forms - r == 3:
                _add_three(block, forms, r, first + j, total, tile)
            elif n_forms - r == 2:
                _add_two(block, forms, r, first + j, total, tile)
            elif n_forms - r == 1:
                _add_one(block, forms, r, first + j, total, tile)
        for j in range(eights, columns):
            for r in range(n_forms):
                _add_column(panel[j, begin + tile : begin + end], forms[r, first + j], total[r, tile:end])


@compiled
def _eight_columns(panel: NDArray[Any], j: int, begin: int, end: int) -> tuple[NDArray[Any], ...]:
    return (
        panel[j, begin:end],
        panel[j + 1, begin:end],
        panel[j + 2, begin:end],
        panel[j + 3, begin:end],
        panel[j + 4, begin:end],
        panel[j + 5, begin:end],
        panel[j + 6, begin:end],
        panel[j + 7, begin:end],
    )


@compiled
def _weights(forms: Floats, r: int, j: int) -> tuple[float, ...]:
    """The weights of eight columns in one linear form."""
    g = forms[r, j : j + 8]
    return g[0], g[1], g[2], g[3], g[4], g[5], g[6], g[7]


@compiled
def _row(block: tuple[NDArray[Any], ...], i: int) -> tuple[float, ...]:
    """Eight numbers of one row."""
    return (
        float64(block[0][i]),
        float64(block[1][i]),
        float64(block[2][i]),
        float64(block[3][i]),
        float64(block[4][i]),
        float64(block[5][i]),
        float64(block[6][i]),
        float64(block[7][i]),
    )


@compiled
def _plus(total: float, g: tuple[float, ...], z: tuple[float, ...]) -> Any:
    """total + Σ g_j z_j, in this order."""
    half = _fma(g[3], z[3], _fma(g[2], z[2], _fma(g[1], z[1], _fma(g[0], z[0], total))))
    return _fma(g[7], z[7], _fma(g[6], z[6], _fma(g[5], z[5], _fma(g[4], z[4], half))))


@compiled
def _add_one(block: Any, forms: Floats, r: int, j: int, total: Floats, tile: int) -> None:
    g = _weights(forms, r, j)
    first = total[r, tile : tile + len(block[0])]
    for i in range(len(first)):
        first[i] = _plus(first[i], g, _row(block, i))


@compiled
def _add_two(block: Any, forms: Floats, r: int, j: int, total: Floats, tile: int) -> None:
    g, h = _weights(forms, r, j), _weights(forms, r + 1, j)
    end = tile + len(block[0])
    first, second = total[r, tile:end], total[r + 1, tile:end]
    for i in range(len(first)):
        z = _row(block, i)
        first[i] = _plus(first[i], g, z)
        second[i] = _plus(second[i], h, z)


@compiled
def _add_three(block: Any, forms: Floats, r: int, j: int, total: Floats, tile: int) -> None:
    f, g, h = _weights(forms, r, j), _weights(forms, r + 1, j), _weights(forms, r + 2, j)
    end = tile + len(block[0])
    first, second, third = total[r, tile:end], total[r + 1, tile:end], total[r + 2, tile:end]
    for i in range(len(first)):
        z = _row(block, i)
        first[i] = _plus(first[i], f, z)
        second[i] = _plus(second[i], g, z)
        third[i] = _plus(third[i], h, z)


@compiled
def _add_four(block: Any, forms: Floats, r: int, j: int, total: Floats, tile: int) -> None:
    e, f = _weights(forms, r, j), _weights(forms, r + 1, j)
    g, h = _weights(forms, r + 2, j), _weights(forms, r + 3, j)
    end = tile + len(block[0])
    first, second = total[r, tile:end], total[r + 1, tile:end]
    third, fourth = total[r + 2, tile:end], total[r + 3, tile:end]
    for i in range(len(first)):
        z = _row(block, i)
        first[i] = _plus(first[i], e, z)
        second[i] = _plus(second[i], f, z)
        third[i] = _plus(third[i], g, z)
        fourth[i] = _plus(fourth[i], h, z)


@compiled
def _add_column(column: NDArray[Any], weight: float, total: Floats) -> None:
    for i in range(len(total)):
        total[i] = _fma(weight, float64(column[i]), total[i])

"""Compile loops over rows with numba, where it is installed (`manyarms[fast]`) and worth its loading time.

numba takes about half a second to import, and a loop takes seconds to compile for the first time on a machine
(after that it is read from numba's cache). Modules with compiled loops are therefore imported at their first
use, and only for enough work: see `worthwhile`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any, TypeVar

COMPILED_FROM = 1 << 21  # stored numbers (arms × columns), from which a pass over them is compiled

Loop = TypeVar("Loop", bound=Callable[..., object])


@cache
def available() -> bool:
    """Whether numba can be imported. One that is installed but does not load is reported once."""
    if find_spec("numba") is None:
        return False
    try:
        import numba  # noqa: F401
    except ImportError as problem:
        warnings.warn(f"numba is installed but not used: {problem}", RuntimeWarning, stacklevel=2)
        return False
    return True


def worthwhile(n_arms: int, columns: int) -> bool:
    """Whether passes over this many columns of a pool of `n_arms` arms are compiled.

    Compiled and plain passes differ in the last bits. The answer therefore depends on the whole pool and the
    sketch alone, not on how the pool is divided, on the time, or on what was loaded before.
    """
    return n_arms * columns >= COMPILED_FROM and available()


def worthwhile_now(much: bool) -> bool:
    """Whether to use a compiled loop with exactly the results of numpy: for much work, or once loaded."""
    return (much or "numba" in sys.modules) and available()


def compiled(loop: Loop) -> Loop:
    """`loop` compiled at its first call for each combination of types; it runs without the interpreter lock.

    numba keeps the machine code in `NUMBA_CACHE_DIR`, beside the source file, or in the user's cache folder,
    whichever is set or can be written first. Without such a place the loop is compiled in every process.
    """
    import numba

    def machine_code(cache: bool) -> Any:
        return numba.njit(loop, cache=cache, nogil=True, error_model="numpy")

    try:
        function: Loop = machine_code(cache=True)
    except RuntimeError:  # numba found no folder that it can write to
        function = machine_code(cache=False)
    return function

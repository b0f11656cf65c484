"""One thread for small matrices, whatever the machine has.

The libraries behind numpy and scipy share a product or a factorisation among all cores. On the matrices of
a fit (at most 1 000 arms) that takes two to four times as long as one thread, and thirty times as long where
other programs keep the cores busy: the threads wait for one another. On a large pool a pass may gain by it.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

LARGE_POOL = 100_000  # arms from which on a pass over the pool is left to as many threads as there are


def one_thread() -> AbstractContextManager[Any]:
    """This process's linear algebra by one thread, inside a with statement; may be nested.

    The number of threads is the process's: where two threads of Python are inside, that of the first counts.
    """
    limit: AbstractContextManager[Any] = _libraries().limit(limits=1, user_api="blas")
    return limit


def threads_for(n_arms: int) -> AbstractContextManager[Any]:
    """One thread for a small pool, as many as there are for a large one."""
    return one_thread() if n_arms < LARGE_POOL else nullcontext()


@cache
def _libraries() -> Any:
    """Found once. scipy brings a library of its own, so it has to be loaded by then."""
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()

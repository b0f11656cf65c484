"""One thread for small matrices, whatever the machine has.

The libraries behind numpy and scipy share a product or a factorisation among all cores. On the matrices of
a fit (at most 1 000 arms) that takes two to four times as long as one thread, and thirty times as long where
other programs keep the cores busy: the threads wait for one another. On a large pool a pass may gain by it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

LARGE_POOL = 100_000  # arms from which on a pass over the pool is left to as many threads as there are

_SEEN_TO = threading.Lock()  # held by whoever has set the number of threads and will restore it


@contextmanager
def one_thread() -> Iterator[None]:
    """This process's linear algebra by one thread, meanwhile; may be nested.

    The number is the process's. Where several threads of Python are inside, it is for the first of them, and
    restored when that one leaves: if each restored what it had found, the last would leave one for good.
    """
    if not _SEEN_TO.acquire(blocking=False):
        yield
        return
    try:
        with _libraries().limit(limits=1, user_api="blas"):
            yield
    finally:
        _SEEN_TO.release()


def threads_for(n_arms: int) -> AbstractContextManager[None]:
    """One thread for a small pool, as many as there are for a large one."""
    return one_thread() if n_arms < LARGE_POOL else nullcontext()


@cache
def _libraries() -> Any:
    """Found once. scipy brings a library of its own, so it has to be loaded by then."""
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()

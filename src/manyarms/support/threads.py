"""Use one thread for linear algebra on small matrices, whatever the number of cores.

The libraries behind numpy and scipy split a product or a factorisation over all cores. On the matrices of a
fit (at most 1 000 arms) that takes two to four times as long as one thread, and thirty times as long when
other programs keep the cores busy, because the threads wait for each other. On a large pool several threads
can be faster.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

LARGE_POOL = 100_000  # from this many arms a pass over the pool may use all threads

_LIMIT_SET = threading.Lock()  # held by the caller that set the number of threads and will restore it


@contextmanager
def one_thread() -> Iterator[None]:
    """Run linear algebra in one thread inside this block; blocks may be nested.

    The number of threads belongs to the process. When several Python threads are inside such blocks, the
    first one sets it and restores it on leaving: if each restored the number it had found, the last one
    would leave the limit at one for good.
    """
    if not _LIMIT_SET.acquire(blocking=False):
        yield
        return
    try:
        several = [(library, n) for library in _libraries() if (n := library.get_num_threads()) != 1]
        try:
            for library, _ in several:
                library.set_num_threads(1)
            yield
        finally:
            for library, n in several:
                library.set_num_threads(n)
    finally:
        _LIMIT_SET.release()


def threads_for(n_arms: int) -> AbstractContextManager[None]:
    """One thread for a small pool, all threads for a large one."""
    return one_thread() if n_arms < LARGE_POOL else nullcontext()


@cache
def _libraries() -> list[Any]:
    """The BLAS libraries in use, found once. scipy ships one of its own, so it must be loaded before.

    `ThreadpoolController.limit` does the same for any library, but takes as long as a step on a small pool.
    """
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)

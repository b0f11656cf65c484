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


class _Limit:
    """The limit of one thread, set while at least one Python thread is inside `one_thread`.

    The number of threads belongs to the process: the first one inside sets it, and the last one to leave
    restores it, so that nobody's linear algebra is split differently half-way through, which would change
    its last bits.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._inside = 0
        self._before: list[tuple[Any, int]] = []  # the libraries with several threads, and how many they had

    def enter(self) -> None:
        """One more is inside."""
        with self._guard:
            if not self._inside:
                self._before = [(each, n) for each in _libraries() if (n := each.get_num_threads()) != 1]
                if self._before:
                    _set([(library, 1) for library, _ in self._before])
            self._inside += 1

    def leave(self) -> None:
        """One has left."""
        with self._guard:
            self._inside -= 1
            if not self._inside:
                before, self._before = self._before, []
                if before:
                    _set(before)


def _set(numbers: list[tuple[Any, int]]) -> None:
    """Set the number of threads of some libraries.

    From version 3.8 on, threadpoolctl lets only one Python thread set it for OpenBLAS, the first that does,
    and ignores the others without an error. So the right is taken here, and given up again.
    """
    kinds = {type(library) for library, _ in numbers}
    rights = [right for kind in kinds if (right := getattr(kind, "clear_controlling_thread", None))]
    for right in rights:
        right(force=True)
    try:
        for library, n in numbers:
            library.set_num_threads(n)
    finally:
        for right in rights:
            right()


_LIMIT = _Limit()


@contextmanager
def one_thread() -> Iterator[None]:
    """Run linear algebra in one thread inside this block; blocks may be nested, also on other threads."""
    _LIMIT.enter()
    try:
        yield
    finally:
        _LIMIT.leave()


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

"""Small matrices are the work of one thread, and what the process had before comes back."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.linalg  # noqa: F401  (its library counts too)
from threadpoolctl import threadpool_info, threadpool_limits

import manyarms as ma
from manyarms.learning import map_fit
from manyarms.posterior import sparse_gp
from manyarms.support.threads import LARGE_POOL, one_thread, threads_for


def counts() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_threads():
    with threadpool_limits(limits=2, user_api="blas"):
        if counts() != {2}:
            pytest.fail(f"this machine's linear algebra cannot be given two threads: {threadpool_info()}")
        yield


def test_nested_and_after_an_error_the_number_comes_back() -> None:
    with one_thread():
        with one_thread():
            assert counts() == {1}
        assert counts() == {1}
    assert counts() == {2}
    with pytest.raises(KeyError), one_thread():
        raise KeyError
    assert counts() == {2}


TWO_RUNS = """
import threading
import scipy.linalg
from threadpoolctl import threadpool_info, threadpool_limits
from manyarms.support.threads import one_thread

threadpool_limits(limits=2, user_api="blas")  # also where there is one core only

def counts():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}

entered, left = threading.Event(), threading.Event()

def other():
    with one_thread():
        entered.set()
        left.wait(120)

thread, before = threading.Thread(target=other), counts()
with one_thread():
    assert counts() == {1}
    thread.start()
    assert entered.wait(120)
assert counts() == {1}, "the other thread is still inside"
left.set()
thread.join()
assert counts() == before
with one_thread():
    assert counts() == {1}

def alone():
    with one_thread():
        seen.append(counts())
    seen.append(counts())

seen = []
thread = threading.Thread(target=alone)
thread.start()
thread.join()
assert seen == [{1}, before], seen
print(before)
"""


def test_every_thread_of_python_can_set_it_and_the_last_to_leave_restores_it() -> None:
    """In a process of its own: the limit that the other tests begin with would hide what is left behind.

    threadpoolctl ignores every thread of Python but the first that sets the number. The last bits depend on
    the number, so a model in a thread of the service would not be the one of the command.
    """
    done = subprocess.run([sys.executable, "-c", TWO_RUNS], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == "{2}"


def test_large_pools_keep_their_threads() -> None:
    with threads_for(LARGE_POOL):
        assert counts() == {2}
    with threads_for(LARGE_POOL - 1):
        assert counts() == {1}


def test_a_run_chooses_and_learns_by_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    fit = map_fit.log_evidence
    monkeypatch.setattr(map_fit, "log_evidence", lambda *given: (seen.append(counts()), fit(*given))[1])
    X = np.random.default_rng(0).normal(size=(300, 3))
    opt = ma.Optimizer(ma.Pool(X))
    for _ in range(3):
        batch = opt.ask(10)
        opt.tell(batch, X[batch.arms, 0])
        opt.predict()
        assert counts() == {2}
    assert seen
    assert all(number == {1} for number in seen)


class Watched(ma.RBF):
    """A kernel that records the number of threads of every call."""

    seen: ClassVar[list[set[int]]] = []

    def matrix(self, X: Any, Y: Any) -> Any:
        self.seen.append(counts())
        return super().matrix(X, Y)


def test_a_contextual_bandit_uses_one_thread() -> None:
    """Its matrices are small, and it is called thousands of times a second."""
    rng = np.random.default_rng(0)
    bandit = ma.ContextualBandit(ma.BKB(kernel=Watched(0.5), noise_std=0.1, width=2.0))
    bandit.tell(rows=rng.random((5, 2)), rewards=np.zeros(5))
    for _ in range(5):
        bandit.tell(bandit.ask(rng.random((4, 2))), 1.0)
        bandit.forget(bandit.ask(rng.random((4, 2))))
        bandit.predict(rng.random((3, 2)))
        assert counts() == {2}
    assert Watched.seen
    assert all(number == {1} for number in Watched.seen)


def test_what_has_the_size_of_the_sketch_takes_one_thread_on_a_large_pool_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pool counts as large; its passes have threads of Python, its matrices of 400 rows need none."""
    seen: list[set[int]] = []
    inverse = sparse_gp.inverse_lower

    def watched(matrix: np.ndarray) -> np.ndarray:
        seen.append(counts())
        return inverse(matrix)

    monkeypatch.setattr(sparse_gp, "inverse_lower", watched)
    pool = ma.Pool(np.random.default_rng(0).random((40, 2)))
    process = sparse_gp.SparseGP(pool, ma.RBF(0.3), 0.01)
    arms = np.arange(3)
    process.rebuilt(process.empty(), arms, arms, np.ones(3), np.ones(3))
    assert seen == [{1}]

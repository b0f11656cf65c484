"""Small matrices are the work of one thread, and what the process had before comes back."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import scipy.linalg  # noqa: F401  (its library counts too)
from threadpoolctl import threadpool_info, threadpool_limits

import manyarms as ma
from manyarms.learning import fitting
from manyarms.threads import LARGE_POOL, one_thread, threads_for


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


def test_two_threads_of_python_restore_it_whoever_leaves_first() -> None:
    """A enters, B enters, A leaves, B leaves: if each restored what it found, one thread would be left."""
    entered, left = threading.Event(), threading.Event()

    def other() -> None:
        with one_thread():
            entered.set()
            left.wait(10)

    thread = threading.Thread(target=other)
    with one_thread():
        thread.start()
        assert entered.wait(10)
    left.set()
    thread.join()
    assert counts() == {2}


def test_large_pools_keep_their_threads() -> None:
    with threads_for(LARGE_POOL):
        assert counts() == {2}
    with threads_for(LARGE_POOL - 1):
        assert counts() == {1}


def test_a_run_chooses_and_learns_by_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    fit = fitting.log_evidence
    monkeypatch.setattr(fitting, "log_evidence", lambda *given: (seen.append(counts()), fit(*given))[1])
    X = np.random.default_rng(0).normal(size=(300, 3))
    opt = ma.Optimizer(ma.Pool(X))
    for _ in range(3):
        batch = opt.ask(10)
        opt.tell(batch, X[batch.arms, 0])
        opt.predict()
        assert counts() == {2}
    assert seen
    assert all(number == {1} for number in seen)

"""The copy of rows that are read again and again."""

from __future__ import annotations

import pickle
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from manyarms.pool import row_copy
from manyarms.pool.row_copy import RowCopy
from manyarms.support.unnamed_file import UnnamedFile

ROWS = np.random.default_rng(0).random((400, 3), dtype=np.float32)


def empty() -> RowCopy:
    return RowCopy(400, 3, np.dtype(np.float32))


def test_ranges_are_known_once_they_were_kept() -> None:
    copy = empty()
    assert copy.rows(100, 200) is None
    copy.keep(100, ROWS[100:200])
    found = copy.rows(100, 200)
    assert found is not None
    assert np.array_equal(found, ROWS[100:200])
    assert not found.flags.writeable
    assert copy.rows(0, 100) is None
    again = pickle.loads(pickle.dumps(copy))
    assert again.rows(100, 200) is None
    again.keep(0, ROWS[:100])
    assert np.array_equal(again.rows(0, 100), ROWS[:100])


def test_threads_that_keep_their_first_rows_at_the_same_time_share_a_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Slow(UnnamedFile):
        def __init__(self, folder: str, nbytes: int) -> None:
            super().__init__(folder, nbytes)
            time.sleep(0.1)

    monkeypatch.setattr(row_copy, "UnnamedFile", Slow)
    copy, firsts = empty(), range(0, 400, 100)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda first: copy.keep(first, ROWS[first : first + 100]), firsts))
    for first in firsts:
        assert np.array_equal(copy.rows(first, first + 100), ROWS[first : first + 100])


def test_a_disk_that_fills_up_leaves_what_was_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    copy = empty()
    copy.keep(0, ROWS[:100])

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(UnnamedFile, "reserve", full)
    copy.keep(100, ROWS[100:200])
    assert copy.refused
    assert copy.rows(100, 200) is None
    assert np.array_equal(copy.rows(0, 100), ROWS[:100])

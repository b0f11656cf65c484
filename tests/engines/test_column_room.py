"""Where columns live: how it is chosen, what is said about it, a full disk, and what is left behind."""

from __future__ import annotations

import gc
import logging
import os
import pickle
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import manyarms as ma
from manyarms.errors import InvalidParameterError, StorageFullError
from manyarms.support import unnamed_file
from manyarms.support.available_memory import available_memory
from manyarms.support.column_room import ColumnRoom, StorageSettings
from manyarms.support.column_store import PANEL
from manyarms.support.recomputed_columns import RecomputedColumns

ROWS = 1000
ONE_PANEL = PANEL * ROWS * 8


def searched(engine: ma.engines.Local) -> ma.Optimizer:
    features = np.random.default_rng(0).random((ROWS, 2))
    opt = ma.Optimizer(ma.Pool(features), ma.BKB(kernel=ma.RBF(0.4), noise_std=0.1), engine=engine)
    for _ in range(5):
        batch = opt.ask()
        opt.tell(batch, np.sin(5 * features[batch.arms, 0]))
    opt.ask()
    return opt


def test_memory_is_used_first_and_files_after_it(tmp_path: Path, caplog) -> None:
    room = ColumnRoom(StorageSettings("auto", str(tmp_path), memory=ONE_PANEL))
    columns = room.columns(ROWS, np.float64, ROWS)
    columns.reserve(10)
    assert room.in_use() == "columns: 1.0 MB in memory"
    with caplog.at_level(logging.WARNING, "manyarms.engines"):
        columns.reserve(PANEL + 10)
        columns.reserve(2 * PANEL + 10)
    assert room.in_use() == f"columns: 1.0 MB in memory, 2.0 MB in files in {tmp_path}"
    assert len(caplog.records) == 1, "said once"
    assert f"kept in files in {tmp_path}" in caplog.text
    values = np.random.default_rng(0).random((ROWS, 2 * PANEL + 10))
    columns.write(slice(0, ROWS), 0, values)
    assert np.array_equal(columns.block(slice(0, ROWS), values.shape[1]), values)
    del columns
    gc.collect()
    assert room.in_use() == "columns: none yet"


def test_columns_are_computed_again_if_a_usual_sketch_fits_nowhere(
    tmp_path: Path, monkeypatch, caplog
) -> None:
    monkeypatch.setattr("manyarms.support.column_room.free_bytes", lambda folder: 10**6)
    room = ColumnRoom(StorageSettings("auto", str(tmp_path), memory=10**6))
    with caplog.at_level(logging.WARNING, "manyarms.engines"):
        assert isinstance(room.columns(ROWS, np.float32, 10**6), RecomputedColumns)
    assert "computed again at each use: 512 columns, twice during a rebuild, take 4.1 GB" in caplog.text
    small = room.columns(ROWS, np.float32, 100)
    assert not isinstance(small, RecomputedColumns)


def test_files_have_no_names_and_room_is_given_back(tmp_path: Path) -> None:
    engine = ma.engines.Local(storage="disk", folder=tmp_path)
    opt = searched(engine)
    assert f"in files in {tmp_path}" in engine.in_use()
    assert not list(tmp_path.iterdir())
    del opt
    gc.collect()
    assert engine.in_use() == "columns: none yet"


_KILLED = """
import os, signal, sys, numpy as np, manyarms as ma
features = np.random.default_rng(0).random((1000, 2))
opt = ma.Optimizer(ma.Pool(features), ma.BKB(kernel=ma.RBF(0.4), noise_std=0.1),
                   engine=ma.engines.Local(storage="disk", folder=sys.argv[1]))
opt.tell(opt.ask(5), range(5))
opt.ask()
assert "in files" in opt.context.engine.in_use()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_leaves_nothing(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _KILLED, tmp_path], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_one_clear_error_and_the_run_is_unchanged(tmp_path: Path, monkeypatch) -> None:
    opt = searched(ma.engines.Local(storage="disk", folder=tmp_path))
    batch = opt.ask(1)
    opt.tell(batch, [0.5])
    before = opt.history.pulls

    def full(*arguments: int) -> None:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patch:
        patch.setattr(unnamed_file, "reserve", full)
        with pytest.raises(StorageFullError, match=r"has no room for .* another folder, or use storage"):
            opt.ask(3)
    assert opt.history.pulls == before
    assert len(opt.ask(3)) == 3


def test_a_limit_of_the_system_on_the_size_of_files_is_such_an_error(tmp_path: Path) -> None:
    room = ColumnRoom(StorageSettings("disk", str(tmp_path)))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (ONE_PANEL // 2, hard))
    try:
        with pytest.raises(StorageFullError, match="no file can be made in"):
            room.columns(ROWS, np.float64, ROWS).reserve(5)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert room.in_use() == "columns: none yet"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"storage": "tape"}, "one of auto, memory, disk, recompute"),
        ({"memory": 0}, "memory"),
        ({"memory": 1.5}, "memory"),
        ({"folder": "/does/not/exist"}, "a folder that can be written to"),
    ],
)
def test_wrong_settings_are_refused(settings: dict, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        ma.engines.Local(**settings)


def test_an_engine_says_how_it_was_set_and_can_be_sent(tmp_path: Path) -> None:
    engine = ma.engines.Local(shards=2, storage="disk", folder=tmp_path, memory=10**9)
    text = f"Local(shards=2, threads=None, storage='disk', folder='{tmp_path}', memory=1000000000)"
    assert repr(engine) == text == repr(pickle.loads(pickle.dumps(engine)))


def test_available_memory_is_a_part_of_what_the_machine_has() -> None:
    assert 0 < available_memory() <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_a_run_on_files_can_be_copied_and_pickled(tmp_path: Path) -> None:
    opt = searched(ma.engines.Local(storage="disk", folder=tmp_path))
    again = pickle.loads(pickle.dumps(opt))
    assert again.ask(3).arms.tolist() == opt.ask(3).arms.tolist()

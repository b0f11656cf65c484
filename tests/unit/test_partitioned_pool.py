"""Pools in several Parquet files agree with the same pool in memory."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import manyarms as ma
from manyarms.errors import (
    CheckpointError,
    InvalidFeaturesError,
    InvalidParameterError,
    PoolTooLargeError,
    TableError,
    TextColumnError,
    UnknownArmError,
)
from manyarms.pool import row_copy, stored_rows
from manyarms.pool.partitioned import PartitionedPool

N, D = 4000, 3
LITTLE = 2**16  # bytes; less than the rows take, so that they are read again and again


@pytest.fixture
def rows() -> np.ndarray:
    features = np.random.default_rng(0).normal(size=(N, D))
    features[:, 2] = np.exp(4 * features[:, 2])  # learned on a logarithmic scale
    return features


@pytest.fixture
def folder(rows: np.ndarray, tmp_path: Path) -> Path:
    """Three files with row groups of different sizes."""
    for number, (first, stop, group) in enumerate([(0, 1500, 400), (1500, 1501, 10), (1501, N, 999)]):
        columns = {f"x{j}": rows[first:stop, j] for j in range(D)}
        table = pa.table({"name": [f"c{i}" for i in range(first, stop)], **columns})
        pq.write_table(table, tmp_path / f"part-{number}.parquet", row_group_size=group)
    return tmp_path


def pools(folder: Path, rows: np.ndarray, max_memory: int) -> tuple[ma.Pool, ma.Pool]:
    stored = ma.Pool.read(f"{folder}/*.parquet", id="name", max_memory=max_memory)
    names = [f"x{j}" for j in range(D)]
    return stored, ma.Pool(rows, [f"c{i}" for i in range(N)], names=names, max_memory=max_memory)


@pytest.mark.parametrize("max_memory", [LITTLE, 2**29])
def test_it_is_the_same_pool(folder: Path, rows: np.ndarray, max_memory: int) -> None:
    stored, plain = pools(folder, rows, max_memory)
    assert isinstance(stored, PartitionedPool)
    assert (stored.n_arms, stored.n_features, stored.names) == (N, D, plain.names)
    for arms in ([0], [3999, 1500, 3999, 399, 400], np.arange(0, N, 7)):
        assert np.array_equal(stored.take(arms), plain.take(arms))
        assert stored.ids_of(arms) == plain.ids_of(arms)
    assert stored.digest == plain.digest
    assert stored.ids == plain.ids
    assert stored.index_of("c1500") == 1500
    assert stored.arms_of(["c7", "c3999"]).tolist() == [7, 3999]
    for (here, block), (there, expected) in zip(stored.blocks(8), plain.blocks(8), strict=True):
        assert here == there
        assert np.array_equal(block, expected)


@pytest.mark.parametrize("max_memory", [LITTLE, 2**29])
def test_parts_and_copies_hold_places_not_rows(folder: Path, rows: np.ndarray, max_memory: int) -> None:
    stored, _ = pools(folder, rows, max_memory)
    stored.take(np.arange(N))
    part = pickle.loads(pickle.dumps(stored.part(300, 2500)))
    assert len(pickle.dumps(stored)) < 4000
    assert (part.n_arms, part.has_ids) == (2200, False)
    assert np.array_equal(part.take([0, 1199, 1200, 1201, 2199]), rows[[300, 1499, 1500, 1501, 2499]])
    assert np.array_equal(np.concatenate([block for _, block in part.blocks(8)]), rows[300:2500])
    assert np.array_equal(stored.first(1600).take([1599]), rows[[1599]])
    assert stored.first(1600).ids_of([1599]) == ["c1599"]


@pytest.mark.parametrize("policy", [ma.BKB(kernel=ma.RBF(1.0), noise_std=0.1), None])
def test_the_same_arms_as_in_memory(
    folder: Path, rows: np.ndarray, tmp_path: Path, policy: ma.Policy | None
) -> None:
    values = np.sin(rows[:, :2]).sum(axis=1)
    chosen = []
    for pool in pools(folder, rows, LITTLE):
        opt = ma.Optimizer(pool, policy, seed=1, engine=ma.engines.Local(shards=1))
        arms: list[int] = []
        for size in (24, 3):
            batch = opt.ask(size)
            opt.tell(batch, values[batch.arms])
            arms += batch.arms.tolist()
        chosen.append(arms)
    assert chosen[0] == chosen[1]
    opt.save(tmp_path / "run")
    stored, _ = pools(folder, rows, LITTLE)
    assert ma.Optimizer.load(tmp_path / "run", pool=stored).ask(2).arms.tolist() == opt.ask(2).arms.tolist()


def batches(folder: Path, rows: np.ndarray) -> list[int]:
    """The arms of some batches of a run on the pool in files, which keeps little in memory."""
    pool, _ = pools(folder, rows, LITTLE)
    engine = ma.engines.Local(shards=1, storage="recompute")
    opt, arms, values = ma.Optimizer(pool, seed=2, engine=engine), [], np.sin(rows[:, :2]).sum(axis=1)
    for size in (24, 30, 3):
        batch = opt.ask(size)
        opt.tell(batch, values[batch.arms])
        arms += batch.arms.tolist()
    return arms


def test_a_row_group_is_decoded_once_and_again_only_without_room_for_a_copy(
    folder: Path, rows: np.ndarray, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    decoded: list[tuple[str, int]] = []
    plain = stored_rows.read_columns

    def read_columns(filesystem, group, names):
        decoded.append((group.path, group.number))
        return plain(filesystem, group, names)

    monkeypatch.setattr(stored_rows, "read_columns", read_columns)
    arms = batches(folder, rows)
    assert len(decoded) == len(set(decoded)) == 4 + 1 + 3
    decoded.clear()
    monkeypatch.setattr(row_copy, "free_bytes", lambda folder: 100)
    assert batches(folder, rows) == arms
    assert len(decoded) > 3 * len(set(decoded))
    assert "rows are decoded again at every pass" in caplog.text


def test_a_saved_run_needs_the_files(folder: Path, tmp_path: Path) -> None:
    opt = ma.Optimizer(ma.Pool.read(folder, id="name"), ma.BKB(kernel=ma.RBF(1.0), noise_std=0.1))
    opt.save(tmp_path / "run")
    with pytest.raises(CheckpointError, match="give the pool to load"):
        ma.Optimizer.load(tmp_path / "run")


def test_numbers_of_several_types_get_a_common_one(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": np.array([1, 2], dtype=np.int32)}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": np.array([0.5], dtype=np.float64)}), tmp_path / "2.parquet")
    pool = ma.Pool.read(tmp_path)
    assert pool.features.dtype == np.float64
    assert pool.take([0, 1, 2]).ravel().tolist() == [1.0, 2.0, 0.5]


def test_what_cannot_be_read_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(TableError, match="no such files"):
        ma.Pool.read(f"{folder}/*.pq")
    with pytest.raises(TextColumnError, match="'c0' is not a number"):
        ma.Pool.read(folder)
    with pytest.raises(TableError, match="no column 'y'"):
        ma.Pool.read(folder, features=["y"])
    pq.write_table(pa.table({"name": ["d"], "x0": [1.0]}), folder / "part-9.parquet")
    with pytest.raises(TableError, match=r"part-9\.parquet: no column 'x1'"):
        ma.Pool.read(folder, id="name")
    (folder / "part-9.parquet").write_text("not a table")
    with pytest.raises(TableError, match=r"part-9\.parquet: not a readable Parquet file"):
        ma.Pool.read(folder, id="name")


def test_a_cell_that_is_not_finite_is_named_when_it_is_read(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1.0, 2.0, np.nan]}), tmp_path / "1.parquet", row_group_size=2)
    pool = ma.Pool.read(tmp_path)
    with pytest.raises(TableError, match=r"1\.parquet, row group 1: row 0, column 'a'"):
        pool.take([2])


def test_what_a_pool_in_files_cannot_do(folder: Path) -> None:
    pool = ma.Pool.read(folder, id="name", max_memory=LITTLE)
    with pytest.raises(InvalidParameterError, match="a pool in memory if arms are added"):
        pool.extended([[1.0, 2.0, 3.0]], ["new"])
    with pytest.raises(PoolTooLargeError, match="larger max_memory"):
        np.asarray(pool.features)
    with pytest.raises(InvalidFeaturesError, match="cannot be indexed"):
        pool.features["x0"]
    with pytest.raises(UnknownArmError, match="no arm has the id 'nobody'"):
        pool.index_of("nobody")
    with pytest.raises(UnknownArmError):
        pool.take([N])

"""The cache of a large text table: used, checked, and safe to delete."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.pool_file import cache, source
from manyarms.campaigns.settings import Request


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cache, "SMALL_TABLE", 50)
    rows = "".join(f"n{i},{i / 7},{'uvw'[i % 3]}\n" for i in range(60))
    (tmp_path / "pool.csv").write_text(f"name,x,kind\n{rows}")
    Campaign.new(tmp_path / "c.db", Request(pool=str(tmp_path / "pool.csv"), id="name")).close()
    return tmp_path


def caches(folder: Path) -> list[Path]:
    return list(folder.glob(".pool.csv.features.*.npz"))


def same(place: Path) -> None:
    with Campaign(place / "c.db") as campaign:
        pool = campaign.pool
        fresh = campaign.source.first._from_cells()
    np.testing.assert_array_equal(pool.features, fresh.features)
    assert (pool.ids, pool.names) == (fresh.ids, fresh.names)


def test_a_table_is_parsed_once_and_its_cache_may_be_deleted(place, monkeypatch):
    same(place)
    (file,) = caches(place)
    with monkeypatch.context() as patched:
        patched.setattr(source, "read_cells", None)  # the table is not parsed again
        with Campaign(place / "c.db") as campaign:
            assert campaign.pool.n_arms == 60
    file.unlink()
    same(place)


@pytest.mark.parametrize("damage", [b"", b"nothing", None], ids=["empty", "no archive", "cut"])
def test_a_damaged_cache_is_made_again(place, damage):
    same(place)
    (file,) = caches(place)
    whole = file.read_bytes()
    file.write_bytes(whole[:-200] if damage is None else damage)
    same(place)
    assert file.read_bytes()[:4] == whole[:4]


def test_a_flipped_bit_in_the_cache_is_noticed(place):
    same(place)
    (file,) = caches(place)
    data = bytearray(file.read_bytes())
    data[len(data) // 3] ^= 1
    file.write_bytes(bytes(data))
    same(place)


def test_small_tables_and_folders_that_cannot_be_written_to_have_no_cache(place, monkeypatch):
    def refuse(*_, **__):
        raise cache.OutputError("read-only")

    with monkeypatch.context() as patched:
        patched.setattr(cache, "replacing", refuse)
        same(place)
    assert not caches(place)
    monkeypatch.setattr(cache, "SMALL_TABLE", 61)
    same(place)
    assert not caches(place)

"""Helpers of the tests that read pools from files."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyarms import Pool
from manyarms.errors import TableError

VALUES = [[1.0, 2.5], [-3.0, 4e-3]]
COLUMNS = {"name": ["x", "y"], "a": [1.0, -3.0], "b": [2.5, 4e-3]}
TEXT = "name,a,b\nx,1,2.5\ny,-3,4e-3\n"


def written(folder: Path, name: str, content: Any) -> Path:
    """A file with this text, bytes, table (dict) or array."""
    path = folder / name
    if isinstance(content, str):
        content = content.encode()
    if isinstance(content, dict):
        content = pa.table(content)
    if isinstance(content, pa.Table):
        pq.write_table(content, path)
    elif isinstance(content, np.ndarray):
        np.save(path, content)
    else:
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def refused(path: Any, says: str, error: type[Exception] = TableError, **options: Any) -> None:
    """Reading must fail, and the message must name the file and match `says`."""
    with pytest.raises(error, match=says) as caught:
        Pool.read(path, **options)
    if error is TableError and isinstance(path, Path):
        assert path.name in str(caught.value)
    assert len(str(caught.value)) < 600

"""Read a pool's columns from CSV, Parquet, npy and npz files, with errors that name row and column."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from manyarms.errors import MissingExtraError, TableError


@dataclass(frozen=True)
class Table:
    """What a file says about the arms: features, and ids and feature names where it has them."""

    features: NDArray[Any]
    ids: Sequence[Any] | None
    names: list[str] | None


def read_table(path: str | Path, id: str | None = None, features: Sequence[str] | str | None = None) -> Table:
    """Read `path` by its ending: .csv, .csv.gz, .tsv, .parquet, .npy or .npz.

    In a table `id` names the id column and `features` the feature columns (default: all others). In an
    npz they name arrays (default: `features`, or the only array there is). An npy file is the features,
    memory-mapped.
    """
    path = Path(path)
    if not path.is_file():
        raise TableError(f"{path}: no such file")
    wanted = [features] if isinstance(features, str) else None if features is None else list(features)
    endings = [ending.lower() for ending in path.suffixes]
    kind = endings[-2] if len(endings) > 1 and endings[-1] == ".gz" else (endings or [""])[-1]
    if kind in (".csv", ".tsv"):
        return _read_csv(path, id, wanted, "\t" if kind == ".tsv" else ",")
    if kind in (".parquet", ".pq"):
        return _read_parquet(path, id, wanted)
    if kind == ".npy":
        return _read_npy(path, id, wanted)
    if kind == ".npz":
        return _read_npz(path, id, wanted)
    raise TableError(
        f"{path}: cannot tell its format; known endings are .csv, .csv.gz, .tsv, .parquet, .npy, .npz"
    )


def _columns(path: Path, present: list[str], id: str | None, features: list[str] | None) -> list[str]:
    """The feature columns to read, all of them (and the id) known to be there."""
    repeated = sorted({name for name in present if present.count(name) > 1})
    if repeated:
        raise TableError(f"{path}: column {repeated[0]!r} appears more than once")
    wanted = [name for name in present if name != id] if features is None else features
    missing = [name for name in ([id] if id is not None else []) + wanted if name not in present]
    if missing:
        raise TableError(f"{path}: no column {missing[0]!r}; the file has {', '.join(map(repr, present))}")
    if not wanted:
        raise TableError(f"{path}: no feature column")
    return wanted


def _read_csv(path: Path, id: str | None, features: list[str] | None, delimiter: str) -> Table:
    def opened() -> AbstractContextManager[IO[str]]:
        if path.suffix.lower() == ".gz":
            return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
        return open(path, encoding="utf-8-sig", newline="")

    values: list[list[float]] = []
    ids: list[str] = []
    try:
        with opened() as stream:
            rows = csv.reader(stream, delimiter=delimiter)
            header = next(rows, None)
            if not header:
                raise TableError(f"{path}: the file is empty")
            names = _columns(path, header, id, features)
            places = [header.index(name) for name in names]
            id_place = header.index(id) if id is not None else -1
            for row in rows:
                if not row:
                    continue
                if len(row) != len(header):
                    raise TableError(
                        f"{path}: line {rows.line_num} has {len(row)} cells, the header has {len(header)}"
                    )
                values.append(_numbers(path, row, places, names, len(values)))
                if id_place >= 0:
                    ids.append(row[id_place])
    except (UnicodeDecodeError, csv.Error, gzip.BadGzipFile, EOFError) as problem:
        raise TableError(f"{path}: not a readable text table: {problem}") from None
    if not values:
        raise TableError(f"{path}: a header but no rows")
    return Table(np.array(values), ids if id is not None else None, names)


def _numbers(path: Path, row: list[str], places: list[int], names: list[str], index: int) -> list[float]:
    try:
        return [float(row[place]) for place in places]
    except ValueError:
        for place, name in zip(places, names, strict=True):
            try:
                float(row[place])
            except ValueError:
                cell = row[place]
                raise TableError(f"{path}: row {index}, column {name!r}: {cell!r} is not a number") from None
        raise


def _read_parquet(path: Path, id: str | None, features: list[str] | None) -> Table:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError("pyarrow", "parquet", "a Parquet file as a pool") from None
    try:
        names = _columns(path, pq.read_schema(path).names, id, features)
        table = pq.read_table(path, columns=names + ([id] if id is not None and id not in names else []))
    except pa.ArrowInvalid as problem:
        raise TableError(f"{path}: not a readable Parquet file: {problem}") from None
    if table.num_rows == 0:
        raise TableError(f"{path}: no rows")
    types = [table.schema.field(name).type for name in names]
    single = all(pa.types.is_float32(kind) for kind in types)
    matrix = np.empty((table.num_rows, len(names)), dtype=np.float32 if single else np.float64)
    for j, (name, kind) in enumerate(zip(names, types, strict=True)):
        column = table.column(name)
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
            first = column[0].as_py()
            raise TableError(
                f"{path}: row 0, column {name!r}: {first!r} is not a number (the column holds {kind})"
            )
        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy())[0])
            raise TableError(f"{path}: row {row}, column {name!r}: the cell is empty")
        matrix[:, j] = column.to_numpy()
    return Table(matrix, table.column(id).to_pylist() if id is not None else None, names)


def _read_npy(path: Path, id: str | None, features: list[str] | None) -> Table:
    if id is not None or features is not None:
        raise TableError(f"{path}: an npy file holds one unnamed array; leave out id and features")
    try:
        return Table(np.load(path, mmap_mode="r", allow_pickle=False), None, None)
    except (ValueError, EOFError, OSError) as problem:
        raise TableError(f"{path}: not a readable npy file: {problem}") from None


def _read_npz(path: Path, id: str | None, features: list[str] | None) -> Table:
    try:
        with np.load(path, allow_pickle=False) as archive:
            present = list(archive.files)
            others = [name for name in present if name != id]
            default = ["features"] if "features" in present else others
            wanted = features if features is not None else default
            if len(wanted) != 1:
                raise TableError(f"{path}: say which array holds the features; the file has {present}")
            missing = [name for name in (*wanted, *([id] if id is not None else [])) if name not in present]
            if missing:
                raise TableError(f"{path}: no array {missing[0]!r}; the file has {present}")
            return Table(archive[wanted[0]], archive[id].tolist() if id is not None else None, None)
    except TableError:
        raise
    except Exception as problem:  # zipfile, zlib and numpy each raise their own kinds for a damaged archive
        raise TableError(f"{path}: not a readable npz file: {problem}") from None

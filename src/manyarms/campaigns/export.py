"""Write the history of a campaign to a CSV, TSV, Excel or Parquet file."""

from __future__ import annotations

import csv
from dataclasses import asdict, fields
from pathlib import Path

from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.pool_file.files import is_parquet, replacing
from manyarms.campaigns.queries import HistoryRow, history
from manyarms.errors import MissingExtraError, OutputError
from manyarms.pool.excel import is_workbook, write_sheet
from manyarms.pool.text_format import is_text_table


def export(campaign: Campaign, path: Path) -> int:
    """Write every recorded result in the format of the file's ending; returns the number of rows."""
    rows = history(campaign)
    names = [each.name for each in fields(HistoryRow)]
    if is_parquet(path):
        _export_parquet(path, names, rows)
    elif is_workbook(path):
        with replacing(path, "wb") as stream:
            write_sheet(stream, names, (list(asdict(each).values()) for each in rows))
    elif is_text_table(path) and path.suffix.lower() != ".gz":
        with replacing(path) as stream:
            writer = csv.writer(stream, delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
            writer.writerow(names)
            writer.writerows(
                ["" if cell is None else cell for cell in asdict(each).values()] for each in rows
            )
    else:
        raise OutputError(
            f"{path}: unknown file format; the supported endings are .csv, .tsv, .xlsx and .parquet"
        )
    return len(rows)


def _export_parquet(path: Path, names: list[str], rows: list[HistoryRow]) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError("pyarrow", "parquet", "a Parquet file") from None
    types = [
        pa.int64(), pa.int64(), pa.string(), pa.float64(), pa.bool_(), pa.string(),
        *4 * [pa.float64()], pa.int64(), pa.string(), pa.string(),
    ]  # fmt: skip
    schema = pa.schema(list(zip(names, types, strict=True)))
    table = pa.Table.from_pylist([asdict(each) for each in rows], schema=schema)
    with replacing(path, "wb") as stream:
        pq.write_table(table, stream)

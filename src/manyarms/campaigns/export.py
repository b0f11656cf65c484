"""Write the history of a campaign to a CSV, TSV, Excel or Parquet file, which is also a results file."""

from __future__ import annotations

import csv
from dataclasses import asdict
from pathlib import Path
from typing import Any

from manyarms.campaigns.access import CampaignAccess
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.local import LocalCampaign
from manyarms.campaigns.pool_file.files import is_parquet
from manyarms.campaigns.queries import HistoryRow
from manyarms.campaigns.results_file import EXPORTED_FROM, export_mark
from manyarms.campaigns.spreadsheet_cells import as_text_cell
from manyarms.errors import MissingExtraError, OutputError
from manyarms.pool.excel import is_workbook, write_sheet
from manyarms.pool.text_format import is_text_table
from manyarms.support.output_files import check_writable, replacing


def export(campaign: CampaignAccess | Campaign, path: Path, force: bool = False) -> int:
    """Write every recorded result in the format of the file's ending; returns the number of rows.

    An existing file is replaced only with `force`; the table of candidates and databases never are.
    """
    campaign = LocalCampaign(campaign) if isinstance(campaign, Campaign) else campaign
    check_writable(path, force=force, never=campaign.never_overwritten)
    mark = export_mark(campaign.form.identity)
    rows = [{**shown_row(each), EXPORTED_FROM: mark} for each in campaign.history()]
    safe: dict[str, Any] = {"force": force, "never": campaign.never_overwritten}
    if is_parquet(path):
        _export_parquet(path, rows, safe)
    elif is_workbook(path):
        with replacing(path, "wb", **safe) as stream:
            write_sheet(stream, list(_TYPES), ([each[name] for name in _TYPES] for each in rows))
    elif is_text_table(path) and path.suffix.lower() != ".gz":
        with replacing(path, **safe) as stream:
            writer = csv.writer(stream, delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
            writer.writerow(_TYPES)
            writer.writerows(
                ["" if cell is None else as_text_cell(cell) for cell in each.values()] for each in rows
            )
    else:
        raise OutputError(
            f"{path}: unknown file format; the supported endings are .csv, .tsv, .xlsx and .parquet"
        )
    return len(rows)


def shown_row(row: HistoryRow) -> dict[str, Any]:
    """The row as files and tables show it: the ticket by its name."""
    plain = asdict(row)
    plain["ticket"] = plain.pop("code")
    return plain


_TYPES = {
    "number": "int64", "ticket": "string", "id": "string", "value": "float64", "failed": "bool_",
    "note": "string", "noise_std": "float64", "replicates": "int64",
    "predicted": "float64", "predicted_std": "float64", "predicted_lower": "float64",
    "predicted_upper": "float64", "batch": "int64", "reason": "string", "told_at": "string",
    EXPORTED_FROM: "string",
}  # fmt: skip


def _export_parquet(path: Path, rows: list[dict[str, Any]], safe: dict[str, Any]) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError("pyarrow", "parquet", "a Parquet file") from None
    schema = pa.schema([(name, getattr(pa, kind)()) for name, kind in _TYPES.items()])
    table = pa.Table.from_pylist(rows, schema=schema)
    with replacing(path, "wb", **safe) as stream:
        pq.write_table(table, stream)

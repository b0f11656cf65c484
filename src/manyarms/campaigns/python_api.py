"""`ma.Campaign`: a campaign for Python programs, with data frames of the user's own library.

It is a thin layer over `campaigns/campaign.py`, which the command line uses. Batches, histories and rankings
are pandas or polars frames, or dicts of lists for users of neither. Candidates are named by their ids.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

from manyarms.campaigns import campaign as durable
from manyarms.campaigns.access import CampaignAccess, Eligible
from manyarms.campaigns.batch_file import batch_lines
from manyarms.campaigns.chart_view import campaign_view
from manyarms.campaigns.import_plan import ImportSummary
from manyarms.campaigns.local import LocalCampaign
from manyarms.campaigns.orders import Issued
from manyarms.campaigns.results_file import NOISE_COLUMNS, reported
from manyarms.campaigns.settings import Request, read_request
from manyarms.campaigns.store.database import address
from manyarms.errors import (
    InvalidParameterError,
    MissingExtraError,
    ResultsFileError,
    ServiceError,
    TableError,
    shown,
)
from manyarms.plots.view import RunView
from manyarms.pool.frames import is_frame

LIBRARIES = ("pandas", "polars")


class Campaign:
    """A search on a table of candidates, kept in a database. Use it in a `with` block, or call `close`.

    `frames` names the library of the frames that are returned, "pandas" or "polars"; None returns dicts of
    lists. A campaign that is created from a frame uses the library of that frame.
    """

    def __init__(
        self,
        campaign: str | Path,
        *,
        pool: str | Path | None = None,
        frames: str | None = None,
        engine: str | None = None,
    ) -> None:
        """Open a campaign. `pool` is the path of its table, if the file has moved.

        `engine` replaces the engine that the campaign was created with (docs/scale.md).
        """
        self._frames = _checked_library(frames)
        self._inner: CampaignAccess = LocalCampaign(campaign, pool=pool, engine=engine)

    @classmethod
    def over(cls, access: CampaignAccess, frames: str | None = None) -> Campaign:
        """The same methods for a campaign that is somewhere else; see `ma.connect`."""
        made = cls.__new__(cls)
        made._frames, made._inner = _checked_library(frames), access
        return made

    @classmethod
    def new(
        cls,
        campaign: str | Path,
        pool: Any,
        *,
        id: str | None = None,
        frames: str | None = None,
        **settings: Any,
    ) -> Campaign:
        """Create a campaign on a table of candidates: the path of a file, or a pandas or polars frame.

        A frame is written to a file NAME.pool.csv next to the campaign. `settings` are those of
        `manyarms new`, such as `goal="minimise"`, `budget=200` or `categories=["solvent"]`.
        """
        _checked_library(frames)
        written = None
        if is_frame(pool):
            frames = frames or _library_of(pool)
            file = address(campaign).file
            written = (
                Path(f"{address(campaign).name}.pool.csv") if file is None else file.with_suffix(".pool.csv")
            )
            _write_frame(pool, written)
        try:
            request = _request({"pool": str(written or pool), "id": id, **settings})
            durable.Campaign.new(campaign, request).close()
        except BaseException:
            if written is not None:
                written.unlink(missing_ok=True)
            raise
        return cls(campaign, frames=frames)

    def close(self) -> None:
        """Close the database connection."""
        self._inner.close()

    def __enter__(self) -> Campaign:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ------------------------------------------------------------------ asking and telling

    def ask(
        self,
        n: int | None = None,
        *,
        at_most: int | None = None,
        eligible: Any = None,
        same: str | None = None,
        at_most_each: Mapping[str, int] | None = None,
        worker: str | None = None,
        lease: float | None = None,
        explain: bool = False,
        max_cost: float | None = None,
        per_cost: bool | None = None,
    ) -> Any:
        """The next candidates, one row each: ticket, id, columns of the table, prediction, and `value`.

        n: ask for exactly n candidates. Without n, the stopping rule decides, limited to `at_most`.
        eligible: a condition on the columns, such as "price < 30", or the ids to choose from.
        same: a column in which all candidates of the batch have the same value, such as "temperature".
        at_most_each: for columns, how many candidates of the batch may share a value: {"supplier": 8}.
        worker, lease: who measures them, and the seconds after which tickets without a result are forgotten.
        max_cost: what the batch may cost at most, in a campaign with costs.
        per_cost: whether it is chosen by value per cost; None: as the campaign's settings say.
        explain: two more columns, `nearest_measured` and `speaks_for_it`, say why; `explain` says more.
        """
        condition = eligible if isinstance(eligible, str) else None
        listed = None if condition is not None or eligible is None else eligible
        ids = None if listed is None else {str(each): "eligible: " for each in listed}
        limit = Eligible(condition, ids, same, tuple((at_most_each or {}).items()), max_cost, per_cost)
        issued = self._inner.ask(
            n, at_most=at_most, eligible=limit, worker=worker, lease_seconds=lease, explain=explain
        )
        return self._batch(issued)

    def open_tickets(self) -> Any:
        """The tickets without a result, as `ask` returned them."""
        return self._batch(self._inner.open_tickets())

    def _batch(self, issued: list[Issued]) -> Any:
        form = self._inner.form
        lines, numeric = batch_lines(issued, form.id_column), {*form.numeric}
        lines = [{name: _typed(name, cell, numeric) for name, cell in line.items()} for line in lines]
        empty = ["ticket", form.id_column, "predicted_mean", "predicted_sd", "reason", "value"]
        return self._framed(lines, empty)

    def tell(
        self,
        results: Any = None,
        values: Iterable[Any] | None = None,
        *,
        ids: Iterable[Any] | None = None,
        tickets: Iterable[Any] | None = None,
        failed: Iterable[Any] | None = None,
        noise_std: Iterable[Any] | None = None,
        replicates: Iterable[Any] | None = None,
    ) -> ImportSummary:
        """Record results; if one of them is invalid, nothing is recorded.

        results: a frame or a mapping of columns: `value`, with `ticket`, the id column or both, and
            optionally `failed`, `noise_std` and `replicates`. A completed batch of `ask` is such a frame. A
            row without a value is skipped. With `values`, the tickets: `tell(tickets, values)`.
        ids, tickets, values, failed, noise_std, replicates: the same as separate arrays. `noise_std` is the
            standard deviation of the noise of a value, and `replicates` the number of measurements that it is
            the mean of (docs/noise.md).

        A result of a ticket that is told again changes nothing. A result by id alone answers the oldest open
        ticket of the candidate, and is a further measurement if there is none.
        """
        id_column = self._inner.form.id_column
        if results is not None and values is not None and tickets is None and not _is_table(results):
            tickets, results = results, None
        given = {"ticket": tickets, id_column: ids, "value": values, "failed": failed,
                 "noise_std": noise_std, "replicates": replicates}  # fmt: skip
        columns = {name: list(column) for name, column in given.items() if column is not None}
        if results is not None:
            if columns:
                raise InvalidParameterError("results", "a table", "given without ids, tickets and values")
            columns = _columns_of(results)
        own = () if results is None else self._inner.form.columns
        said = ["value", "failed", *(name for name in NOISE_COLUMNS if name not in own)]
        known = {name: columns[name] for name in ("ticket", id_column, *said) if name in columns}
        if "value" not in known or len(known.keys() - set(said)) == 0:
            raise ResultsFileError(
                f"results need 'value' and 'ticket' or {id_column!r}, got the columns {shown(list(columns))}"
            )
        if len({len(column) for column in known.values()}) > 1:
            sizes = {name: len(column) for name, column in known.items()}
            raise ResultsFileError(f"the columns of the results differ in length: {sizes}")
        rows = [
            {name: _text(cell) for name, cell in zip(known, cells, strict=True)}
            for cells in zip(*known.values(), strict=True)
        ]
        return self._inner.tell_rows(reported(rows, id_column))

    def forget(self, tickets: Iterable[Any]) -> None:
        """Cancel open tickets, so that their candidates may be asked for again."""
        self._inner.forget([str(ticket) for ticket in tickets])

    # ------------------------------------------------------------------ candidates

    def add(self, path: str | Path, **form: str | None) -> int:
        """Add the candidates of a further file with the same columns; returns how many there are."""
        return self._inner.add(Path(path), **form)[0]

    def exclude(self, ids: Iterable[Any], note: str | None = None) -> int:
        """Never ask for these candidates again; returns how many were not excluded before."""
        return self._inner.exclude([str(each) for each in ids], note)[0]

    def readmit(self, ids: Iterable[Any]) -> int:
        """Undo the exclusion of these candidates."""
        return self._inner.readmit([str(each) for each in ids])[0]

    # ------------------------------------------------------------------ looking

    def best(self, k: int = 20, everywhere: bool = False) -> Any:
        """The k candidates with the best model mean, of those measured or, with `everywhere`, of all."""
        form = self._inner.form
        id_column, numeric = form.id_column, {*form.numeric}
        names = ("rank", id_column, "mean", "sd", "measurements", "average")
        rows = []
        for row in self._inner.best(k, everywhere):
            own = {name: _number(cell) if name in numeric else cell for name, cell in row.columns.items()}
            found = (row.rank, row.id, row.mean, row.std, row.pulls, row.average)
            renamed = {f"pool.{name}" if name in names else name: cell for name, cell in own.items()}
            rows.append({**dict(zip(names, found, strict=True)), **renamed})
        return self._framed(rows, [])

    def explain(self, ids: Iterable[Any]) -> list[dict[str, Any]]:
        """Why these candidates, of which no one needs to have been handed out: one dict for each.

        It has the prediction, the nearest measured candidates with their averages, and what each column
        contributes (docs/why-this-candidate.md).
        """
        return self._inner.explain([str(each) for each in ids])

    def history(self) -> Any:
        """Every recorded result, in the order of recording."""
        rows = [asdict(row) for row in self._inner.history()]
        return self._framed(rows, ["number", "ticket", "id", "value", "failed"])

    def chart_view(self) -> RunView:
        """What the charts of `manyarms.plots` show of this campaign."""
        if not isinstance(self._inner, LocalCampaign):
            raise ServiceError(
                "charts need the model, which stays with the service: use `manyarms report URL`"
            )
        return campaign_view(self._inner.inner)

    def status(self, certify: bool = False) -> dict[str, Any]:
        """Settings, counts, the learned model, the certificate, the expected gain and the assumptions.

        The certificate and the expected gain are those of the last ask or, with `certify`, computed from
        every result.
        """
        return self._inner.status(certify)

    def _framed(self, rows: Sequence[Mapping[str, Any]], empty: Sequence[str]) -> Any:
        names = list(rows[0]) if rows else list(empty)
        columns = {name: [row[name] for row in rows] for name in names}
        if self._frames is None:
            return columns
        return _narwhals().from_dict(columns, backend=self._frames).to_native()


def _request(settings: Mapping[str, Any]) -> Request:
    return read_request(None, {name: value for name, value in settings.items() if value is not None})


def _checked_library(frames: str | None) -> str | None:
    if frames not in (None, *LIBRARIES):
        raise InvalidParameterError("frames", frames, "'pandas', 'polars' or None")
    return frames


def _narwhals() -> Any:
    try:
        import narwhals as nw
    except ImportError:
        raise MissingExtraError("narwhals", "frames", "a data frame") from None
    return nw


def _library_of(frame: Any) -> str:
    name = type(frame).__module__.partition(".")[0]
    if name not in LIBRARIES:
        raise InvalidParameterError("pool", type(frame).__name__, "a path, or a pandas or polars frame")
    return name


def _write_frame(frame: Any, path: Path) -> None:
    """Write a frame as a CSV file, which must not exist."""
    table = _narwhals().from_native(frame, eager_only=True)
    try:
        with open(path, "x", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(table.columns)
            writer.writerows([_text(cell) for cell in row] for row in table.iter_rows())
    except FileExistsError:
        raise TableError(f"{path}: the file already exists, and candidates never overwrite a file") from None
    except OSError as problem:
        raise TableError(f"{path}: {problem.strerror}") from None


def _is_table(results: Any) -> bool:
    return is_frame(results) or isinstance(results, Mapping)


def _columns_of(results: Any) -> dict[str, list[Any]]:
    if is_frame(results):
        table = _narwhals().from_native(results, eager_only=True)
        return {name: table[name].to_list() for name in table.columns}
    if isinstance(results, Mapping):
        return {str(name): list(column) for name, column in results.items()}
    raise InvalidParameterError("results", type(results).__name__, "a frame or a mapping of columns")


def _text(cell: Any) -> str:
    """A cell as text: nothing for a missing one, all digits of a number, ISO dates."""
    if (
        cell is None
        or (isinstance(cell, float) and math.isnan(cell))
        or type(cell).__name__ in ("NaTType", "NAType")
    ):
        return ""
    if isinstance(cell, bool) or type(cell).__name__ in ("bool", "bool_"):
        return str(bool(cell)).lower()
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() and abs(cell) < 1e15 else repr(float(cell))
    return cell.isoformat() if hasattr(cell, "isoformat") else str(cell)


def _typed(name: str, cell: Any, numeric: set[str]) -> Any:
    """A cell of a batch: a number in a numeric column, NaN for what is not known yet, such as `value`."""
    if name == "value" or cell is None:
        return math.nan
    return _number(cell) if name in numeric or name.removeprefix("pool.") in numeric else cell


def _number(cell: str) -> float:
    """The number in a cell, NaN where it is missing."""
    try:
        return float(cell)
    except ValueError:
        return math.nan

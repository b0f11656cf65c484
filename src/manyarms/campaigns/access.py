"""What a command or a Python program does with a campaign, wherever the campaign is.

`LocalCampaign` does it on the database; the client of the service does it over HTTP. The commands, `run` and
`ma.Campaign` are written once, for both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from manyarms.campaigns.file_versions import Mode
from manyarms.campaigns.import_plan import ImportSummary
from manyarms.campaigns.orders import Deliver, Issued
from manyarms.campaigns.queries import CorrectionRow, HistoryRow
from manyarms.campaigns.report.values import TopRow
from manyarms.campaigns.results_file import ReportedResult
from manyarms.campaigns.store.corrections import Change


@dataclass(frozen=True)
class TableForm:
    """What the names in a batch file or a results file refer to."""

    id: str | None  # the id column; None: the row number is the id
    columns: tuple[str, ...]  # the columns of the table of candidates
    numeric: tuple[str, ...]  # those that hold numbers
    identity: str  # of the campaign, which its exports carry
    sign: float  # 1 if larger values are better, otherwise -1
    budget: int | None

    @property
    def id_column(self) -> str:
        """The name of the id column in batch files and results files."""
        return self.id or "id"


@dataclass(frozen=True)
class Eligible:
    """Which candidates an ask may choose, and which together.

    A condition on the columns, and ids; None: no limit. Each id maps to the place that the error names if it
    is unknown. All candidates of the batch have the same value in the column `same`, and at most so many
    share a value of a column in `at_most`. The batch costs at most `max_cost`, and is chosen by value per
    cost with `per_cost` (None: as the settings of the campaign say).
    """

    condition: str | None = None
    ids: Mapping[str, str] | None = None
    same: str | None = None
    at_most: tuple[tuple[str, int], ...] = ()
    max_cost: float | None = None
    per_cost: bool | None = None


class CampaignAccess(Protocol):
    """A campaign, in a database or behind a service."""

    @property
    def name(self) -> str:
        """The name of the campaign."""

    @property
    def form(self) -> TableForm:
        """The columns of the table, and how results are judged."""

    @property
    def never_overwritten(self) -> tuple[Path, ...]:
        """The tables of candidates on this machine, which no output file may replace."""

    def close(self) -> None:
        """Close the connection."""

    def ask(
        self,
        n: int | None = None,
        *,
        at_most: int | None = None,
        worker: str | None = None,
        lease_seconds: float | None = None,
        until_gap: float | None = None,
        deliver: Deliver | None = None,
        eligible: Eligible | None = None,
        until_gain: float | None = None,
        explain: bool = False,
    ) -> list[Issued]:
        """Hand out the next batch. If `deliver` fails with it, nothing stays handed out."""

    def open_tickets(self) -> list[Issued]:
        """All open tickets, as they were handed out."""

    def tell(self, outcomes: Sequence[ReportedResult]) -> ImportSummary:
        """Record results of tickets that workers have measured."""

    def tell_rows(self, rows: Sequence[ReportedResult]) -> ImportSummary:
        """Record results atomically, by ticket or by id; a row without a value is skipped."""

    def tell_bytes(self, data: bytes, name: str, mode: Mode = Mode.ASK) -> ImportSummary:
        """Import the contents of a results file called `name`."""

    def correct(
        self,
        rows: Sequence[ReportedResult],
        was: Sequence[float | str | None] | None = None,
        *,
        why: str | None = None,
        who: str | None = None,
        remove: bool = False,
    ) -> list[Change]:
        """Correct the results that these rows name, all or none, or with `remove`, remove them."""

    def forget(
        self, tickets: Sequence[str] = (), batch: int | None = None, all_open: bool = False
    ) -> list[int]:
        """Cancel open tickets; returns their numbers."""

    def add(self, path: Path, **form: str | None) -> tuple[int, int]:
        """Add the candidates of a further table; returns how many, and how many there are now."""

    def exclude(self, ids: Sequence[str], note: str | None = None) -> tuple[int, list[str]]:
        """Never ask for these candidates again; returns how many are new, and all that are excluded."""

    def readmit(self, ids: Sequence[str]) -> tuple[int, list[str]]:
        """Undo the exclusion of these candidates; returns how many, and all that are still excluded."""

    def status(self, certify: bool = False) -> dict[str, Any]:
        """Settings, counts, the learned model, the certificate and the assumptions."""

    def best(self, k: int = 20, everywhere: bool = False) -> list[TopRow]:
        """The candidates with the best model mean."""

    def explain(self, ids: Sequence[str]) -> list[dict[str, Any]]:
        """Why these candidates: predictions, nearest measured candidates, and what columns contribute."""

    def history(self) -> list[HistoryRow]:
        """Every recorded result, in the order of recording."""

    def corrections(self) -> list[CorrectionRow]:
        """Every correction, in the order in which they were made."""

    def report(self, k: int = 20, optimum: float | None = None) -> tuple[str, Any]:
        """The report as an HTML page, and its contents."""

    # ------------------------------------------------------------------ for workers

    def adopt(
        self, worker: str, seconds: float, is_abandoned: Callable[[Any], bool], at_most: int | None
    ) -> list[Issued]:
        """Tickets of runs that have ended, which this worker now holds."""

    def renew(self, tickets: Sequence[int], worker: str, seconds: float) -> None:
        """Extend the lease of these tickets."""

    def give_up(self, tickets: Collection[int], worker: str) -> None:
        """Forget those of these tickets that are open and still held by this worker."""

    def leave(self, tickets: Collection[int], worker: str) -> None:
        """The worker ends while it holds these tickets."""

    def budget_left(self) -> int | None:
        """The number of tickets that may still be handed out; None: no limit."""

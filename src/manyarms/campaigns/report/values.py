"""The contents of a report: plain values in the user's units and sign, and the model behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from manyarms.plots.view import BatchLine, Measurement, ModelView, RunView, checked_optimum


@dataclass(frozen=True)
class TopRow:
    """One of the candidates with the best model mean; `columns` are the user's own, as text."""

    rank: int
    id: str
    mean: float
    std: float
    pulls: int
    average: float
    columns: dict[str, str]


@dataclass(frozen=True)
class CampaignReport:
    """Everything the page shows. Measurements are in the order of recording.

    `optimum` is the best true value, if it is known. `model` and `present` (the mean of the best candidate
    and its interval) are None before there are results, and so are the gap of the certificate and the
    expected gains of further measurements (`campaigns/outlook.py`).
    """

    title: str
    goal: str
    facts: list[tuple[str, str]]
    measurements: list[Measurement]
    batches: list[BatchLine]
    top: list[TopRow]
    optimum: float | None = None
    model: ModelView | None = None
    present: tuple[float, float, float] | None = None
    gap: float | None = None
    expected: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        checked_optimum(self.optimum)
        self.view()  # checks the goal

    def view(self) -> RunView:
        """The report as the charts show it."""
        return RunView(
            self.title, self.goal, self.measurements, self.batches, lambda: self.model, self.present
        )

"""The contents of a report: plain values in the user's units and sign."""

from __future__ import annotations

import math
from dataclasses import dataclass

from manyarms.errors import InvalidParameterError

GOALS = ("maximise", "minimise")


@dataclass(frozen=True)
class Measurement:
    """One recorded result; `predicted` is the prediction made when the candidate was handed out."""

    number: int
    id: str
    value: float | None
    failed: bool
    predicted: float | None
    predicted_lower: float | None  # lower and upper end of the 90 % prediction interval of a measured value
    predicted_upper: float | None
    batch: int | None


@dataclass(frozen=True)
class BatchLine:
    """One batch, with the interval of the model's best candidate at the time of the ask."""

    number: int
    size: int
    ended_because: str
    ratio: float
    dictionary_size: int
    seconds: float
    asked_at: str
    best_mean: float | None
    best_lower: float | None
    best_upper: float | None


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

    `optimum` is the best true value, if it is known.
    """

    title: str
    goal: str
    facts: list[tuple[str, str]]
    measurements: list[Measurement]
    batches: list[BatchLine]
    top: list[TopRow]
    optimum: float | None = None

    def __post_init__(self) -> None:
        if self.goal not in GOALS:
            raise InvalidParameterError("goal", self.goal, " or ".join(map(repr, GOALS)))
        if self.optimum is not None and not math.isfinite(self.optimum):
            raise InvalidParameterError("optimum", self.optimum, "a finite number or None")

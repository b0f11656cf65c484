"""What the charts show: one view of a run, whichever object it comes from.

An `Optimizer`, a `Result` of `maximize` and a campaign are all turned into a `RunView` (`sources.py`). All
values are in the user's units and sign.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from manyarms.errors import InvalidParameterError
from manyarms.pool.columns import Column
from manyarms.pool.pool import Pool
from manyarms.run.optimizer import Optimizer
from manyarms.run.reward_scale import RewardScale
from manyarms.support.validation import Floats, Ints

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
class ModelView:
    """The model with every result used.

    `pool` has the user's features; the pool of `run` may have been encoded for the model. `run` may also use
    rewards in other units than the user's; `to_user` converts them. `columns` are the columns of the user's
    table, and `pending` the arms whose results are awaited.
    """

    run: Optimizer
    pool: Pool
    columns: tuple[Column, ...]
    pending: Ints
    to_user: Callable[[Floats], Floats]

    @property
    def scale(self) -> RewardScale:
        """The conversion of model values to rewards of the run."""
        return RewardScale(self.run.model, self.run.context.sign)

    def interval(self, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
        """An interval of rewards of the run, in the user's units and with the smaller end first."""
        ends = self.to_user(lower), self.to_user(upper)
        return (ends[0], ends[1]) if bool((ends[0] <= ends[1]).all()) else (ends[1], ends[0])

    def model_interval(self, mean: Floats, std: Floats, width: float) -> tuple[Floats, Floats, Floats]:
        """Mean and interval of model values, mean ± width·std, in the user's units."""
        scale = self.scale
        return self.to_user(scale.rewards(mean)), *self.interval(
            *scale.interval(mean - width * std, mean + width * std)
        )

    def utilities(self) -> Floats:
        """The model's mean of every arm, larger is better, in the units of the run."""
        return self.run.context.sign * self.run.predict()[0]

    def names(self, arms: Ints) -> list[str]:
        """The ids of these arms."""
        return [str(id) for id in self.pool.ids_of(arms)]

    def encoded(self, rows: Any) -> Any:
        """Rows of the user's features as the kernel takes them."""
        prepared = self.run.context.prepared
        return rows if prepared is None else prepared.encode(rows)


@dataclass(frozen=True)
class RunView:
    """Results in the order of recording, batches in the order of asking, and the model.

    `model` is called at the first chart that needs the model, because it can take a while; it returns None if
    there are no results. `present` is the model's mean of its best candidate now, with the ends of its
    interval.
    """

    title: str
    goal: str
    measurements: list[Measurement]
    batches: list[BatchLine]
    model: Callable[[], ModelView | None] = field(default=lambda: None)
    present: tuple[float, float, float] | None = None

    def __post_init__(self) -> None:
        if self.goal not in GOALS:
            raise InvalidParameterError("goal", self.goal, " or ".join(map(repr, GOALS)))


def checked_optimum(optimum: float | None) -> float | None:
    """The best true value, if it is known; it must be finite."""
    if optimum is not None and not math.isfinite(optimum):
        raise InvalidParameterError("optimum", optimum, "a finite number or None")
    return optimum

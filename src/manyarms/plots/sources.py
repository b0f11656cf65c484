"""Make the view that charts show, from an `Optimizer`, a `Result` of `maximize`, or a campaign."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Protocol, runtime_checkable

import numpy as np

from manyarms.errors import InvalidParameterError
from manyarms.plots.view import BatchLine, Measurement, ModelView, RunView
from manyarms.pool.columns import columns_of
from manyarms.pool.pool import Pool
from manyarms.run.feedback import with_feedback
from manyarms.run.maximize import Result
from manyarms.run.optimizer import Optimizer
from manyarms.run.trace import BatchRecord
from manyarms.support.validation import Floats


def _same(rewards: Floats) -> Floats:
    return rewards


@runtime_checkable
class HasChartView(Protocol):
    """An object that knows its own view, such as a campaign."""

    def chart_view(self) -> RunView:
        """What the charts show."""


def view_of(source: Any) -> RunView:
    """The view of an `Optimizer`, a `Result`, a campaign, or a view itself."""
    if isinstance(source, RunView):
        return source
    if isinstance(source, Result):
        source = source.optimizer
    if isinstance(source, Optimizer):
        return _view_of_run(source)
    if isinstance(source, HasChartView):
        return source.chart_view()
    raise InvalidParameterError("source", source, "an Optimizer, a Result of maximize, or a Campaign")


def _view_of_run(run: Optimizer) -> RunView:
    """The view of a run in Python: results by ticket, and after them those that were not asked for.

    The trace holds no predictions, and results that were not asked for are known by their averages only.
    """
    records = run.trace
    measurements = _measured(run, records)
    asked: dict[int, tuple[int, float]] = {}
    for record in records:
        for arm, reward in zip(record.arms.tolist(), record.rewards.tolist(), strict=True):
            if not np.isnan(reward):
                count, total = asked.get(arm, (0, 0.0))
                asked[arm] = count + 1, total + reward
    history = run.history
    for arm, count, total in zip(
        history.arms.tolist(), history.counts.tolist(), history.sums.tolist(), strict=True
    ):
        known, known_total = asked.get(arm, (0, 0.0))
        more = round(count) - known
        value = (total - known_total) / more if more else 0.0
        measurements += [_measurement(run, len(measurements) + 1, arm, value, None) for _ in range(more)]

    @cache
    def model() -> ModelView | None:
        ahead = Optimizer.of(run.context, with_feedback(run.context, run.state))
        return model_view(ahead, ahead.pool) if len(ahead.history) else None

    goal = "minimise" if run.context.minimize else "maximise"
    best = run.best() if len(history) else None
    present = None if best is None else (best.mean, best.lower, best.upper)
    return RunView("Run", goal, measurements, _batches(records), model, present)


def model_view(
    run: Optimizer,
    pool: Pool,
    owners: Sequence[str] | None = None,
    to_user: Callable[[Floats], Floats] = _same,
) -> ModelView:
    """The model of a run that has used all its results.

    `pool` has the user's features, and `owners` names the user's column of each of them.
    """
    pending = np.array(sorted(set(run.pending.values())), dtype=np.int64)
    return ModelView(run, pool, columns_of(pool, run.posterior.kernel, owners), pending, to_user)


def _measured(run: Optimizer, records: list[BatchRecord]) -> list[Measurement]:
    found: list[Measurement] = []
    for batch, record in enumerate(records, 1):
        rows = zip(record.arms.tolist(), record.rewards.tolist(), record.failed.tolist(), strict=True)
        for arm, reward, failed in rows:
            if failed or not np.isnan(reward):
                found.append(_measurement(run, len(found) + 1, arm, None if failed else reward, batch))
    return found


def _measurement(
    run: Optimizer, number: int, arm: int, value: float | None, batch: int | None
) -> Measurement:
    return Measurement(number, str(run.pool.id_of(arm)), value, value is None, None, None, None, batch)


def _batches(records: list[BatchRecord]) -> list[BatchLine]:
    """One line per batch; the trace does not hold what the best arm was at the time."""
    return [
        BatchLine(
            number, len(record.arms), record.ended_because, record.ratio, record.dictionary_size,
            record.seconds, "", None, None, None,
        )
        for number, record in enumerate(records, 1)
    ]  # fmt: skip

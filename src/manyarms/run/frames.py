"""A run as data frames of the user's own library: its trials, candidates, batches and ranking.

`frame_columns` computes the columns as plain lists, without any other library; `Frames.to_frame` hands them
to pandas or polars through narwhals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from manyarms.errors import InvalidParameterError, NoResultsError
from manyarms.pool.frames import to_frame
from manyarms.pool.pool import Pool
from manyarms.posterior.history import History
from manyarms.run.context import RunContext
from manyarms.run.trace import BatchRecord
from manyarms.support.validation import Floats, Ints, count

Columns = dict[str, Any]


class Run(Protocol):
    """What the frames read of an `Optimizer`."""

    @property
    def pool(self) -> Pool:
        """The candidates."""

    @property
    def context(self) -> RunContext:
        """The settings."""

    @property
    def history(self) -> History:
        """All results."""

    @property
    def trace(self) -> list[BatchRecord]:
        """One record per batch."""

    @property
    def pending(self) -> dict[int, int]:
        """The arms of tickets without a result."""

    def predict(self, arms: Any = None) -> tuple[Floats, Floats]:
        """Posterior mean and standard deviation."""


class Frames:
    """The method `to_frame` of a run."""

    def to_frame(self, of: str = "trials", k: int | None = None, *, library: str | None = None) -> Any:
        """The run as a pandas or polars frame.

        of: "trials" (one row per pull that was handed out, with its result), "candidates" (one row per arm,
            with its features, prediction and results), "batches" (the trace: one row per batch), or "best"
            (the pulled arms with the best posterior mean, in this order).
        k: with "best", the number of rows; 10 by default.
        library: "pandas" or "polars". By default that of the frame the pool was made from, otherwise pandas
            if it is installed and polars if not.

        Results that were told without a ticket are not among the trials; candidates include them.
        """
        run: Any = self
        return to_frame(frame_columns(run, of, k), library or run.pool.frame_library)


def frame_columns(run: Run, of: str = "trials", k: int | None = None) -> Columns:
    """The columns of `Frames.to_frame`, as lists and arrays of equal length."""
    tables: dict[str, Callable[[Run], Columns]] = {
        "trials": trials,
        "candidates": candidates,
        "batches": batches,
        "best": lambda run: best(run, count("k", 10 if k is None else k)),
    }
    if of not in tables:
        raise InvalidParameterError("of", of, f"one of {', '.join(map(repr, tables))}")
    if k is not None and of != "best":
        raise InvalidParameterError("k", k, "left out unless the frame is that of the best")
    return tables[of](run)


def trials(run: Run) -> Columns:
    """One row per ticket: where it belongs, why the arm was chosen, and its result."""
    records = run.trace
    sizes = [len(record.arms) for record in records]
    arms = _joined([record.arms for record in records])
    tickets = _joined([record.tickets for record in records])
    failed = np.concatenate([np.empty(0, dtype=bool), *(record.failed for record in records)])
    pending = run.pending
    rewards = np.concatenate([np.empty(0), *(record.rewards for record in records)])
    states = [
        "failed" if lost else "pending" if ticket in pending else "done" if reward == reward else "forgotten"
        for ticket, lost, reward in zip(tickets.tolist(), failed, rewards.tolist(), strict=True)
    ]
    return {
        "ticket": tickets,
        "batch": np.repeat(np.arange(len(sizes)), sizes),
        "arm": arms,
        "id": run.pool.ids_of(arms),
        "why": [why for record in records for why in record.why],
        "state": states,
        "reward": rewards,
        **({} if run.context.costs is None else {"cost": run.context.costs.values[arms]}),
    }


def candidates(run: Run) -> Columns:
    """One row per arm: its features, posterior mean and standard deviation, and its results."""
    return _arms(run, np.arange(run.pool.n_arms))


def best(run: Run, k: int) -> Columns:
    """The k pulled arms with the best posterior mean, the best one first."""
    history = run.history
    if not len(history):
        raise NoResultsError("no result has been recorded yet")
    mean, _ = run.predict(history.arms)
    order = np.argsort(mean if run.context.minimize else -mean, kind="stable")[:k]
    return {"rank": np.arange(1, len(order) + 1), **_arms(run, history.arms[order])}


def batches(run: Run) -> Columns:
    """One row per batch, with what the trace records about it."""
    records = run.trace
    columns: Columns = {"batch": np.arange(len(records)), "size": [len(record.arms) for record in records]}
    for name in ("dictionary_size", "width", "effective_dimension", "ratio", "seconds", "ended_because"):
        columns[name] = [getattr(record, name) for record in records]
    columns["results"] = [int((~np.isnan(record.rewards)).sum()) for record in records]
    columns["failed"] = [int(record.failed.sum()) for record in records]
    return columns


def _arms(run: Run, arms: Ints) -> Columns:
    """Features, prediction and results of some arms."""
    history, pool = run.history, run.pool
    mean, std = run.predict(arms)
    counts, sums = np.zeros(pool.n_arms, dtype=np.int64), np.zeros(pool.n_arms)
    counts[history.arms], sums[history.arms] = history.counts.astype(np.int64), history.sums
    with np.errstate(invalid="ignore"):
        average = sums[arms] / counts[arms]
    return {
        "arm": arms,
        "id": pool.ids_of(arms),
        **_features(pool, arms),
        "mean": mean,
        "std": std,
        "pulls": counts[arms],
        "average": average,
    }


def _features(pool: Pool, arms: Ints) -> Columns:
    """A column per feature; packed bits and objects are one column, or left out where there are no names."""
    if pool.names is None or pool.features.ndim != 2:
        return {}
    taken = {"arm", "id", "mean", "std", "pulls", "average", "rank"}
    rows = pool.take(arms)
    return {
        f"feature {name}" if name in taken else name: rows[:, j].tolist()
        if rows.dtype == object
        else rows[:, j]
        for j, name in enumerate(pool.names)
    }


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate([np.empty(0, dtype=np.int64), *parts])

"""Why a candidate: its prediction, the measured arms that are most like it, and what its columns contribute.

Neighbours are those of the kernel in use, so that they exist for molecules, words and objects, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from manyarms.embeddings.nystrom import covariances
from manyarms.pool.pool import Pool
from manyarms.posterior.history import History
from manyarms.run.belief import Belief
from manyarms.run.column_effects import ColumnEffect, column_effects
from manyarms.run.columns import columns_of
from manyarms.run.context import RunContext
from manyarms.run.failing import predicted_success, success_model
from manyarms.run.reward_scale import RewardScale
from manyarms.run.state import RunState
from manyarms.support.threads import threads_for
from manyarms.support.validation import Floats, Ints

SHARE = 0.9  # the probability of a prediction interval


@dataclass(frozen=True)
class Neighbour:
    """A measured arm, its correlation with the explained one under the kernel in use, and its results."""

    arm: int
    id: Any
    correlation: float
    average: float
    pulls: int


@dataclass(frozen=True)
class Explanation:
    """Why an arm: all figures are in reward units, with the user's sign.

    mean, std: as `Optimizer.predict` gives them.
    lower, upper: the ends of the 90 % prediction interval of a new measurement, noise included.
    why: what chose the arm when it was last handed out (`Batch.why`); None if it never was.
    pulls, average: its own results; the average is None without any.
    failures: how often its trials have failed.
    success: the predicted probability that a trial of it succeeds; None as long as no trial has failed, and
        where failures are not learned from.
    best: the id of the best arm found, which columns are compared with; None without results.
    neighbours: the measured arms with the highest correlation, without the arm itself.
    columns: the columns that change the prediction, those first that speak most for the arm. There are none
        where candidates are compared as a whole, such as molecules or words.
    """

    arm: int
    id: Any
    mean: float
    std: float
    lower: float
    upper: float
    why: str | None
    pulls: int
    average: float | None
    best: Any
    neighbours: tuple[Neighbour, ...]
    columns: tuple[ColumnEffect, ...]
    failures: int = 0
    success: float | None = None


def explained(
    context: RunContext,
    state: RunState,
    arms: Ints,
    neighbours: int = 3,
    *,
    pool: Pool | None = None,
    owners: Sequence[str] | None = None,
) -> list[Explanation]:
    """An explanation of each of these arms, by a state that has used every result.

    `pool` has the user's features, by default that of the context; `owners` names the user's column of each.
    """
    if not len(arms):
        return []
    with threads_for(context.pool.n_arms):
        measured = _Measured.of(context, state)
        near = [() for _ in arms] if measured is None else measured.neighbours(arms, neighbours)
        effects: list[tuple[ColumnEffect, ...]] = [() for _ in arms]
        if measured is not None:
            known = context.pool if pool is None else pool
            columns = columns_of(known, state.belief.process.kernel, owners)
            if columns:
                effects = column_effects(context, state.belief, known, columns, arms, measured.best)
        predictions = _predictions(context, state.belief, arms)
        model = success_model(context, state)
        success = [None] * len(arms) if model is None else predicted_success(context, model, arms).tolist()
    return [
        Explanation(
            arm=arm,
            id=context.pool.id_of(arm),
            why=_reason(state, arm),
            pulls=0 if measured is None else measured.pulls_of(arm),
            average=None if measured is None else measured.average_of(arm),
            best=None if measured is None else context.pool.id_of(measured.best),
            neighbours=near[place],
            columns=effects[place],
            failures=state.tickets.failures.get(arm, 0),
            success=success[place],
            **predictions[place],
        )
        for place, arm in enumerate(arms.tolist())
    ]


def _predictions(context: RunContext, belief: Belief, arms: Ints) -> list[dict[str, float]]:
    """Mean, standard deviation and the ends of the prediction interval of each arm."""
    known, scale = belief.state.at(arms), RewardScale(belief.model, context.sign)
    std = belief.std(known.leverage)
    reach = NormalDist().inv_cdf(0.5 + 0.5 * SHARE) * np.hypot(std, belief.noise(arms))
    figures = *scale.spread(known.mean, std), *scale.interval(known.mean - reach, known.mean + reach)
    names = ("mean", "std", "lower", "upper")
    return [dict(zip(names, row, strict=True)) for row in np.transpose(figures).tolist()]


def _reason(state: RunState, arm: int) -> str | None:
    """What chose an arm when it was last handed out; None if the trace does not say."""
    for record in reversed(list(state.trace.batches)):
        here = np.flatnonzero(record.arms == arm)
        if len(here) and record.why:
            return record.why[int(here[-1])]
    return None


@dataclass(frozen=True)
class _Measured:
    """The arms with results."""

    context: RunContext
    belief: Belief
    history: History
    best: int  # of them, by the posterior mean

    @classmethod
    def of(cls, context: RunContext, state: RunState) -> _Measured | None:
        """The arms with results in this state; None if there are none."""
        if not len(state.history):
            return None
        arms = state.history.arms
        best = int(arms[np.argmax(state.belief.state.at(arms).mean)])
        return cls(context, state.belief, state.history, best)

    def pulls_of(self, arm: int) -> int:
        """The number of results of an arm."""
        return int(self.history.counts[self.history.arms == arm].sum())

    def average_of(self, arm: int) -> float | None:
        """The average of the results of an arm; None without any."""
        pulls, total = self.pulls_of(arm), float(self.history.sums[self.history.arms == arm].sum())
        return self.context.sign * total / pulls if pulls else None

    def neighbours(self, arms: Ints, most: int) -> list[tuple[Neighbour, ...]]:
        """For each arm, the others with the highest correlation; ties by index."""
        measured, found = self.history.arms, []
        for arm, row in zip(arms.tolist(), self._correlations(arms), strict=True):
            order = [int(place) for place in np.lexsort((measured, -row)) if measured[place] != arm]
            near = [(int(measured[place]), float(row[place])) for place in order[:most]]
            found.append(tuple(self._neighbour(*each) for each in near))
        return found

    def _neighbour(self, arm: int, correlation: float) -> Neighbour:
        average = self.average_of(arm)
        assert average is not None, "a neighbour has results"
        return Neighbour(arm, self.context.pool.id_of(arm), correlation, average, self.pulls_of(arm))

    def _correlations(self, arms: Ints) -> Floats:
        """k(x, y)/√(k(x, x) k(y, y)) of each of these arms with all measured ones."""
        process, at, measured = self.belief.process, self.belief.state.at, self.history.arms
        between = covariances(process.kernel, process.pool.take(arms), process.pool.take(measured))
        size = np.sqrt(np.outer(at(arms).prior, at(measured).prior))
        return np.asarray(np.divide(between, size, out=np.zeros_like(between), where=size > 0))

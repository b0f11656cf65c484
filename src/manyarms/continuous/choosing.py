"""Choosing the points of a batch on a box, as functions from one `BoxRun` to the next."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.choice.selection import NO_ARM_LEFT, FilledBatch
from manyarms.choice.stopping import Meter, Pick
from manyarms.continuous.box import Box
from manyarms.continuous.cells import Tree
from manyarms.continuous.descent import Cells, Division
from manyarms.continuous.partition import Partition
from manyarms.continuous.surface import Surface
from manyarms.continuous.variation import Variation
from manyarms.posterior.hallucination import Hallucination
from manyarms.posterior.posterior import Posterior
from manyarms.run.context import RunContext
from manyarms.run.failing import failures_allowed
from manyarms.run.growing import with_more_arms
from manyarms.run.state import RunState
from manyarms.support.validation import Floats, Ints

LONGEST_BATCH = 1_000


def division(box: Box, context: RunContext, state: RunState, settings: Mapping[str, Any]) -> Division:
    """How cells are divided under the kernel in use; `settings` are those of `Division`."""
    encode = box.relaxed if context.prepared is None else np.asarray
    return Division(box, Variation(state.belief.policy.covariance, encode, box), **settings)


@dataclass(frozen=True)
class BoxRun:
    """A run on a box at one moment: the belief has used every result, the cells are measured."""

    context: RunContext
    state: RunState
    partition: Partition
    division: Division

    @property
    def box(self) -> Box:
        """The domain."""
        return self.division.box

    @property
    def tree(self) -> Tree:
        """The tree of cells."""
        return self.partition.tree

    @property
    def posterior(self) -> Posterior:
        """The posterior over the points of the pool."""
        return self.state.belief.posterior

    def coordinates(self, arms: Ints) -> Floats:
        """The coordinates of these arms."""
        return self.box.coordinates(self.context.pool.take(arms))

    def with_points(self, points: Floats) -> tuple[BoxRun, Ints]:
        """The run with these points in its pool, and their arms; a point is never added twice."""
        known = {row.tobytes(): arm for arm, row in enumerate(self.context.pool.features)}
        arms, fresh = [], []
        for row in points + 0.0:  # −0 is 0
            if row.tobytes() not in known:
                known[row.tobytes()] = len(known)
                fresh.append(row)
            arms.append(known[row.tobytes()])
        return self.grown(np.array(fresh)) if fresh else self, np.array(arms, dtype=np.int64)

    def grown(self, points: Floats) -> BoxRun:
        """The run with these points added to its pool."""
        if not len(points):
            return self
        context, state = with_more_arms(self.context, self.state, self.context.pool.extended(points + 0.0))
        return replace(self, context=context, state=state)

    # ------------------------------------------------------------------ cells and bounds

    def cells(self, width: float, norm_bound: float, leverage: Floats | None = None) -> Cells:
        """The cells with bounds of this width (in standard deviations); `leverage` is of all arms."""
        state, arms = self.state.belief.state, self.tree.arm
        leverage = state.leverage if leverage is None else leverage
        return Cells(
            self.tree,
            self.partition.radius,
            state.mean[arms],
            np.sqrt(state.ridge * leverage[arms]),
            width,
            norm_bound,
            self.context.pool.n_arms,
        )

    def with_cells(self, cells: Cells) -> BoxRun:
        """The run with cells that have been split: new centroids become arms, if they are not already."""
        run, tree, before = self, cells.tree, self.context.pool.n_arms
        if cells.new:
            run, arms = self.with_points(self.box.points(np.concatenate(cells.new)))
            numbers = np.concatenate([np.arange(before), arms])
            tree = replace(tree, arm=numbers[tree.arm])
        return replace(run, partition=replace(self.partition, tree=tree, radius=cells.radius))


class Batching:
    """The picks of one batch, with what is hallucinated and what the stopping rule counts.

    Pulls whose results are pending are hallucinated, and so are failed ones, so that a run moves away.
    """

    def __init__(self, run: BoxRun, limit: int | None, exactly: bool) -> None:
        self.limit, self.exactly = limit, exactly
        self.picks: list[Pick] = []
        self.why: list[str] = []
        self.on(run)

    def on(self, run: BoxRun) -> None:
        """Continue on a run whose pool has grown, with a new overlay and meter that count the same pulls."""
        self.run = run
        tickets, posterior = run.state.tickets, run.posterior
        self.overlay = Hallucination(posterior)
        for arm, times in sorted(tickets.pending_counts().items()):
            self.overlay.pull(arm, times)
        earlier = list(zip(self.overlay.pulls, self.overlay.leverage_before, strict=True))
        for arm, times in sorted(tickets.failures.items()):
            self.overlay.pull(arm, times)
        for pick in self.picks:
            self.overlay.pull(pick.arm)
        self.meter: Meter = run.state.belief.policy.stopping_rule().meter(posterior, self.overlay)
        for arm, before in earlier:
            self.meter.count(Pick(arm, float(posterior.leverage[arm]), before))
        for pick in self.picks:
            self.meter.count(pick)

    def leverage(self) -> Floats:
        """σ̃² of all arms with the pulls so far hallucinated."""
        return self.overlay.leverage() if self.overlay.pulls else self.run.posterior.leverage

    def surface(self) -> Surface:
        """The posterior at any coordinates, with the pulls so far hallucinated."""
        pulls = np.array(self.overlay.pulls, dtype=np.int64)
        return Surface(self.run.posterior, self.run.division.variation.encode, self.run.coordinates(pulls))

    def width(self) -> float:
        """β, wider where the batch exceeds its variance ratio (theory §6.7)."""
        belief = self.run.state.belief
        allowed = belief.policy.ratio_bound if isinstance(belief.policy.width, str) else math.inf
        return belief.width() * math.sqrt(self.overlay.excess(allowed))

    def add(self, arm: int, why: str) -> str | None:
        """Add a pick; the reason to end the batch here, or None."""
        current = float(self.overlay.leverage([arm])[0])
        pick = Pick(arm, float(self.run.posterior.leverage[arm]), current)
        reason = None
        if self.exactly:
            self.meter.count(pick)
        else:
            reason = self.meter.add(pick)
        self.picks.append(pick)
        self.why.append(why)
        self.overlay.pull(arm)
        if self.limit is not None and len(self.picks) >= self.limit:
            return "size asked for" if self.exactly else reason or "limit"
        if self.exactly:
            return None
        return reason or ("longest batch" if len(self.picks) >= LONGEST_BATCH else None)

    def filled(self, ended_because: str = NO_ARM_LEFT) -> FilledBatch:
        """The batch."""
        ratio = self.overlay.realised_ratio() if self.exactly else self.meter.ratio
        return FilledBatch([pick.arm for pick in self.picks], ended_because, ratio, self.why)


def tried(run: BoxRun) -> NDArray[np.bool_]:
    """Whether each arm has a result, is pending, or has failed too often."""
    flags = np.zeros(run.context.pool.n_arms, dtype=bool)
    flags[run.state.history.arms] = True
    flags[list(run.state.tickets.arms)] = True
    flags[out_of_use(run)] = True
    return flags


def out_of_use(run: BoxRun) -> list[int]:
    """The arms that have failed too often."""
    most = failures_allowed(run.context, run.state.history, run.state.tickets)
    return [] if most is None else [arm for arm, n in run.state.tickets.failures.items() if n >= most]

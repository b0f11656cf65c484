"""Ada-BKB and its batched form: the choice on a box with a given kernel (theory §13.2, §13.3, §13.5)."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from manyarms.choice.selection import UPPER_BOUND, FilledBatch
from manyarms.continuous.choosing import Batching, BoxRun
from manyarms.continuous.descent import Cells, descended, pruned
from manyarms.errors import NothingToAskError
from manyarms.run.certificate import Certificate

NO_CELL_LEFT = "no cell left"


def filled(run: BoxRun, limit: int | None, exactly: bool) -> tuple[BoxRun, FilledBatch]:
    """Points chosen by descents of the tree until the stopping rule, the limit or the tree ends the batch.

    With a width of so many standard deviations, f is allowed as many of the prior's within a cell (§13.2).
    """
    batch = Batching(with_pruned_leaves(run), limit, exactly)
    while True:
        belief = batch.run.state.belief
        width = batch.width() / math.sqrt(belief.state.ridge)
        variation = belief.memory.norm_bound if isinstance(belief.policy.width, str) else width
        cells = batch.run.cells(width, variation, batch.leverage())
        cell = descended(cells, run.division, batch.surface())
        grown = batch.run.with_cells(cells)
        if grown.context is not batch.run.context:
            batch.on(grown)
        else:
            batch.run = grown
        if cell is None:
            break
        ended_because = batch.add(int(batch.run.tree.arm[cell]), UPPER_BOUND)
        if ended_because is not None:
            return batch.run, batch.filled(ended_because)
    if not batch.picks or exactly:
        raise NothingToAskError(
            "no cell of the box is worth another evaluation: "
            "the maximum is known as well as max_depth and the axes of integers allow"
        )
    return batch.run, batch.filled(NO_CELL_LEFT)


def with_pruned_leaves(run: BoxRun) -> BoxRun:
    """The run without leaves that cannot contain the maximum; only if F is given and not a guess."""
    cells = proved_cells(run)
    if cells is None or not len(run.state.belief.state.arms):
        return run
    tree = pruned(cells, float(_lower(run, cells).max()))
    return replace(run, partition=replace(run.partition, tree=tree))


def proved_cells(run: BoxRun) -> Cells | None:
    """The cells with bounds on f that are proved; None if F is a guess."""
    belief = run.state.belief
    width = belief.proved_width()
    if width is None or isinstance(belief.policy.norm_bound, str):
        return None
    return run.cells(width / math.sqrt(belief.state.ridge), belief.memory.norm_bound)


def _lower(run: BoxRun, cells: Cells) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Lower bounds on f at the points with results."""
    state = run.state.belief.state
    return np.asarray(state.mean[state.arms] - cells.width * np.sqrt(state.variance[state.arms]))


def certified(run: BoxRun, on_pool: Certificate) -> Certificate:
    """The certificate over the whole box, from the one over the points of the pool (theory §13.5)."""
    cells = proved_cells(run)
    assert cells is not None
    state, sign = run.state.belief.state, run.context.sign
    lower, active = _lower(run, cells), cells.tree.active
    own = float(lower[np.flatnonzero(state.arms == on_pool.arm)[0]])
    best = max(float(cells.indices(active).max(initial=-np.inf)), float(lower.max()))
    return replace(
        on_pool,
        gap=max(0.0, best - own),
        regret=float(state.counts @ np.maximum(best - lower, 0.0)),
        best_value_bound=sign * best,
    )

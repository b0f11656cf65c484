"""The choice on a box with a learned kernel: a design, then the most promising points (theory §13.4)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from manyarms.choice.acquisition import Acquisition, LogExpectedImprovement, UpperBound
from manyarms.choice.selection import EXPLORATION, INITIAL_DESIGN, UPPER_BOUND, FilledBatch
from manyarms.continuous import learned
from manyarms.continuous.ascent import Hill
from manyarms.continuous.box import Box
from manyarms.continuous.choosing import Batching, BoxRun, out_of_use, tried
from manyarms.continuous.descent import refined
from manyarms.errors import NothingToAskError
from manyarms.support.validation import Floats

EXPECTED_IMPROVEMENT = "expected improvement"
NO_POINT_LEFT = "no point may be chosen"
MAX_LEAVES, SPLITS_PER_POINT = 1_000, 4
EXPLORES_EVERY, SHORTEST_STALL = 3, 10  # points
STALLED = 0.01  # standard deviations of the rewards: a smaller improvement is none
AWAY = 0.5  # length-scales, along at least one axis
MOST_LISTED = 20_000  # points of a box of integers that are compared one by one

Allowed = Callable[[Floats], NDArray[np.bool_]]


def filled(run: BoxRun, limit: int | None, exactly: bool) -> tuple[BoxRun, FilledBatch]:
    """The rest of the initial design, or the points with the highest acquisition values."""
    run = _with_design(run, limit if exactly else None)
    batch = Batching(run, limit, exactly)
    for arm in _left_of_design(run):
        ended_because = batch.add(arm, INITIAL_DESIGN)
        if limit is not None and ended_because is not None and len(batch.picks) >= limit:
            return run, batch.filled(ended_because)
    if batch.picks and not exactly:
        return run, batch.filled(INITIAL_DESIGN)
    while True:
        batch.on(_refined(batch))
        acquisition, why = _acquisition(batch)
        away = why == EXPLORATION
        place = _next_place(batch, acquisition, away)
        if place is None:
            if exactly or not batch.picks:
                raise NothingToAskError(f"{NO_POINT_LEFT}: all have been used up or have failed too often")
            return batch.run, batch.filled(NO_POINT_LEFT)
        grown, arms = batch.run.with_points(batch.run.box.points(place[None]))
        batch.on(grown)
        ended_because = batch.add(int(arms[0]), why)
        if ended_because is not None:
            return batch.run, batch.filled(ended_because)


def summit(run: BoxRun, point: Floats) -> Floats:
    """The end of an ascent of the posterior mean from this point, as a point of the box."""
    box, batch = run.box, Batching(run, None, exactly=False)
    hill, start = Hill(box, batch.surface(), UpperBound(0.0)), box.coordinates(point[None])[0]
    whole = np.array(box.integer)
    end = hill.climbed(start, ~whole, 200)
    places = hill.rounded(np.vstack([start, end]))
    return np.asarray(box.points(places[[int(np.argmax(hill.heights(places)))]])[0])


# ---------------------------------------------------------------------- the initial design


def _with_design(run: BoxRun, at_least: int | None) -> BoxRun:
    """The run with an initial design in its pool, unless there are enough results already."""
    state, context = run.state, run.context
    if state.design is not None:
        return run
    size = max(learned.design_size(run.box, context.budget), at_least or 0)
    if len(state.history) >= size:
        return replace(run, state=replace(state, design=()))
    places = learned.design(run.box, size, context.streams.at("design"))
    run, arms = run.with_points(run.box.points(places))
    return replace(run, state=replace(run.state, design=tuple(dict.fromkeys(arms.tolist()))))


def _left_of_design(run: BoxRun) -> list[int]:
    """The arms of the design still to be handed out; none once as many arms have results."""
    design = run.state.design or ()
    if len(run.state.history) >= len(design):
        return []
    done = tried(run)
    return [arm for arm in design if not done[arm]]


# ---------------------------------------------------------------------- the next point


def _refined(batch: Batching) -> BoxRun:
    """The run with a few more cells, where the bounds are highest."""
    run, belief = batch.run, batch.run.state.belief
    if not belief.state.pulls or len(run.tree.active) >= MAX_LEAVES:
        return run
    width = belief.width() / math.sqrt(belief.state.ridge)
    cells = run.cells(width, width, batch.leverage())
    refined(cells, run.division, batch.surface(), SPLITS_PER_POINT)
    return run.with_cells(cells)


def _next_place(batch: Batching, acquisition: Acquisition, away: bool) -> Floats | None:
    """The coordinates of the next point, with `away` one that is not near the best; None if there is none."""
    run, state = batch.run, batch.run.state.belief.state
    leaves = run.tree.active
    values = acquisition.values(state.mean[run.tree.arm[leaves]], state.variance[run.tree.arm[leaves]])
    leaves = leaves[np.argsort(-values, kind="stable")[: learned.N_LEAVES]]
    good = state.arms[np.argsort(-state.mean[state.arms], kind="stable")[: learned.N_GOOD]]
    surface, rng = batch.surface(), run.context.streams.at("candidates", run.state.n_batches)
    scales = learned.scales_of(run.state.belief.policy.covariance, len(run.box))
    allowed = _allowed(batch)
    if away:
        allowed = _and_away(allowed, run.coordinates(good[:1]) / scales, scales)
    place = learned.next_point(
        run.box,
        surface,
        acquisition,
        scales,
        run.tree.centre[leaves],
        run.coordinates(good),
        allowed,
        np.random.default_rng([int(rng.integers(2**32)), len(batch.picks)]),
    )
    return _from_list(batch, Hill(run.box, surface, acquisition)) if place is None else place


def _acquisition(batch: Batching) -> tuple[Acquisition, str]:
    """Expected improvement over the best mean; an upper bound if a width was given or there is no result.

    A model that is sure of a local maximum asks for nothing else. Where the last points were no better than
    those before, every third one is therefore the most promising of those that are not around the best.
    """
    run, belief = batch.run, batch.run.state.belief
    if not belief.state.pulls:
        return UpperBound(1.0), UPPER_BOUND
    if run.context.policy.width != "auto":
        return UpperBound(batch.width() / math.sqrt(belief.state.ridge)), UPPER_BOUND
    seen = np.concatenate([belief.state.arms, np.array(batch.overlay.pulls, dtype=np.int64)])
    explores = len(seen) % EXPLORES_EVERY == 0 and _has_stalled(belief.state.mean[belief.state.arms], run.box)
    why = EXPLORATION if explores else EXPECTED_IMPROVEMENT
    return LogExpectedImprovement(float(belief.state.mean[seen].max())), why


def _has_stalled(means: Floats, box: Box) -> bool:
    """Whether the last points, in the order of their first results, were no better than those before."""
    recent = max(SHORTEST_STALL, 2 * len(box))
    return len(means) > recent and bool(means[-recent:].max() < means[:-recent].max() + STALLED)


def _and_away(allowed: Allowed, best: Floats, scales: Floats) -> Allowed:
    """Those of the allowed places that are not around the best, in length-scales."""
    return lambda places: allowed(places) & (np.abs(places / scales - best).max(axis=1) > AWAY)


def _allowed(batch: Batching) -> Allowed:
    """Which places may be chosen: by default those that were not tried yet."""
    run = batch.run
    pulls, most = run.state.history, run.context.repeats
    excluded = set(out_of_use(run))
    if most in ("fresh", "forbid"):
        excluded |= set(np.flatnonzero(tried(run)).tolist()) | {pick.arm for pick in batch.picks}
    elif isinstance(most, int):
        counts = np.zeros(run.context.pool.n_arms)
        counts[pulls.arms] += pulls.counts
        np.add.at(counts, [*run.state.tickets.arms, *(pick.arm for pick in batch.picks)], 1)
        excluded |= set(np.flatnonzero(counts >= most).tolist())
    rows = {row.tobytes() for row in run.context.pool.take(sorted(excluded))} if excluded else set()

    def is_allowed(places: Floats) -> NDArray[np.bool_]:
        return np.array([row.tobytes() not in rows for row in run.box.points(places) + 0.0], dtype=bool)

    return is_allowed


def _from_list(batch: Batching, hill: Hill) -> Floats | None:
    """The best place of all that are allowed, in a box of few integers; otherwise of many random ones."""
    run, box = batch.run, batch.run.box
    places = _all_places(box)
    if places is None:
        rng = run.context.streams.at("random places", run.state.n_batches)
        places = hill.rounded(rng.random((MOST_LISTED, len(box))))
    left = places[_allowed(batch)(places)]
    if not len(left) and run.context.repeats == "fresh":  # everything was tried: points may be repeated
        failed = {row.tobytes() for row in run.context.pool.features[out_of_use(run)]}
        left = places[[row.tobytes() not in failed for row in box.points(places) + 0.0]]
    return np.asarray(left[int(np.argmax(hill.heights(left)))]) if len(left) else None


def _all_places(box: Box) -> Floats | None:
    """The coordinates of all points of a box of few integers; None for any other box."""
    if not all(box.integer):
        return None
    sizes = [int(high - low) + 1 for low, high in zip(box.lower, box.upper, strict=True)]
    if math.prod(sizes) > MOST_LISTED:
        return None
    values = [np.arange(n) + low for n, low in zip(sizes, box.lower, strict=True)]
    return box.coordinates(np.array(list(product(*values))))

"""Find the highest acquisition value in the box: many candidates, then gradient ascent from the best.

Integer axes are relaxed to intervals during the ascent, rounded, and then held fixed for a second one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from manyarms.choice.acquisition import Acquisition
from manyarms.continuous.box import Box
from manyarms.continuous.surface import Surface
from manyarms.support.validation import Floats, Ints

N_STARTS, N_STEPS = 6, 40
_APART = 0.05  # starts are this many length-scales apart
_WORK = 2e9  # multiplications of one ascent: with a large sketch there are fewer starts and steps


@dataclass(frozen=True)
class Hill:
    """An acquisition function over the box."""

    box: Box
    surface: Surface
    acquisition: Acquisition

    def heights(self, coordinates: Floats) -> Floats:
        """The acquisition values at these coordinates."""
        return self.acquisition.values(*self.surface.values(coordinates))

    def climbed(self, start: Floats, free: NDArray[np.bool_], steps: int) -> Floats:
        """The end of a gradient ascent (L-BFGS-B) along the axes `free`, inside the box."""
        from scipy.optimize import minimize

        where = np.flatnonzero(free)
        if not len(where):
            return start

        def descent(part: Floats) -> tuple[float, Floats]:
            place = start.copy()
            place[where] = part
            mean, variance, mean_slope, variance_slope = self.surface.gradients(place)
            value, by_mean, by_variance = self.acquisition.slopes(mean, variance)
            return -value, -(by_mean * mean_slope + by_variance * variance_slope)[where]

        found = minimize(
            descent,
            start[where],
            jac=True,
            method="L-BFGS-B",
            bounds=[(0.0, 1.0)] * len(where),
            options={"maxfun": steps, "maxiter": steps, "ftol": 1e-9, "gtol": 1e-8},
        )
        end = start.copy()
        end[where] = np.clip(found.x, 0.0, 1.0)
        return end

    def rounded(self, coordinates: Floats) -> Floats:
        """The coordinates of the points of the box here."""
        return self.box.coordinates(self.box.points(coordinates))


def highest(
    hill: Hill, candidates: Floats, scales: Floats, is_allowed: Callable[[Floats], NDArray[np.bool_]]
) -> Floats | None:
    """The coordinates with the highest acquisition value found from these candidates.

    `scales` are the length-scales along the axes. `is_allowed` says which rows are points that may be chosen;
    None is returned if there are none among the candidates and the ends of the ascents.
    """
    candidates = hill.rounded(candidates)
    values = hill.heights(candidates)
    whole = np.array(hill.box.integer)
    cost = (hill.surface.sketch_size**2 + 1) * (2 * len(hill.box) + 2)
    n_starts = int(np.clip(_WORK / (cost * N_STEPS), 1, N_STARTS))
    steps = int(np.clip(_WORK / (cost * n_starts), 8, N_STEPS))
    ends = [candidates]
    for start in _apart(candidates, values, scales, n_starts):
        end = hill.climbed(candidates[start], np.ones(len(whole), dtype=bool), steps)
        if whole.any():
            end = hill.climbed(hill.rounded(end[None])[0], ~whole, steps)
        ends.append(end[None])
    places = np.concatenate([hill.rounded(np.concatenate(ends[1:])), candidates])
    places = places[is_allowed(places)]
    return None if not len(places) else places[int(np.argmax(hill.heights(places)))]


def _apart(candidates: Floats, values: Floats, scales: Floats, n: int) -> Ints:
    """The best n candidates that are not close to each other; fewer if there are not so many."""
    chosen: list[int] = []
    scaled = candidates / scales
    for place in np.argsort(-values, kind="stable")[: 40 * n].tolist():
        if all(np.abs(scaled[place] - scaled[other]).max() > _APART for other in chosen):
            chosen.append(place)
            if len(chosen) == n:
                break
    return np.array(chosen, dtype=np.int64)

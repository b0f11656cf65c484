"""The highest upper bounds of the arms that may be chosen: what each shard finds, and how the answers join.

Bounds are mean + width·σ̃ at the last feedback, or after some hallucinated pulls. Ties go to the lowest index;
bounds count as tied if rounding errors can explain their difference (`TIE`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from manyarms.pool.allowance import Allowance, OpenArms
from manyarms.posterior.hallucination import Hallucinated, reduced_leverage
from manyarms.posterior.over_pool import OverPool
from manyarms.posterior.shard import ArmValues, Shard, Version
from manyarms.support.validation import Floats, Ints

TIE = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-6}
_NOTHING = -np.inf
_PART = 1 << 18  # arms that are sorted together


class Gain(Protocol):
    """A value of arms that increases with their mean and their standard deviation."""

    def in_shard(self, shard: Shard, mean: Floats, std: Floats) -> Floats:
        """The values of all arms of a shard."""


@dataclass(frozen=True, eq=False)
class PullsSoFar:
    """Hallucinated pulls, with a number that tells those of one process apart.

    `spare` is added to σ̃², so that bounds remain upper limits whatever the rounding errors of the shards are.
    """

    pulls: Hallucinated
    number: int
    spare: float = 0.0


@dataclass(frozen=True)
class BoundRule:
    """Which bounds are compared: width·σ̃, plus the mean unless `mean` is False.

    With `gain`, it is the value of a mean with the standard deviation width·σ̃: per cost, or if it may fail.
    """

    width: float
    mean: bool = True
    after: PullsSoFar | None = None
    gain: Gain | None = None

    def of(self, shard: Shard, version: Version) -> Floats:
        """The bounds of all arms of a shard."""
        bounds = self.width * (
            version.std if self.after is None else _reduced_std(shard, version, self.after)
        )
        if self.gain is not None:
            return self.gain.in_shard(shard, version.values.mean, bounds)
        if self.mean:
            bounds += version.values.mean
        return bounds


@dataclass(frozen=True)
class Peak:
    """The highest bound, the lowest index that is tied with it (−1 if there is no arm), and its σ̃².

    `scale` is the largest absolute bound of any arm, also of those that may not be chosen; ties are judged
    relative to it. `reached` is the bound of the arm itself, and `before` the highest of those with a lower
    index in its shard. `look` is what the shard knows about the arm, with its row of z: if the arm is chosen,
    the next step asks for it.
    """

    bound: float
    arm: int
    leverage: float
    scale: float
    reached: float = _NOTHING
    before: float = _NOTHING
    look: tuple[ArmValues, Floats] | None = None


@dataclass(frozen=True)
class Highest:
    """The arms with the highest bounds in decreasing order, and the bound of the next one."""

    arms: Ints
    bounds: Floats
    beyond: float
    scale: float


# ---------------------------------------------------------------------- in a shard


def _reduced_std(shard: Shard, version: Version, after: PullsSoFar) -> Floats:
    """σ̃ of all arms after these pulls, kept until the next question about others."""
    kept = version.notes.get("reduced")
    if kept is None or kept[0] != after.number:
        std = np.sqrt(reduced_leverage(shard, version, after.pulls) + after.spare)
        kept = version.notes["reduced"] = after.number, std
    found: Floats = kept[1]
    return found


def peak_in(shard: Shard, version: Version, rule: BoundRule, may: OpenArms, tie: float) -> Peak:
    """The peak of one shard."""
    bounds, best, scale = _open_bounds(shard, version, rule, may)
    found = _first_reaching(shard, version, bounds, best, best - tie * scale, scale)
    if found.arm < 0 or shard.n_arms == version.start.n_arms:
        return found
    return replace(found, look=shard.look_in(version, np.array([found.arm])))


def reaching_in(shard: Shard, version: Version, rule: BoundRule, may: OpenArms, threshold: float) -> Peak:
    """The first arm of one shard whose bound reaches the threshold."""
    bounds, best, scale = _open_bounds(shard, version, rule, may)
    return _first_reaching(shard, version, bounds, best, threshold, scale)


def highest_in(
    shard: Shard, version: Version, rule: BoundRule, may: OpenArms, skip: Ints, most: int
) -> Highest:
    """The highest bounds of one shard; `skip` are arms of the pool that are left out."""
    bounds, _, scale = _open_bounds(shard, version, rule, may)
    bounds[shard.local(skip)] = _NOTHING
    places = _top(bounds, most + 1)
    places = places[np.lexsort((places, -bounds[places]))]
    found = bounds[places]
    found = found[found > _NOTHING]
    places = places[: len(found)]
    beyond = float(found[most]) if len(found) > most else _NOTHING
    return Highest(places[:most] + shard.first, found[:most], beyond, scale)


def _open_bounds(
    shard: Shard, version: Version, rule: BoundRule, may: OpenArms
) -> tuple[Floats, float, float]:
    """The bounds of a shard, −inf for arms that may not be chosen, the highest, and the largest in size."""
    bounds = rule.of(shard, version)
    best = float(bounds.max())
    scale = max(best, -float(bounds.min()), 1e-300)
    if may.all_open:
        return bounds, best, scale
    if may.by_default and may.mask is None:
        bounds[may.exceptions] = _NOTHING
    else:
        bounds[~may.flags(len(bounds))] = _NOTHING
    return bounds, float(bounds.max()), scale


def _top(bounds: Floats, most: int) -> Ints:
    """The places of the highest bounds, in any order. No further array of their number is made."""
    found: Ints = np.empty(0, dtype=np.int64)
    lowest = _NOTHING  # of those found, once there are enough
    for start in range(0, len(bounds), _PART):
        places = np.flatnonzero(bounds[start : start + _PART] > lowest) + start
        if len(places):
            found = np.concatenate([found, places])
        if len(found) >= most:
            if len(found) > most:
                found = found[np.argpartition(-bounds[found], most - 1)[:most]]
            lowest = float(bounds[found].min())
    return found


def _first_reaching(
    shard: Shard, version: Version, bounds: Floats, best: float, threshold: float, scale: float
) -> Peak:
    if best == _NOTHING or best < threshold:
        return Peak(_NOTHING, -1, 0.0, scale)
    place = int((bounds >= threshold).argmax())
    reached, before = float(bounds[place]), float(bounds[:place].max(initial=_NOTHING))
    return Peak(best, shard.first + place, float(version.leverage[place]), scale, reached, before)


# ---------------------------------------------------------------------- over the pool


def peak(over_pool: OverPool, rule: BoundRule, allowance: Allowance, tie: float) -> Peak:
    """The highest bound of the pool."""
    may = [allowance.within(*ends) for ends in over_pool.ranges]
    found = over_pool.map_each(peak_in, [(rule, part, tie) for part in may])
    if len(found) == 1:
        only: Peak = found[0]
        return only
    best, scale = max(part.bound for part in found), max(part.scale for part in found)
    threshold = best - tie * scale
    if best == _NOTHING:
        return Peak(best, -1, 0.0, scale)
    first = next(i for i, part in enumerate(found) if part.bound >= threshold)
    known = found[first]
    if known.before < threshold <= known.reached:
        if known.look is not None:
            over_pool.note(np.array([known.arm]), *known.look)
        return Peak(best, known.arm, known.leverage, scale)
    calls = [(rule, may[i], threshold) if i == first else None for i in range(len(found))]
    tied: Peak = over_pool.map_each(reaching_in, calls)[first]
    return Peak(best, tied.arm, tied.leverage, scale)


def highest(over_pool: OverPool, rule: BoundRule, allowance: Allowance, skip: Ints, most: int) -> Highest:
    """The arms of the pool with the highest bounds; `skip` are arms to leave out."""
    calls = []
    for first, stop in over_pool.ranges:
        inside = skip if len(over_pool.ranges) == 1 else skip[(skip >= first) & (skip < stop)]
        calls.append((rule, allowance.within(first, stop), inside, most))
    found = over_pool.map_each(highest_in, calls)
    if len(found) == 1:
        only: Highest = found[0]
        return only
    arms = np.concatenate([part.arms for part in found])
    bounds = np.concatenate([part.bounds for part in found])
    order = np.lexsort((arms, -bounds))
    rest = [float(bounds[order[most]])] if len(order) > most else []
    beyond = max([*rest, *(part.beyond for part in found)])
    kept = order[:most]
    return Highest(arms[kept], bounds[kept], beyond, max(part.scale for part in found))

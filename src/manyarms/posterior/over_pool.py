"""The pool side of one posterior state: a version that all shards hold, and what can be asked of it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count, pairwise
from typing import Any

import numpy as np

from manyarms.engines.base import Answers, Shards, by_shard
from manyarms.posterior.pool_step import LeverageScale, Rebuild, Start, Step, ValueRule
from manyarms.posterior.shard import VALUES, ArmValues
from manyarms.support.validation import Floats, Ints

_REMEMBERED = 3  # answers about a few arms
_NUMBERS = count()  # of versions; unique in this process, whatever shards they belong to


class OverPool:
    """One version of the posterior over all arms. It is never changed; steps make new versions.

    The shards forget the version when nothing refers to this object any more.
    """

    def __init__(self, shards: Shards) -> None:
        self.shards, self.number = shards, next(_NUMBERS)
        self._known: dict[bytes, ArmValues | Callable[[], ArmValues]] = {}  # by the arms, the oldest first
        self._watch()

    def _watch(self) -> None:
        weakref.finalize(self, self.shards.release, "release", self.number).atexit = False

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        vars(self).update(attributes)
        self._watch()

    @property
    def n_arms(self) -> int:
        """The number of arms of the pool."""
        return self.shards.starts[-1]

    # ------------------------------------------------------------------ making versions

    @classmethod
    def started(cls, shards: Shards, start: Start, ridge: float, keeps_residual: bool) -> OverPool:
        """The version before any pull; `prior_max` is 0 if every prior variance is 0."""
        new = cls(shards)
        scale = LeverageScale(ridge, 0, 0.0, keeps_residual)
        largest = max(new._all("start", new.number, start, scale))
        new._all("scaled", new.number, LeverageScale(ridge, 0, largest, keeps_residual))
        new.prior_max = largest
        return new

    prior_max: float = 0.0
    _last_rows: tuple[bytes, Floats] | None = None

    def advanced(self, step: Step) -> OverPool:
        """The version after a step; what is known about the pulled arms comes with the answer."""
        new, answers = self._next("advance", step)
        new._remember(step.seen, partial(_values_of_parts, self.shards.starts, step.seen, answers))
        return new

    def rebuilt(self, message: Rebuild) -> OverPool:
        """The version with everything computed from scratch."""
        return self._next("rebuild", message)[0]

    def revalued(self, embedding: Any, rule: ValueRule, scale: LeverageScale) -> OverPool:
        """The version with the same columns and all values computed by this rule."""
        return self._next("revalue", embedding, rule, scale)[0]

    def refitted(self, vector: Floats) -> OverPool:
        """The version with the mean zᵀw of another weight vector w."""
        return self._next("refit", vector)[0]

    def restored(self, arrays: dict[str, Any], scale: LeverageScale) -> OverPool:
        """The version with these columns and values of the first arms, as `to_plain` gave them.

        `arrays["embedding"]` and `arrays["rule"]` give those of further arms.
        """
        new, calls, starts = OverPool(self.shards), [], self.shards.starts
        for first, stop in pairwise(starts):
            part = {name: arrays[name][first:stop] for name in VALUES}
            part["columns"] = [columns[first:stop] for columns in arrays["columns"]]
            part |= {name: arrays[name] for name in ("size", "embedding", "rule") if name in arrays}
            calls.append((self.number, new.number, part, scale))
        self.shards.each("restore", calls)
        new.prior_max = self.prior_max
        return new

    def _next(self, method: str, *args: Any) -> tuple[OverPool, Answers]:
        """A new version, which a method of the shards makes before it is read, and their answers."""
        new = OverPool(self.shards)
        new.prior_max = self.prior_max
        calls = [(self.number, new.number, *args)] * (len(self.shards.starts) - 1)
        return new, self.shards.post(method, calls)

    # ------------------------------------------------------------------ reading

    def at(self, arms: Ints) -> ArmValues:
        """What is known about these arms.

        A step asks for the same few arms several times, so the last answers are remembered.
        """
        known = self._known.get(arms.tobytes())
        if known is None or not isinstance(known, ArmValues):
            known = self._ask_for_values(arms) if known is None else known()
            self._remember(arms, known)
        return known

    def note(self, arms: Ints, known: ArmValues, rows: Floats) -> None:
        """Remember what a shard has said about these arms; `look` will be asked for it next."""
        self._remember(arms, known)
        self._last_rows = arms.tobytes(), rows

    def _remember(self, arms: Ints, known: ArmValues | Callable[[], ArmValues]) -> None:
        self._known.pop(arms.tobytes(), None)
        self._known[arms.tobytes()] = known
        if len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]

    def _ask_for_values(self, arms: Ints) -> ArmValues:
        if len(self.shards.starts) == 2:
            found: ArmValues = self.shards.each("at", [(self.number, arms)])[0]
            return found
        return _joined_values(len(arms), self._where("at", arms))

    def look(self, arms: Ints) -> ArmValues:
        """The same as `at`, for arms whose rows of z will be asked for next; they come with the answer."""
        if self._last_rows is None or self._last_rows[0] != arms.tobytes():
            self.note(arms, *self._ask_for_both(arms))
        return self.at(arms)

    def _ask_for_both(self, arms: Ints) -> tuple[ArmValues, Floats]:
        if len(self.shards.starts) == 2:
            both: tuple[ArmValues, Floats] = self.shards.each("look", [(self.number, arms)])[0]
            return both
        parts = self._where("look", arms)
        values = _joined_values(len(arms), [(places, part[0]) for places, part in parts])
        return values, _joined_rows(len(arms), [(places, part[1]) for places, part in parts])

    def rows(self, arms: Ints) -> Floats:
        """z(x) of these arms in double precision, len(arms) × m; the last answer is remembered."""
        last, asked = self._last_rows, arms.tobytes()
        if last is None or last[0] != asked:
            self._last_rows = last = asked, self._ask_for_rows(arms)
        return last[1]

    def _ask_for_rows(self, arms: Ints) -> Floats:
        if len(self.shards.starts) == 2:
            rows: Floats = self.shards.each("rows", [(self.number, arms)])[0]
            return rows
        return _joined_rows(len(arms), self._where("rows", arms))

    def whole(self, name: str) -> Any:
        """One value of every arm of the pool: "mean", "leverage", "residual", "quadratic" or "prior"."""
        return joined(self._all("whole", self.number, name))

    def columns(self) -> list[Any]:
        """z of every arm, as parts of rows × columns."""
        parts = self._all("whole", self.number, "columns")
        return parts[0] if len(parts) == 1 else [np.concatenate(part) for part in zip(*parts, strict=True)]

    def forms(self, vectors: Floats) -> Floats:
        """vᵀz(x) of every arm for each column v of the m × r matrix `vectors`: r × A, in one pass."""
        found: Floats = joined(self._all("forms", self.number, vectors), axis=1)
        return found

    def map(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """`function(shard, version, *args)` for each shard."""
        return self._all("run", function, self.number, *args)

    def map_each(self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...] | None]) -> list[Any]:
        """`function(shard, version, *args)` for each shard with its own arguments; None leaves one out."""
        return self.shards.each(
            "run", [None if args is None else (function, self.number, *args) for args in calls]
        )

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The first arm and the end of each shard."""
        starts = self.shards.starts
        return list(pairwise(starts))

    @property
    def nbytes(self) -> int:
        """The bytes allocated for columns."""
        return sum(self._all("nbytes", self.number))

    def _all(self, method: str, *args: Any) -> list[Any]:
        return self.shards.each(method, [args] * (len(self.shards.starts) - 1))

    def _where(self, method: str, arms: Ints) -> list[tuple[Ints, Any]]:
        """For each shard with some of these arms, their positions in `arms` and what it answered."""
        places = by_shard(self.shards.starts, arms)
        calls = [None if here is None else (self.number, arms[here]) for here in places]
        found = self.shards.each(method, calls)
        return [(here, part) for here, part in zip(places, found, strict=True) if here is not None]


def _values_of_parts(starts: list[int], arms: Ints, answers: Answers) -> ArmValues:
    """The values of these arms, from what each shard said about those of its own."""
    parts = answers()
    places = by_shard(starts, arms)
    found = [(here, part) for here, part in zip(places, parts, strict=True) if here is not None]
    return _joined_values(len(arms), found) if found else parts[0]


def _joined_values(n_arms: int, parts: list[tuple[Ints, ArmValues]]) -> ArmValues:
    """The values of some arms, from those of each shard and their positions among the arms."""
    if len(parts) == 1:
        return parts[0][1]
    names = ("mean", "leverage", "residual", "prior")
    values = {name: np.empty(n_arms) for name in names}
    for places, part in parts:
        for name in names:
            values[name][places] = getattr(part, name)
    return ArmValues(**values)


def _joined_rows(n_arms: int, parts: list[tuple[Ints, Floats]]) -> Floats:
    """Rows of z of some arms, from those of each shard and their positions among the arms."""
    if len(parts) == 1:
        return parts[0][1]
    joined = np.empty((n_arms, parts[0][1].shape[1]))
    for places, part in parts:
        joined[places] = part
    return joined


def joined(parts: list[Any], axis: int = 0) -> Any:
    """Arrays of consecutive shards as one; the array itself if there is one shard."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=axis)

"""A search space of Optuna as a pool: all its points, or a sample of them if they cannot be enumerated."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from manyarms.pool.parameter_rows import number_or_none

Params = dict[str, Any]


@dataclass(frozen=True)
class Axis:
    """One parameter: its values if they can be enumerated, its feature, and what identifies a value."""

    distribution: BaseDistribution

    @cached_property
    def size(self) -> float:
        """The number of values; infinite for a continuous parameter."""
        kind = self.distribution
        if isinstance(kind, CategoricalDistribution):
            return len(kind.choices)
        if isinstance(kind, IntDistribution):
            return float((kind.high - kind.low) // kind.step + 1)
        assert isinstance(kind, FloatDistribution)
        return math.inf if kind.step is None else round((kind.high - kind.low) / kind.step) + 1

    def value(self, place: int) -> Any:
        """The value with this number, for a parameter that can be enumerated."""
        kind = self.distribution
        if isinstance(kind, CategoricalDistribution):
            return kind.choices[place]
        if isinstance(kind, IntDistribution):
            return kind.low + place * kind.step
        assert isinstance(kind, FloatDistribution)
        assert kind.step is not None
        return min(kind.low + place * kind.step, kind.high)

    def at(self, share: float) -> Any:
        """The value at this share of the range, between 0 and 1; logarithmic where the parameter is."""
        kind = self.distribution
        if isinstance(kind, CategoricalDistribution) or not getattr(kind, "log", False):
            if math.isfinite(self.size):
                return self.value(min(int(share * self.size), int(self.size) - 1))
            assert isinstance(kind, FloatDistribution)
            return float(min(max(kind.low + share * (kind.high - kind.low), kind.low), kind.high))
        assert isinstance(kind, IntDistribution | FloatDistribution)
        half = 0.5 if isinstance(kind, IntDistribution) else 0.0
        low, high = math.log(kind.low - half), math.log(kind.high + half)
        value = min(max(math.exp(low + share * (high - low)), kind.low), kind.high)
        return round(value) if isinstance(kind, IntDistribution) else float(value)

    def key(self, value: Any) -> Hashable:
        """What two equal values have in common; steps of a float are counted, to be safe from rounding."""
        kind = self.distribution
        if isinstance(kind, FloatDistribution) and kind.step is not None:
            step: int = round((value - kind.low) / kind.step)
            return step
        if isinstance(kind, CategoricalDistribution):
            return int(kind.to_internal_repr(value))
        return value  # type: ignore[no-any-return]

    @cached_property
    def labels(self) -> bool:
        """Whether values are categories; choices that are all numbers count as numbers."""
        kind = self.distribution
        return isinstance(kind, CategoricalDistribution) and any(
            number_or_none(choice) is None for choice in kind.choices
        )

    def feature(self, value: Any) -> Any:
        """The value as the model sees it."""
        if self.labels:
            return f"choice {self.key(value)}"
        return math.log(value) if getattr(self.distribution, "log", False) else float(value)

    def contains(self, distribution: BaseDistribution | None, value: Any) -> bool:
        """Whether a value suggested from another distribution is a value of this parameter."""
        kind = self.distribution
        if type(distribution) is not type(kind):
            return False
        if isinstance(kind, CategoricalDistribution):
            return bool(distribution == kind)
        assert isinstance(kind, IntDistribution | FloatDistribution)
        return bool(kind._contains(kind.to_internal_repr(value)))


class Space:
    """The candidates of a search space, in a fixed order, and the arms of further points added later."""

    def __init__(self, search_space: Mapping[str, BaseDistribution], pool_size: int, seed: int) -> None:
        self.axes = {name: Axis(distribution) for name, distribution in search_space.items()}
        size = math.prod(axis.size for axis in self.axes.values())
        self.enumerated = size <= pool_size
        self._candidates = self._all() if self.enumerated else self._sample(pool_size, seed)
        self._arms = {self.key(params): arm for arm, params in enumerate(self._candidates)}

    def _all(self) -> list[Params]:
        values = [[axis.value(place) for place in range(int(axis.size))] for axis in self.axes.values()]
        return [dict(zip(self.axes, row, strict=True)) for row in itertools.product(*values)]

    def _sample(self, pool_size: int, seed: int) -> list[Params]:
        """A Latin hypercube without repetition: each parameter's range is covered evenly."""
        rng = np.random.default_rng(seed)
        shares = {
            name: (rng.permutation(pool_size) + rng.random(pool_size)) / pool_size for name in self.axes
        }
        rows = (
            {name: axis.at(float(shares[name][i])) for name, axis in self.axes.items()}
            for i in range(pool_size)
        )
        different = {self.key(row): row for row in rows}
        return list(different.values())

    def __len__(self) -> int:
        return len(self._candidates)

    def __getitem__(self, arm: int) -> Params:
        return dict(self._candidates[arm])

    def key(self, params: Mapping[str, Any]) -> Hashable:
        """What equal points have in common."""
        return tuple(axis.key(params[name]) for name, axis in self.axes.items())

    def arm_of(self, params: Mapping[str, Any]) -> int | None:
        """The arm of a point; None if it is not among the candidates."""
        return self._arms.get(self.key(params))

    def add(self, params: Mapping[str, Any]) -> int:
        """The number of a further candidate."""
        arm = self._arms[self.key(params)] = len(self._candidates)
        self._candidates.append({name: params[name] for name in self.axes})
        return arm

    def holds(self, params: Mapping[str, Any], distributions: Mapping[str, BaseDistribution]) -> bool:
        """Whether a trial with these parameters is a point of this space."""
        return all(
            name in params and axis.contains(distributions.get(name), params[name])
            for name, axis in self.axes.items()
        )

    def features(self, first: int = 0) -> NDArray[Any]:
        """The features of the candidates from number `first` on."""
        rows = [
            [axis.feature(params[name]) for name, axis in self.axes.items()]
            for params in self._candidates[first:]
        ]
        kind = object if any(axis.labels for axis in self.axes.values()) else np.float64
        return np.array(rows, dtype=kind).reshape(len(rows), len(self.axes))

"""What the three UCB baselines share: their settings, their arm sets, and the choice of an arm.

Arms are a common `Pool`, or `Contexts`: a set of arms of its own for every agent and step (Li et al. 2022).
Ties are broken by the agent's coin. With a stationary kernel all arms tie as long as nothing is known, so the
first pull is uniform, and agents differ.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manyarms.agents.active_set import check_numeric, rows_from_wire
from manyarms.agents.baselines.models import Embedded, Model, PointsExact, PoolExact
from manyarms.agents.protocol.agent import Agent, Pulls
from manyarms.agents.protocol.coins import PURPOSE_TIES, Coin
from manyarms.agents.protocol.messages import Message
from manyarms.errors import (
    ImpossibleMessageError,
    InvalidFeaturesError,
    InvalidParameterError,
    InvalidRewardError,
)
from manyarms.kernels import KernelLike, as_kernel
from manyarms.pool.pool import Pool
from manyarms.support.validation import Floats, count, finite_rewards, non_negative, positive, probability

UcbWidth = Literal["theory"] | float


@dataclass(frozen=True)
class Contexts:
    """Arm sets that change: `arms(agent, step)` returns the feature rows an agent may choose from."""

    arms: Callable[[int, int], ArrayLike]
    n_features: int

    def __post_init__(self) -> None:
        count("n_features", self.n_features)
        if not callable(self.arms):
            raise InvalidParameterError("arms", self.arms, "a function of agent and step")

    def at(self, agent: int, step: int) -> Floats:
        """The arms of one agent at one step, checked."""
        rows = np.asarray(self.arms(agent, step), dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.n_features or not len(rows):
            raise InvalidFeaturesError(
                f"arms of agent {agent} at step {step} have shape {rows.shape}, "
                f"needed are rows of {self.n_features} features"
            )
        if not np.isfinite(rows).all():
            raise InvalidFeaturesError(f"arms of agent {agent} at step {step} are not all finite")
        return rows


@dataclass(frozen=True)
class UcbSettings:
    """`width` multiplies the posterior standard deviation in reward units, or is "theory" (`multiplier`)."""

    kernel: KernelLike
    ridge: float
    n_agents: int
    horizon: int
    width: UcbWidth = 1.0
    norm_bound: float = 1.0
    noise_std: float = 1.0
    delta: float = 0.05
    send: Literal["indices", "features"] = "indices"
    retries: int = 1

    def __post_init__(self) -> None:
        as_kernel(self.kernel)
        positive("ridge", self.ridge)
        count("n_agents", self.n_agents)
        count("horizon", self.horizon)
        count("retries", self.retries, minimum=0)
        positive("norm_bound", self.norm_bound)
        non_negative("noise_std", self.noise_std)
        probability("delta", self.delta)
        if self.send not in ("indices", "features"):
            raise InvalidParameterError("send", self.send, "'indices' or 'features'")
        if isinstance(self.width, str):
            if self.width != "theory":
                raise InvalidParameterError("width", self.width, "'theory' or a number")
        else:
            non_negative("width", self.width)

    @cached_property
    def checked_kernel(self) -> KernelLike:
        """The kernel, adapted where it is scikit-learn's."""
        return as_kernel(self.kernel)

    def described(self) -> dict[str, Any]:
        """All settings as text, to recognise a run by."""
        return {f.name: repr(getattr(self, f.name)) for f in fields(self)}

    def multiplier(self, model: Model, n_pulls: int) -> float:
        """β on √leverage. "theory": the exact GP-UCB width, or BKB's in an embedding (spec §3)."""
        if not isinstance(self.width, str):
            return self.width * math.sqrt(self.ridge)
        scale, log_inverse = math.sqrt(self.ridge) * self.norm_bound, math.log(1.0 / self.delta)
        if not isinstance(model, Embedded):
            return scale + self.noise_std * math.sqrt(model.log_det + 2.0 * log_inverse)
        growth = (1.0 + math.log(n_pulls / self.ridge + 1.0)) / 2.0
        inner = 3.0 * growth * model.effective_dimension + log_inverse  # α = 3 at ε = ½
        return 2.0 * self.noise_std * math.sqrt(inner) + (1.0 + math.sqrt(2.0)) * scale

    def exact_model(self, domain: Pool | Contexts) -> Model:
        """An empty exact posterior on this domain."""
        if isinstance(domain, Pool):
            return PoolExact(domain, self.checked_kernel, self.ridge)
        return PointsExact(self.checked_kernel, self.ridge)


class PointCode:
    """Points in messages: pool indices or feature rows."""

    def __init__(self, domain: Pool | Contexts, send: str) -> None:
        if not isinstance(domain, Pool | Contexts):
            raise InvalidParameterError("domain", domain, "a Pool or Contexts")
        if isinstance(domain, Pool) and send == "features":
            check_numeric(domain)
        self.domain, self._by_index = domain, isinstance(domain, Pool) and send == "indices"

    @property
    def domain_digest(self) -> str:
        """Which arms are meant; what changing arm sets will be nobody can say beforehand."""
        return self.domain.digest if isinstance(self.domain, Pool) else f"{self.domain.n_features} features"

    @property
    def none(self) -> NDArray[Any]:
        """No point at all."""
        return self.to_wire(self.no_keys)

    @property
    def no_keys(self) -> NDArray[Any]:
        """No arm index, or no feature row."""
        if isinstance(self.domain, Pool):
            return np.empty(0, dtype=np.int64)
        return np.empty((0, self.domain.n_features))

    def to_wire(self, keys: NDArray[Any]) -> NDArray[Any]:
        """Keys as the numbers of a message."""
        if isinstance(self.domain, Pool) and not self._by_index:
            return np.asarray(self.domain.take(keys), dtype=np.float64)
        return keys

    def features(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Feature rows of points in a message; refuses what cannot be a point."""
        width = self.domain.n_features
        if isinstance(self.domain, Pool) and not self._by_index:
            return rows_from_wire(self.domain, numbers)
        if not self._by_index:
            fits = numbers.ndim == 2 and numbers.shape[1] == width and np.isfinite(numbers).all()
            if not fits:
                raise ImpossibleMessageError(
                    f"points of shape {numbers.shape}, needed are {width} features each"
                )
            return numbers
        assert isinstance(self.domain, Pool)
        fits = numbers.ndim == 1 and numbers.dtype.kind == "i"
        if not fits or (len(numbers) and not 0 <= numbers.min() <= numbers.max() < self.domain.n_arms):
            raise ImpossibleMessageError(f"arms {numbers!r} in a pool of {self.domain.n_arms}")
        return self.domain.take(numbers)

    def keys(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Pool indices (or rows, without a pool) of points in a message."""
        features = self.features(numbers)
        if self._by_index or not isinstance(self.domain, Pool):
            return numbers
        try:
            rows = np.ascontiguousarray(features, dtype=np.float64)
            return np.array([self._index[row.tobytes()] for row in rows], dtype=np.int64)
        except KeyError:
            raise ImpossibleMessageError("a point that is no arm of the pool") from None

    @cached_property
    def _index(self) -> dict[bytes, int]:
        assert isinstance(self.domain, Pool)
        rows = np.ascontiguousarray(self.domain.features, dtype=np.float64)
        return {row.tobytes(): arm for arm, row in reversed(list(enumerate(rows)))}


class UcbAgent(Agent):
    """An agent that pulls the arm with the highest upper confidence bound, one at a time."""

    def __init__(
        self, settings: UcbSettings, number: int, domain: Pool | Contexts, coin: Coin, model: Model
    ) -> None:
        self.settings, self.number, self.domain = settings, number, domain
        self.model, self._coin, self.code = model, coin, PointCode(domain, settings.send)
        self.step = 0
        self.known_pulls = 0  # pulls behind the model, other agents' included
        self.waiting = False  # in the middle of a sync: no pulls
        self._pending: tuple[Pulls, NDArray[Any]] | None = None

    def start(self) -> list[Message]:
        """Nothing to say at first."""
        return []

    @property
    def done(self) -> bool:
        """Whether T arms have been pulled."""
        return self.step >= self.settings.horizon

    @property
    def pending(self) -> Pulls | None:
        """The arm with the highest bound, chosen when first asked for."""
        if self.done or self.waiting:
            return None
        if self._pending is None:
            self._pending = self._chosen()
        return self._pending[0]

    def _chosen(self) -> tuple[Pulls, NDArray[Any]]:
        pool = self.domain if isinstance(self.domain, Pool) else None
        rows = None if pool is not None else self.domain.at(self.number, self.step)  # type: ignore[union-attr]
        mean, leverage = self.model.at(rows)
        bound = mean + self.settings.multiplier(self.model, max(self.known_pulls, 1)) * np.sqrt(leverage)
        best = np.flatnonzero(bound == bound.max())
        arm = best[self._coin.stream(self.step, PURPOSE_TIES).integers(len(best), 1)]
        if pool is not None:
            return Pulls(self.number, self.step, arm, pool.take(arm)), arm
        assert rows is not None
        return Pulls(self.number, self.step, None, rows[arm]), rows[arm]

    def observe(self, rewards: ArrayLike) -> list[Message]:
        """Take the reward in, then see whether there is something to say."""
        if self._pending is None:
            raise InvalidRewardError(f"agent {self.number} has no pending pulls to give rewards for")
        values = finite_rewards(rewards, 1)
        keys = self._pending[1]
        self._pending = None
        self._before_adding(keys, values)
        self.model.add(keys, values)
        self.step += 1
        self.known_pulls += 1
        return [] if self.done else self._after_step()

    def _before_adding(self, keys: NDArray[Any], rewards: Floats) -> None:
        """Hook: the pull, before the model knows it."""

    @abstractmethod
    def _after_step(self) -> list[Message]:
        """What to say after a pull (not after the last one: nobody could use it)."""

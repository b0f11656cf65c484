"""The settings of the three UCB baselines, their arm sets, and how points are written in messages.

The arms are a common `Pool`, or `Contexts`: a separate set of arms for every agent and step (Li et al. 2022).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manyarms.agents.active_set import check_numeric, rows_from_wire
from manyarms.agents.baselines.models import ExactPointModel, ExactPoolModel, Model, SparseModel
from manyarms.agents.protocol.coins import Coins
from manyarms.agents.protocol.server import Server
from manyarms.errors import ImpossibleMessageError, InvalidFeaturesError, InvalidParameterError
from manyarms.kernels import KernelLike, as_kernel
from manyarms.pool.pool import Pool
from manyarms.support.validation import Floats, count, non_negative, positive, probability

UcbWidth = Literal["theory"] | float


@dataclass(frozen=True)
class Contexts:
    """Arm sets that change: `arms(agent, step)` returns the feature rows of the agent's arms at a step."""

    arms: Callable[[int, int], ArrayLike]
    n_features: int

    def __post_init__(self) -> None:
        count("n_features", self.n_features)
        if not callable(self.arms):
            raise InvalidParameterError("arms", self.arms, "a function of agent and step")

    def at(self, agent: int, step: int) -> Floats:
        """The validated arms of one agent at one step."""
        rows = np.asarray(self.arms(agent, step), dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.n_features or not len(rows):
            raise InvalidFeaturesError(
                f"arms of agent {agent} at step {step} have shape {rows.shape}, "
                f"expected at least one row of {self.n_features} features"
            )
        if not np.isfinite(rows).all():
            raise InvalidFeaturesError(
                f"the arms of agent {agent} at step {step} contain values that are not finite"
            )
        return rows


@dataclass(frozen=True)
class UcbSettings(ABC):
    """Settings of a UCB baseline. `width` multiplies the posterior standard deviation in reward units, or
    is "theory" (see `multiplier`).
    """

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

    @abstractmethod
    def server(self, domain: Pool | Contexts, coins: Coins) -> Server:
        """The server. These algorithms replay no draws, so their servers do not use the coins."""

    def resume_server(self, domain: Pool | Contexts, coins: Coins, state: bytes) -> Server:
        """A server that continues from a state written by its `save`."""
        server = self.server(domain, coins)
        server.restore(state)
        return server

    @cached_property
    def checked_kernel(self) -> KernelLike:
        """The kernel; a scikit-learn kernel is wrapped."""
        return as_kernel(self.kernel)

    def described(self) -> dict[str, Any]:
        """All settings as text; a saved state is only accepted by a run with the same settings."""
        return {f.name: repr(getattr(self, f.name)) for f in fields(self)}

    def multiplier(self, model: Model, n_pulls: int) -> float:
        """β on √leverage. "theory": the exact GP-UCB width, or BKB's in an embedding (theory §9.8).

        BKB's is computed with κ = 1, and with the part of d_eff inside the embedding, without the residuals.
        """
        if not isinstance(self.width, str):
            return self.width * math.sqrt(self.ridge)
        scale, log_inverse = math.sqrt(self.ridge) * self.norm_bound, math.log(1.0 / self.delta)
        if not isinstance(model, SparseModel):
            return scale + self.noise_std * math.sqrt(model.log_det + 2.0 * log_inverse)
        growth = (1.0 + math.log(n_pulls / self.ridge + 1.0)) / 2.0
        inner = 3.0 * growth * model.effective_dimension + log_inverse  # α = 3 at ε = ½
        return 2.0 * self.noise_std * math.sqrt(inner) + (1.0 + math.sqrt(2.0)) * scale

    def exact_model(self, domain: Pool | Contexts) -> Model:
        """The exact posterior on this domain before any pull."""
        if isinstance(domain, Pool):
            return ExactPoolModel(domain, self.checked_kernel, self.ridge)
        return ExactPointModel(self.checked_kernel, self.ridge)


class PointEncoding:
    """How points are written in messages: as pool indices or as feature rows."""

    def __init__(self, domain: Pool | Contexts, send: str) -> None:
        if not isinstance(domain, Pool | Contexts):
            raise InvalidParameterError("domain", domain, "a Pool or Contexts")
        if isinstance(domain, Pool) and send == "features":
            check_numeric(domain)
        self.domain, self._by_index = domain, isinstance(domain, Pool) and send == "indices"

    @property
    def domain_digest(self) -> str:
        """The digest of the pool; changing arm sets are identified only by their number of features."""
        return self.domain.digest if isinstance(self.domain, Pool) else f"{self.domain.n_features} features"

    @property
    def no_points(self) -> NDArray[Any]:
        """An empty array of points in their wire form."""
        return self.to_wire(self.no_keys)

    @property
    def no_keys(self) -> NDArray[Any]:
        """An empty array of arm indices or feature rows."""
        if isinstance(self.domain, Pool):
            return np.empty(0, dtype=np.int64)
        return np.empty((0, self.domain.n_features))

    def to_wire(self, keys: NDArray[Any]) -> NDArray[Any]:
        """Arm indices or feature rows as the numbers of a message."""
        if isinstance(self.domain, Pool) and not self._by_index:
            return np.asarray(self.domain.take(keys), dtype=np.float64)
        return keys

    def features(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """The feature rows of points in a message; raises `ImpossibleMessageError` for invalid points."""
        if isinstance(self.domain, Pool) and not self._by_index:
            return rows_from_wire(self.domain, numbers)
        if not self._by_index:
            fits = (
                numbers.ndim == 2
                and numbers.shape[1] == self.domain.n_features
                and np.isfinite(numbers).all()
            )
            if not fits:
                raise ImpossibleMessageError(
                    f"points of shape {numbers.shape}; "
                    f"expected finite rows of {self.domain.n_features} features"
                )
            return numbers
        assert isinstance(self.domain, Pool)
        fits = numbers.ndim == 1 and numbers.dtype.kind == "i"
        if not fits or (len(numbers) and not 0 <= numbers.min() <= numbers.max() < self.domain.n_arms):
            raise ImpossibleMessageError(
                f"arms {numbers!r} are not indices of a pool of {self.domain.n_arms} arms"
            )
        return self.domain.take(numbers)

    def keys(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """The pool indices (or, without a pool, the rows) of points in a message."""
        features = self.features(numbers)
        if self._by_index or not isinstance(self.domain, Pool):
            return numbers
        try:
            rows = np.ascontiguousarray(features, dtype=np.float64)
            return np.array([self._index[row.tobytes()] for row in rows], dtype=np.int64)
        except KeyError:
            raise ImpossibleMessageError("a point in the message is not an arm of the pool") from None

    @cached_property
    def _index(self) -> dict[bytes, int]:
        assert isinstance(self.domain, Pool)
        rows = np.ascontiguousarray(self.domain.features, dtype=np.float64)
        return {row.tobytes(): arm for arm, row in reversed(list(enumerate(rows)))}

"""What all parties of a run must agree on, as plain data: algorithm, settings, domain, units and timing."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from manyarms.agents import DUETS, ApproxDisKernelUCB, Box, DisKernelUCB, NKernelUCB
from manyarms.agents.runner import Algorithm
from manyarms.errors import InvalidKernelError, InvalidParameterError, RunFileError
from manyarms.kernels.describe import describe, from_description
from manyarms.pool.pool import Pool
from manyarms.support.validation import positive

ALGORITHMS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (DUETS, DisKernelUCB, ApproxDisKernelUCB, NKernelUCB)
}
DAY = 86_400.0
Domain = Pool | Box


@dataclass(frozen=True)
class Units:
    """The conversion from measured values to rewards: reward = (sign · value − mean) / scale."""

    sign: float = 1.0
    mean: float = 0.0
    scale: float = 1.0

    def reward(self, value: float) -> float:
        """The reward of a measured value."""
        return (self.sign * value - self.mean) / self.scale

    def value(self, reward: float) -> float:
        """A reward in the units of the measured values."""
        return self.sign * (reward * self.scale + self.mean)


@dataclass(frozen=True)
class RunDescription:
    """Everything public about a run. Two descriptions are equal exactly if all parties do the same."""

    algorithm: str
    settings: dict[str, Any]
    domain: str  # the digest of the pool or the box
    table: dict[str, Any] | None = None  # how the pool is read from a table
    units: Units = field(default_factory=Units)
    lockstep: bool = False  # every agent waits in every round for the others
    wait: float = 7 * DAY  # seconds of silence after which the run goes on without an agent
    run: str = field(default_factory=lambda: secrets.token_hex(16))

    @classmethod
    def of(cls, algorithm: Any, domain: Domain, **more: Any) -> RunDescription:
        """The description of a run of this algorithm on this domain."""
        name = type(algorithm).__name__
        if ALGORITHMS.get(name) is not type(algorithm):
            raise InvalidParameterError("algorithm", algorithm, f"one of {sorted(ALGORITHMS)}")
        if not isinstance(domain, Pool | Box):
            raise InvalidParameterError("domain", domain, "a Pool or a Box")
        settings = {each.name: getattr(algorithm, each.name) for each in fields(algorithm)}
        settings["kernel"] = describe(algorithm.checked_kernel)
        if settings["kernel"]["kernel"] == "custom":
            raise InvalidKernelError(f"{algorithm.kernel!r} cannot be described to other machines")
        if isinstance(domain, Pool):  # a kernel that does not fit is an error now, not at the first agent
            first = domain.take([0])
            algorithm.checked_kernel.matrix(first, first)
        found = cls(name, settings, domain.digest, **more)
        positive("wait", found.wait)
        return found

    @property
    def n_agents(self) -> int:
        """The number of agents."""
        return int(self.settings["n_agents"])

    @property
    def run_bytes(self) -> bytes:
        """The identity of the run, as packets carry it."""
        return bytes.fromhex(self.run)

    def built(self) -> Algorithm:
        """The algorithm with its settings."""
        settings = {**self.settings, "kernel": from_description(self.settings["kernel"])}
        algorithm: Algorithm = ALGORITHMS[self.algorithm](**settings)
        return algorithm

    def check_domain(self, domain: Domain) -> None:
        """Raise an error if this is not the pool or the box of the run."""
        if domain.digest != self.domain:
            raise RunFileError("these are not the candidates of the run: their contents differ")

    def to_plain(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> RunDescription:
        """The inverse of `to_plain`; anything else is refused."""
        try:
            found = cls(**{**plain, "units": Units(**plain["units"])})
            if found.algorithm not in ALGORITHMS or len(found.run_bytes) != 16:
                raise ValueError(f"algorithm {found.algorithm!r}, run {found.run!r}")
        except (TypeError, KeyError, ValueError, AttributeError) as problem:
            raise RunFileError(f"not the description of a run: {problem}") from None
        json_lists = {name: tuple(v) if isinstance(v, list) else v for name, v in found.settings.items()}
        return replace(found, settings=json_lists)

    def __str__(self) -> str:
        return json.dumps(self.to_plain(), sort_keys=True)

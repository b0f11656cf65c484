"""Continuous domains: a box, and an active region defined by a chain of tests on it (theory §9.4).

A point is in the region when it passes every trim so far. Points are drawn by rejection from the box, so they
are uniform on the region, whether it is connected or not. (DUETS footnote 3 samples each connected component
T_j times. Here the components share T_j draws in proportion to their volume, because membership is decided by
a test and the components are not known.)

**The cap.** For n draws an agent tries at most `max_tries`·n points. Before the server sends a trim, it
replays the next draws of all agents; if one of them would exceed the cap, it withholds the trim (the cutoff
is −∞, and this is recorded). A larger active set still contains x*, so only regret is lost. If an agent
exceeds the cap nevertheless, it repeats the points it has found, in order, as the server does in its replay.

**Maxima** over a region are taken over the `n_probes` public points that lie in it and over the draws; this
is the discretisation U_T of Assumption 2.3.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manyarms.agents.active_set import DOUBLE, DrawnPoints, Trim
from manyarms.agents.protocol.coins import PURPOSE_DRAWS, PURPOSE_PROBES, Coin
from manyarms.agents.protocol.messages import DIGEST_BYTES, SERVER, ActiveChain, Message
from manyarms.errors import ImpossibleMessageError, InvalidParameterError, SamplingCapError
from manyarms.kernels import KernelLike
from manyarms.support.validation import Floats, count

_BLOCK = 1024  # points tested at once


class Box:
    """All points between `lower` and `upper`, feature by feature.

    `max_tries` bounds the points tested per draw, and `n_probes` is the number of public points over which
    maxima are taken.
    """

    def __init__(
        self, lower: ArrayLike, upper: ArrayLike, *, max_tries: int = 2_000, n_probes: int = 2_000
    ) -> None:
        self.lower: Floats = np.atleast_1d(np.asarray(lower, dtype=np.float64))
        self.upper: Floats = np.atleast_1d(np.asarray(upper, dtype=np.float64))
        fits = self.lower.ndim == 1 and self.lower.shape == self.upper.shape
        if not (fits and np.isfinite([self.lower, self.upper]).all() and (self.lower < self.upper).all()):
            raise InvalidParameterError(
                "lower, upper", (lower, upper), "finite vectors of equal length with lower < upper"
            )
        self.max_tries, self.n_probes = count("max_tries", max_tries), count("n_probes", n_probes)

    def __repr__(self) -> str:
        return f"Box({self.lower.tolist()}, {self.upper.tolist()})"

    @property
    def n_features(self) -> int:
        """The number of features d."""
        return len(self.lower)

    @property
    def digest(self) -> str:
        """A digest of the bounds and limits; equal digests mean equal boxes."""
        sides = np.concatenate([self.lower, self.upper, [self.max_tries, self.n_probes]])
        return hashlib.blake2b(sides.tobytes(), digest_size=DIGEST_BYTES).hexdigest()

    def at(self, uniform: Floats) -> Floats:
        """Points of the box from numbers in [0, 1), d numbers for each point."""
        return self.lower + uniform.reshape(-1, self.n_features) * (self.upper - self.lower)


@dataclass(frozen=True)
class ActiveRegion:
    """The part of a box that passes every test of the chain."""

    exhaustive = False

    box: Box
    kernel: KernelLike
    chain: tuple[Trim, ...] = ()
    precision: np.dtype[Any] = DOUBLE

    @cached_property
    def digest(self) -> bytes:
        """A digest of the box and the chain. Rounding differences show in the digest of the draws."""
        sha = hashlib.blake2b(self.box.digest.encode(), digest_size=DIGEST_BYTES)
        for trim in self.chain:
            sha.update(np.ascontiguousarray(trim.inducing).tobytes() + trim.weights.tobytes())
            sha.update(np.float64(trim.cutoff).tobytes())
        return sha.digest()

    @cached_property
    def size(self) -> float:
        """The fraction of the box that is left, estimated with the public probes."""
        return len(self.probes) / self.box.n_probes

    @cached_property
    def probes(self) -> Floats:
        """The public points that lie in the region, the same for all parties."""
        stream = Coin.public().stream(0, PURPOSE_PROBES)
        points = self.box.at(stream.uniform(self.box.n_probes * self.box.n_features))
        return points[self.contains(points)]

    def contains(self, points: Floats) -> NDArray[np.bool_]:
        """Which points pass every test."""
        inside = np.ones(len(points), dtype=bool)
        for trim in self.chain:
            left = np.flatnonzero(inside)
            inside[left] = trim.keeps(self.kernel, points[left], self.precision)
        return inside

    def draw(self, coin: Coin, epoch: int, n: int) -> DrawnPoints:
        """The first n points of the coin's stream that lie in the region."""
        stream, found, n_found = coin.stream(epoch, PURPOSE_DRAWS), [], 0
        left = self.box.max_tries * n
        while left > 0 and n_found < n:
            candidates = self.box.at(stream.uniform(min(left, _BLOCK) * self.box.n_features))
            accepted = candidates[self.contains(candidates)]
            found.append(accepted)
            left, n_found = left - len(candidates), n_found + len(accepted)
        points = np.concatenate(found)
        if not len(points):
            raise SamplingCapError(
                f"none of the {self.box.max_tries * n} points tried in epoch {epoch} is in the active region"
            )
        return DrawnPoints(np.resize(points, (n, self.box.n_features)), complete=n_found >= n)

    def can_draw_all(self, coins: list[Coin], epoch: int, n: int) -> bool:
        """Whether n draws with each coin stay within the cap."""
        try:
            return all(self.draw(coin, epoch, n).complete for coin in coins)
        except SamplingCapError:
            return False

    @property
    def domain_digest(self) -> str:
        """The digest of the box."""
        return self.box.digest

    def features(self, keys: NDArray[Any]) -> NDArray[Any]:
        """The points themselves, which are their own features."""
        return keys

    def maximisation_blocks(self, drawn: NDArray[Any]) -> Iterator[NDArray[Any]]:
        """The probes and the draws."""
        yield np.concatenate([self.probes, drawn])

    def trimmed(self, trim: Trim) -> ActiveRegion:
        """The region with one more test; a trim that keeps everything is not added."""
        return self if trim.cutoff == -np.inf else replace(self, chain=(*self.chain, trim))

    def to_wire(self, keys: NDArray[Any]) -> NDArray[Any]:
        """The coordinates of the points."""
        return np.asarray(keys, dtype=np.float64).reshape(-1, self.box.n_features)

    def from_wire(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """The coordinates of the points, checked to lie in the box."""
        if numbers.ndim != 2 or numbers.shape[1] != self.box.n_features or numbers.dtype.kind != "f":
            raise ImpossibleMessageError(
                f"points of type {numbers.dtype} and shape {numbers.shape} do not fit {self.box!r}"
            )
        if not ((numbers >= self.box.lower) & (numbers <= self.box.upper)).all():
            raise ImpossibleMessageError(f"a point lies outside {self.box!r}")
        return numbers

    def keys_from_wire(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """The same as `from_wire`, since points are their own keys."""
        return self.from_wire(numbers)

    def message(self, epoch: int) -> Message:
        """The whole chain, with the trims concatenated."""
        none = np.empty((0, self.box.n_features))
        return ActiveChain(
            SERVER,
            epoch,
            np.array([len(trim.weights) for trim in self.chain], dtype=np.int64),
            np.concatenate([none, *(trim.inducing for trim in self.chain)]),
            np.concatenate([np.empty(0), *(trim.weights for trim in self.chain)]),
            np.array([trim.cutoff for trim in self.chain], dtype=np.float64),
        )

    def adopted(self, message: Message) -> ActiveRegion:
        """The region described by an `ActiveChain` message."""
        if not isinstance(message, ActiveChain):
            raise ImpossibleMessageError(f"{message.name} does not describe a region of a box")
        total, ends = len(message.weights), np.cumsum(message.sizes)
        points = self.from_wire(message.points)
        sizes_fit = (message.sizes >= 0).all() and (ends[-1] if len(ends) else 0) == total == len(points)
        if not sizes_fit or len(message.cutoffs) != len(ends):
            raise ImpossibleMessageError(
                f"trims of sizes {message.sizes.tolist()} do not fit {total} weights, {len(points)} points "
                f"and {len(message.cutoffs)} cutoffs"
            )
        chain = tuple(
            Trim(points[end - size : end], message.weights[end - size : end], float(cutoff))
            for size, end, cutoff in zip(message.sizes, ends, message.cutoffs, strict=True)
        )
        return replace(self, chain=chain)

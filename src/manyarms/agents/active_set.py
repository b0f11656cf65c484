"""The active set of a finite pool: the arms that no trim has removed yet."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from manyarms.agents.epoch_posterior import means
from manyarms.agents.protocol.coins import PURPOSE_DRAWS, Coin
from manyarms.agents.protocol.messages import DIGEST_BYTES, SERVER, ActiveArms, Message, digest_of
from manyarms.errors import ImpossibleMessageError, InvalidParameterError, SamplingCapError
from manyarms.kernels import KernelLike
from manyarms.pool.pool import Pool
from manyarms.support.validation import Floats, Ints

SendPoints = Literal["indices", "features"]
DOUBLE = np.dtype(np.float64)
_BLOCK = 4096  # arms per block of a pass: the kernel values of a block stay in cache


def check_numeric(pool: Pool) -> None:
    """Only arms made of numbers can be sent as numbers; the others go as indices."""
    if pool.features.dtype.kind not in "fiu" or pool.features.ndim != 2:
        raise InvalidParameterError("send", "features", f"'indices' for arms of type {pool.features.dtype}")


def rows_from_wire(pool: Pool, numbers: NDArray[Any]) -> NDArray[Any]:
    """Feature rows out of a message, in the pool's own type (a kernel of packed bits wants bits)."""
    fits = numbers.ndim == 2 and numbers.shape[1] == pool.n_features and bool(np.isfinite(numbers).all())
    with np.errstate(all="ignore"):
        rows = numbers.astype(pool.features.dtype)
    if not fits or not np.array_equal(rows, numbers):
        raise ImpossibleMessageError(f"points of shape {numbers.shape} do not fit {pool!r}")
    return rows


@dataclass(frozen=True)
class Trim:
    """One test of the chain: keep x when k_S(x)ᵀ`weights` ≥ `cutoff` (DUETS (9)). −∞ keeps everything."""

    inducing: NDArray[Any]  # features of S
    weights: Floats
    cutoff: float

    def keeps(self, kernel: KernelLike, points: NDArray[Any], precision: np.dtype[Any]) -> NDArray[np.bool_]:
        """Which points survive."""
        if self.cutoff == -np.inf:
            return np.ones(len(points), dtype=bool)
        return np.asarray(means(kernel, self.inducing, self.weights, points, precision) >= self.cutoff)


@dataclass(frozen=True)
class DrawnPoints:
    """Points drawn in one epoch by one agent: `keys` identify them (indices, or coordinates in a box)."""

    keys: NDArray[Any]
    complete: bool = True  # False when rejection hit its cap and points had to be repeated

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def digest(self) -> bytes:
        """Of the points themselves, in order."""
        return digest_of(self.keys)


class ActiveSet(Protocol):
    """What DUETS needs of an active set, finite or not. Immutable: a trim makes a new one."""

    @property
    def exhaustive(self) -> bool:
        """Whether `survey` goes over all of it, or over a discretisation."""

    @property
    def precision(self) -> np.dtype[Any]:
        """What this machine computes in."""

    @property
    def digest(self) -> bytes:
        """Equal digests: equal sets."""

    @property
    def size(self) -> float:
        """Arms left, or the share of a box that is left, as far as known."""

    def draw(self, coin: Coin, epoch: int, n: int) -> DrawnPoints:
        """n points, uniformly, with replacement."""

    def features(self, keys: NDArray[Any]) -> NDArray[Any]:
        """What the kernel sees of drawn points."""

    def survey(self, drawn: NDArray[Any]) -> Iterator[NDArray[Any]]:
        """Blocks of features over which maxima are taken."""

    def trimmed(self, trim: Trim) -> ActiveSet:
        """Without what fails the test."""

    def samples_all(self, coins: list[Coin], epoch: int, n: int) -> bool:
        """Whether n draws with each coin can be had."""

    @property
    def domain_digest(self) -> str:
        """Of the pool or box behind it."""

    def to_wire(self, keys: NDArray[Any]) -> NDArray[Any]:
        """Points as numbers for a message."""

    def from_wire(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """The features of points out of a message; refuses what cannot be a point."""

    def keys_from_wire(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Drawn points out of a message."""

    def message(self, epoch: int) -> Message:
        """The whole set, for a receiver that holds another one."""

    def adopted(self, message: Message) -> ActiveSet:
        """The set in such a message."""


@dataclass(frozen=True)
class ActivePool:
    """Arms of a pool that are still in."""

    exhaustive = True  # of the class: no annotation, so no field

    pool: Pool
    kernel: KernelLike
    arms: Ints
    send: SendPoints = "indices"
    precision: np.dtype[Any] = DOUBLE

    @cached_property
    def digest(self) -> bytes:
        """Of the pool and of one bit per arm, so that two different pools disagree at once."""
        sha = hashlib.blake2b(self.pool.digest.encode(), digest_size=DIGEST_BYTES)
        sha.update(np.packbits(self._mask()).tobytes())
        return sha.digest()

    @property
    def size(self) -> float:
        """Arms left."""
        return float(len(self.arms))

    def draw(self, coin: Coin, epoch: int, n: int) -> DrawnPoints:
        """n arms, uniformly, with replacement."""
        if not len(self.arms):
            raise SamplingCapError("no arm is left to draw from")
        return DrawnPoints(self.arms[coin.stream(epoch, PURPOSE_DRAWS).integers(len(self.arms), n)])

    def features(self, keys: NDArray[Any]) -> NDArray[Any]:
        """Feature rows of arms."""
        return self.pool.take(keys)

    def survey(self, drawn: NDArray[Any]) -> Iterator[NDArray[Any]]:
        """Every active arm."""
        for start in range(0, len(self.arms), _BLOCK):
            yield self.pool.take(self.arms[start : start + _BLOCK])

    def trimmed(self, trim: Trim) -> ActivePool:
        """One pass over the active arms. The best arm always stays; if rounding says otherwise, all do."""
        if trim.cutoff == -np.inf:
            return self
        kept = np.concatenate(
            [trim.keeps(self.kernel, block, self.precision) for block in self.survey(self.arms)]
        )
        return self._with(self.arms[kept]) if kept.any() else self

    def samples_all(self, coins: list[Coin], epoch: int, n: int) -> bool:
        """A set that is not empty can always be drawn from."""
        return bool(len(self.arms))

    @property
    def domain_digest(self) -> str:
        """Of the pool."""
        return self.pool.digest

    def to_wire(self, keys: NDArray[Any]) -> NDArray[Any]:
        """One index per arm, or its features (the paper's accounting)."""
        if self.send == "indices":
            return np.asarray(keys, dtype=np.int64)
        return np.asarray(self.pool.take(keys), dtype=np.float64)

    def from_wire(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Features of the points in a message."""
        if self.send == "indices":
            return self.pool.take(self.keys_from_wire(numbers))
        return rows_from_wire(self.pool, numbers)

    def keys_from_wire(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Arm indices in a message."""
        if numbers.ndim != 1 or numbers.dtype.kind != "i":
            raise ImpossibleMessageError(
                f"arms must be a vector of indices, got {numbers.dtype} {numbers.shape}"
            )
        if len(numbers) and (numbers.min() < 0 or numbers.max() >= self.pool.n_arms):
            raise ImpossibleMessageError(
                f"arms {numbers.min()} to {numbers.max()} in a pool of {self.pool.n_arms}"
            )
        return numbers

    def message(self, epoch: int) -> Message:
        """Indices, or bits in 64-bit words, whichever are fewer."""
        n_words = -(-self.pool.n_arms // 64)
        if len(self.arms) <= n_words:
            return ActiveArms(SERVER, epoch, 0, self.arms)
        packed = np.packbits(self._mask())
        words = np.zeros(8 * n_words, dtype=np.uint8)
        words[: len(packed)] = packed
        return ActiveArms(SERVER, epoch, 1, words.view("<i8").astype(np.int64))

    def adopted(self, message: Message) -> ActivePool:
        """The arms in an `ActiveArms` message."""
        if not isinstance(message, ActiveArms):
            raise ImpossibleMessageError(f"{message.name} does not describe the arms of a pool")
        numbers = message.numbers
        if message.as_bits:
            if len(numbers) != -(-self.pool.n_arms // 64):
                raise ImpossibleMessageError(f"{len(numbers)} words of bits for {self.pool.n_arms} arms")
            bits = np.unpackbits(numbers.astype("<i8").view(np.uint8))[: self.pool.n_arms]
            numbers = np.flatnonzero(bits)
        if not len(numbers):
            raise ImpossibleMessageError("an active set without a single arm")
        return self._with(self.keys_from_wire(np.asarray(numbers, dtype=np.int64)))

    def _with(self, arms: Ints) -> ActivePool:
        return ActivePool(self.pool, self.kernel, arms, self.send, self.precision)

    def _mask(self) -> NDArray[np.bool_]:
        mask = np.zeros(self.pool.n_arms, dtype=bool)
        mask[self.arms] = True
        return mask

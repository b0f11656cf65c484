"""The interface of an active set, and the active set of a finite pool: the arms no trim has removed."""

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
_BLOCK = 4096  # arms per block, so that the kernel values of a block stay in cache


def check_numeric(pool: Pool) -> None:
    """Raise an error unless the features are numeric; other arms can only be sent as indices."""
    if pool.features.dtype.kind not in "fiu" or pool.features.ndim != 2:
        raise InvalidParameterError(
            "send", "features", f"'indices' for features of type {pool.features.dtype}"
        )


def rows_from_wire(pool: Pool, numbers: NDArray[Any]) -> NDArray[Any]:
    """Feature rows from a message, in the type of the pool (a kernel on packed bits needs bits)."""
    fits = numbers.ndim == 2 and numbers.shape[1] == pool.n_features and bool(np.isfinite(numbers).all())
    with np.errstate(all="ignore"):
        rows = numbers.astype(pool.features.dtype)
    if not fits or not np.array_equal(rows, numbers):
        raise ImpossibleMessageError(f"points of shape {numbers.shape} do not fit {pool!r}")
    return rows


@dataclass(frozen=True)
class Trim:
    """The test that keeps x when k_S(x)ᵀ`weights` ≥ `cutoff` (theory §9.1). A cutoff of −∞ keeps all."""

    inducing: NDArray[Any]  # features of S
    weights: Floats
    cutoff: float

    def keeps(self, kernel: KernelLike, points: NDArray[Any], precision: np.dtype[Any]) -> NDArray[np.bool_]:
        """A mask of the points that pass the test."""
        if self.cutoff == -np.inf:
            return np.ones(len(points), dtype=bool)
        return np.asarray(means(kernel, self.inducing, self.weights, points, precision) >= self.cutoff)


@dataclass(frozen=True)
class DrawnPoints:
    """Points drawn by one agent in one epoch: `keys` are arm indices, or coordinates in a box."""

    keys: NDArray[Any]
    complete: bool = True  # False when rejection sampling reached its cap and points were repeated

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def digest(self) -> bytes:
        """A digest of the points in their order."""
        return digest_of(self.keys)


def unique_with_counts(keys: NDArray[Any]) -> tuple[NDArray[Any], Floats]:
    """The distinct keys in order of first appearance, and how often each occurs."""
    unique, first, counts = np.unique(keys, axis=0, return_index=True, return_counts=True)
    order = np.argsort(first)
    return unique[order], counts[order].astype(np.float64)


class ActiveSet(Protocol):
    """The operations DUETS needs on an active set. Active sets are immutable; a trim returns a new one."""

    @property
    def exhaustive(self) -> bool:
        """Whether `maximisation_blocks` covers the whole set rather than a discretisation of it."""

    @property
    def precision(self) -> np.dtype[Any]:
        """The floating-point type in which the holder of this set computes."""

    @property
    def digest(self) -> bytes:
        """A digest of the set; equal digests mean equal sets."""

    @property
    def size(self) -> float:
        """The number of arms left, or an estimate of the fraction of the box that is left."""

    def draw(self, coin: Coin, epoch: int, n: int) -> DrawnPoints:
        """Draw n points uniformly with replacement."""

    def features(self, keys: NDArray[Any]) -> NDArray[Any]:
        """The features of drawn points."""

    def maximisation_blocks(self, drawn: NDArray[Any]) -> Iterator[NDArray[Any]]:
        """Blocks of features over which maxima are taken; `drawn` are the points drawn in the epoch."""

    def trimmed(self, trim: Trim) -> ActiveSet:
        """The set without the points that fail the test."""

    def can_draw_all(self, coins: list[Coin], epoch: int, n: int) -> bool:
        """Whether n points can be drawn with each of the coins."""

    @property
    def domain_digest(self) -> str:
        """The digest of the underlying pool or box."""

    def to_wire(self, keys: NDArray[Any]) -> NDArray[Any]:
        """Points as the numbers of a message."""

    def from_wire(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """The features of points in a message; raises `ImpossibleMessageError` for invalid points."""

    def keys_from_wire(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """The keys of drawn points in a message."""

    def message(self, epoch: int) -> Message:
        """A message with the whole set, for a receiver whose set differs."""

    def adopted(self, message: Message) -> ActiveSet:
        """The set described by such a message."""


@dataclass(frozen=True)
class ActivePool:
    """The arms of a pool that are still active."""

    exhaustive = True  # without an annotation: a class attribute, not a field

    pool: Pool
    kernel: KernelLike
    arms: Ints
    send: SendPoints = "indices"
    precision: np.dtype[Any] = DOUBLE

    @cached_property
    def digest(self) -> bytes:
        """A digest of the pool and of one bit per arm, so that different pools have different digests."""
        sha = hashlib.blake2b(self.pool.digest.encode(), digest_size=DIGEST_BYTES)
        sha.update(np.packbits(self._mask()).tobytes())
        return sha.digest()

    @property
    def size(self) -> float:
        """The number of active arms."""
        return float(len(self.arms))

    def draw(self, coin: Coin, epoch: int, n: int) -> DrawnPoints:
        """Draw n arms uniformly with replacement."""
        if not len(self.arms):
            raise SamplingCapError("the active set has no arms to draw from")
        return DrawnPoints(self.arms[coin.stream(epoch, PURPOSE_DRAWS).integers(len(self.arms), n)])

    def features(self, keys: NDArray[Any]) -> NDArray[Any]:
        """The feature rows of arms."""
        return self.pool.take(keys)

    def maximisation_blocks(self, drawn: NDArray[Any]) -> Iterator[NDArray[Any]]:
        """Every active arm."""
        for start in range(0, len(self.arms), _BLOCK):
            yield self.pool.take(self.arms[start : start + _BLOCK])

    def trimmed(self, trim: Trim) -> ActivePool:
        """Test every active arm. If rounding would remove all of them, the set stays as it is."""
        if trim.cutoff == -np.inf:
            return self
        kept = np.concatenate(
            [trim.keeps(self.kernel, block, self.precision) for block in self.maximisation_blocks(self.arms)]
        )
        return self._with(self.arms[kept]) if kept.any() else self

    def can_draw_all(self, coins: list[Coin], epoch: int, n: int) -> bool:
        """True unless the set is empty."""
        return bool(len(self.arms))

    @property
    def domain_digest(self) -> str:
        """The digest of the pool."""
        return self.pool.digest

    def to_wire(self, keys: NDArray[Any]) -> NDArray[Any]:
        """One index per arm, or its features, as the paper counts the cost."""
        if self.send == "indices":
            return np.asarray(keys, dtype=np.int64)
        return np.asarray(self.pool.take(keys), dtype=np.float64)

    def from_wire(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """The features of the points in a message."""
        if self.send == "indices":
            return self.pool.take(self.keys_from_wire(numbers))
        return rows_from_wire(self.pool, numbers)

    def keys_from_wire(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """The arm indices in a message."""
        if numbers.ndim != 1 or numbers.dtype.kind != "i":
            raise ImpossibleMessageError(
                f"arms must be a vector of indices, got {numbers.dtype} {numbers.shape}"
            )
        if len(numbers) and (numbers.min() < 0 or numbers.max() >= self.pool.n_arms):
            raise ImpossibleMessageError(
                f"arm indices from {numbers.min()} to {numbers.max()} in a pool of {self.pool.n_arms} arms"
            )
        return numbers

    def message(self, epoch: int) -> Message:
        """Arm indices, or one bit per arm in 64-bit words, whichever takes fewer numbers."""
        n_words = -(-self.pool.n_arms // 64)
        if len(self.arms) <= n_words:
            return ActiveArms(SERVER, epoch, 0, self.arms)
        packed = np.packbits(self._mask())
        words = np.zeros(8 * n_words, dtype=np.uint8)
        words[: len(packed)] = packed
        return ActiveArms(SERVER, epoch, 1, words.view("<i8").astype(np.int64))

    def adopted(self, message: Message) -> ActivePool:
        """The active set described by an `ActiveArms` message."""
        if not isinstance(message, ActiveArms):
            raise ImpossibleMessageError(f"{message.name} does not describe the arms of a pool")
        numbers = message.numbers
        if message.as_bits:
            if len(numbers) != -(-self.pool.n_arms // 64):
                raise ImpossibleMessageError(
                    f"{len(numbers)} words of 64 bits for a pool of {self.pool.n_arms} arms"
                )
            bits = np.unpackbits(numbers.astype("<i8").view(np.uint8))[: self.pool.n_arms]
            numbers = np.flatnonzero(bits)
        if not len(numbers):
            raise ImpossibleMessageError("the active set in the message has no arms")
        return self._with(self.keys_from_wire(np.asarray(numbers, dtype=np.int64)))

    def _with(self, arms: Ints) -> ActivePool:
        return ActivePool(self.pool, self.kernel, arms, self.send, self.precision)

    def _mask(self) -> NDArray[np.bool_]:
        mask = np.zeros(self.pool.n_arms, dtype=bool)
        mask[self.arms] = True
        return mask

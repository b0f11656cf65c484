"""Randomness addressed by purpose and number: the same seed, purpose and number give the same stream."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from manyarms.support.validation import count

if TYPE_CHECKING:
    from manyarms.support.seeding import Seed

_ONE_WORD = 1 << 32  # larger numbers take more than one word of 32 bits


@dataclass(frozen=True)
class RandomStreams:
    """Independent generators derived from one seed; generators keep no state between calls."""

    seed: int

    def __post_init__(self) -> None:
        count("seed", self.seed, minimum=0)

    def at(self, purpose: str, number: int = 0) -> np.random.Generator:
        """A fresh generator for the number-th use of a purpose."""
        seed = _seed(self.seed, _word(purpose), number)
        return np.random.Generator(np.random.PCG64(seed))  # type: ignore[arg-type]  # numpy's hint is too narrow


def _seed(seed: int, purpose: int, number: int) -> Seed | np.random.SeedSequence:
    if 0 < number < _ONE_WORD:  # many purposes have one stream alone
        return _seed_of()(seed, purpose, number)
    return np.random.SeedSequence(seed, spawn_key=(purpose, number))


@lru_cache(maxsize=256)
def _word(purpose: str) -> int:
    return zlib.crc32(purpose.encode())


@cache
def _seed_of() -> Callable[[int, int, int], Seed]:
    """`seeding.seed_of`, imported at its first use: it loads numpy.random, which takes a while."""
    from manyarms.support.seeding import seed_of

    return seed_of

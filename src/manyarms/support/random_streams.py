"""Randomness addressed by purpose and number: the same seed, purpose and number give the same stream."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from manyarms.support.validation import count


@dataclass(frozen=True)
class RandomStreams:
    """Independent generators derived from one seed; generators keep no state between calls."""

    seed: int

    def __post_init__(self) -> None:
        count("seed", self.seed, minimum=0)

    def at(self, purpose: str, number: int = 0) -> np.random.Generator:
        """A fresh generator for the number-th use of a purpose."""
        sequence = np.random.SeedSequence(self.seed, spawn_key=(zlib.crc32(purpose.encode()), number))
        return np.random.Generator(np.random.PCG64(sequence))

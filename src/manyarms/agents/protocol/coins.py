"""Private coins: counter-based random streams that an agent tosses and the server replays.

A coin is the 128-bit key of a Philox generator, derived by hashing from the run's seed and the agent's
number: an agent that holds its own coin learns nothing about the others', the server derives them all
(DUETS §3, "shared randomness"). The counter's high words are the epoch and the purpose, so the stream
of any epoch can be had without running through the ones before.

Only the generator's raw 64-bit output is used. Its bits are fixed by NumPy's compatibility promise,
which the distributions of `Generator` are not; two machines must draw the same arms.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from manyarms.support.validation import Floats, Ints

PURPOSE_DRAWS, PURPOSE_INDUCING, PURPOSE_PROBES, PURPOSE_TIES = 1, 2, 3, 4

_SERVER_COIN, _PUBLIC_COIN = -1, -2


@dataclass(frozen=True)
class Coin:
    """The key of one party's random streams."""

    key: bytes

    @classmethod
    def of_agent(cls, seed: int, agent: int) -> Coin:
        """The private coin of one agent."""
        text = f"manyarms coin|{int(seed)}|{int(agent)}".encode()
        return cls(hashlib.blake2b(text, digest_size=16).digest())

    @classmethod
    def of_server(cls, seed: int) -> Coin:
        """The server's own coin, which no agent has."""
        return cls.of_agent(seed, _SERVER_COIN)

    @classmethod
    def public(cls) -> Coin:
        """A coin everybody has, whatever the seed."""
        return cls.of_agent(0, _PUBLIC_COIN)

    def stream(self, epoch: int, purpose: int) -> Stream:
        """The stream of one epoch for one purpose, from its beginning."""
        key = np.frombuffer(self.key, dtype="<u8").astype(np.uint64)
        counter = np.array([0, 0, purpose, epoch], dtype=np.uint64)
        return Stream(np.random.Philox(key=key, counter=counter))

    @property
    def fingerprint(self) -> str:
        """Tells two coins apart without giving them away."""
        return hashlib.blake2b(b"fingerprint|" + self.key, digest_size=8).hexdigest()


class Stream:
    """Uniform numbers out of raw Philox output."""

    def __init__(self, bits: np.random.Philox) -> None:
        self._bits = bits

    def uniform(self, size: int) -> Floats:
        """Numbers in [0, 1): the upper 53 bits of each word."""
        raw: NDArray[np.uint64] = np.asarray(self._bits.random_raw(size), dtype=np.uint64)
        return np.asarray((raw >> np.uint64(11)).astype(np.float64) * 2.0**-53)

    def integers(self, below: int, size: int) -> Ints:
        """Whole numbers in [0, below); the bias is below/2⁵³."""
        return np.asarray(np.floor(self.uniform(size) * below), dtype=np.int64)

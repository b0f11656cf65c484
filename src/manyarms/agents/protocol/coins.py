"""Private coins: counter-based random streams that an agent uses and the server can replay.

A coin is the 128-bit key of a Philox generator, derived by hashing the run's seed and the agent's number. An
agent's coin reveals nothing about the coins of the others, while the server derives all of them (DUETS §3,
"shared randomness"). The high words of the counter are the epoch and the purpose, so the stream of any epoch
can be generated without the streams before it.

Only the raw 64-bit output of the generator is used, because two machines must draw the same arms: NumPy's
compatibility policy fixes the raw output, but not the distributions of `Generator`.
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
    """The key of the random streams of one party."""

    key: bytes

    @classmethod
    def of_agent(cls, seed: int, agent: int) -> Coin:
        """The private coin of one agent."""
        text = f"manyarms coin|{int(seed)}|{int(agent)}".encode()
        return cls(hashlib.blake2b(text, digest_size=16).digest())

    @classmethod
    def of_server(cls, seed: int) -> Coin:
        """The coin of the server, which no agent knows."""
        return cls.of_agent(seed, _SERVER_COIN)

    @classmethod
    def public(cls) -> Coin:
        """A coin that all parties know and that does not depend on the seed."""
        return cls.of_agent(0, _PUBLIC_COIN)

    def stream(self, epoch: int, purpose: int) -> Stream:
        """The stream for one epoch and purpose, from its beginning."""
        key = np.frombuffer(self.key, dtype="<u8").astype(np.uint64)
        counter = np.array([0, 0, purpose, epoch], dtype=np.uint64)
        return Stream(np.random.Philox(key=key, counter=counter))

    @property
    def fingerprint(self) -> str:
        """A digest that distinguishes coins without revealing them."""
        return hashlib.blake2b(b"fingerprint|" + self.key, digest_size=8).hexdigest()


class Stream:
    """Uniform numbers from the raw output of a Philox generator."""

    def __init__(self, bits: np.random.Philox) -> None:
        self._bits = bits

    def uniform(self, size: int) -> Floats:
        """Numbers in [0, 1), from the upper 53 bits of each word."""
        raw: NDArray[np.uint64] = np.asarray(self._bits.random_raw(size), dtype=np.uint64)
        return np.asarray((raw >> np.uint64(11)).astype(np.float64) * 2.0**-53)

    def integers(self, below: int, size: int) -> Ints:
        """Integers in [0, below), with a bias of at most below/2⁵³."""
        return np.asarray(np.floor(self.uniform(size) * below), dtype=np.int64)

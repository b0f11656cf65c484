"""Private coins: counter-based random streams that an agent uses and the server can replay.

A coin is the 128-bit key of a Philox generator. An agent has its own coin, which reveals nothing about the
others; the server has one for every agent, and one of its own (`Coins`; DUETS §3, "shared randomness").
Between organisations the keys are random. In a simulation they are derived from a seed, and whoever knows the
seed has every coin. The high words of the counter are the epoch and the purpose, so the stream of any epoch
can be generated without the streams before it.

Only the raw 64-bit output of the generator is used, because two machines must draw the same arms: NumPy's
compatibility policy fixes the raw output, but not the distributions of `Generator`.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from manyarms.errors import InvalidParameterError
from manyarms.support.validation import Floats, Ints, count

PURPOSE_DRAWS, PURPOSE_INDUCING, PURPOSE_PROBES, PURPOSE_TIES = 1, 2, 3, 4

KEY_BYTES = 16
_SERVER_COIN, _PUBLIC_COIN = -1, -2


@dataclass(frozen=True)
class Coin:
    """The key of the random streams of one party."""

    key: bytes = field(repr=False)  # a secret, so that it must not appear in logs

    def __post_init__(self) -> None:
        if not isinstance(self.key, bytes) or len(self.key) != KEY_BYTES:
            raise InvalidParameterError("key", type(self.key).__name__, f"{KEY_BYTES} bytes")

    @classmethod
    def random(cls) -> Coin:
        """A new coin that nobody else has."""
        return cls(secrets.token_bytes(KEY_BYTES))

    @classmethod
    def of_agent(cls, seed: int, agent: int) -> Coin:
        """The coin of one agent in a simulation with this seed."""
        text = f"manyarms coin|{int(seed)}|{int(agent)}".encode()
        return cls(hashlib.blake2b(text, digest_size=KEY_BYTES).digest())

    @classmethod
    def of_server(cls, seed: int) -> Coin:
        """The coin of the server in a simulation with this seed."""
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


@dataclass(frozen=True)
class Coins:
    """What a server keeps: its own coin, and the coin of every agent."""

    server: Coin
    agents: tuple[Coin, ...]

    @classmethod
    def random(cls, n_agents: int) -> Coins:
        """New coins for a run between organisations; each agent receives only its own."""
        return cls(Coin.random(), tuple(Coin.random() for _ in range(count("n_agents", n_agents))))

    @classmethod
    def from_seed(cls, seed: int, n_agents: int) -> Coins:
        """The coins of a simulation: the same seed gives the same run."""
        seed = count("seed", seed, minimum=0)
        return cls(Coin.of_server(seed), tuple(Coin.of_agent(seed, n) for n in range(n_agents)))

    @property
    def fingerprints(self) -> list[str]:
        """The fingerprints of the server's coin and of the agents' coins."""
        return [self.server.fingerprint, *(coin.fingerprint for coin in self.agents)]


def check_coins(coins: Coins, n_agents: int) -> None:
    """Raise an error unless there is one coin for every agent."""
    if not isinstance(coins, Coins) or len(coins.agents) != n_agents:
        held = len(coins.agents) if isinstance(coins, Coins) else coins
        raise InvalidParameterError("coins", held, f"Coins for {n_agents} agents, as from Coins.random")


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

"""Randomness as part of a run's state: one seed, one independent stream per named purpose."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from manyarms.validation import count


class Streams:
    """Generators by name. A stream depends on the seed and its name alone, not on when it is first used."""

    def __init__(self, seed: int) -> None:
        self.seed = count("seed", seed, minimum=0)
        self._generators: dict[str, np.random.Generator] = {}

    def __call__(self, name: str) -> np.random.Generator:
        """The stream of this name, at the place it has reached."""
        if name not in self._generators:
            sequence = np.random.SeedSequence(self.seed, spawn_key=(zlib.crc32(name.encode()),))
            self._generators[name] = np.random.Generator(np.random.PCG64(sequence))
        return self._generators[name]

    def state(self) -> dict[str, Any]:
        """Where every stream stands, in plain numbers and strings."""
        return {name: generator.bit_generator.state for name, generator in self._generators.items()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to a place taken with `state`; streams not in it start anew."""
        self._generators = {name: self._generators[name] for name in self._generators if name in state}
        for name, place in state.items():
            self(name).bit_generator.state = place

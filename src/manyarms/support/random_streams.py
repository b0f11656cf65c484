"""Randomness as part of a run's state: one seed, one independent stream per named purpose."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from manyarms.support.validation import count


class Streams:
    """Generators by name. A stream depends on the seed and its name alone, not on when it is first used."""

    def __init__(self, seed: int) -> None:
        self.seed = count("seed", seed, minimum=0)
        self._generators: dict[str, np.random.Generator] = {}
        self._places: dict[str, Any] | None = None  # of the streams used since `unused_on_error` began

    def __call__(self, name: str) -> np.random.Generator:
        """The stream of this name, at the place it has reached."""
        if name not in self._generators:
            sequence = np.random.SeedSequence(self.seed, spawn_key=(zlib.crc32(name.encode()),))
            self._generators[name] = np.random.Generator(np.random.PCG64(sequence))
        generator = self._generators[name]
        if self._places is not None and name not in self._places:
            self._places[name] = generator.bit_generator.state
        return generator

    def at(self, name: str, number: int) -> np.random.Generator:
        """A stream of its own for the number-th use of a purpose; nothing of it is kept."""
        sequence = np.random.SeedSequence(self.seed, spawn_key=(zlib.crc32(name.encode()), number))
        return np.random.Generator(np.random.PCG64(sequence))

    @contextmanager
    def unused_on_error(self) -> Iterator[None]:
        """When what is inside fails, every stream is where it was before."""
        self._places = {}
        try:
            yield
        except BaseException:
            for name, place in self._places.items():
                self._generators[name].bit_generator.state = place
            raise
        finally:
            self._places = None

    def state(self) -> dict[str, Any]:
        """Where every stream stands, in plain numbers and strings."""
        return {name: generator.bit_generator.state for name, generator in self._generators.items()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to a place taken with `state`; streams not in it start anew."""
        self._generators = {name: self._generators[name] for name in self._generators if name in state}
        for name, place in state.items():
            self(name).bit_generator.state = place

"""Randomness as part of a run's state: one seed, one independent stream per named purpose."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from manyarms.support.validation import count


class Streams:
    """Generators by name. A stream depends only on the seed and its name, not on when it is first used."""

    def __init__(self, seed: int) -> None:
        self.seed = count("seed", seed, minimum=0)
        self._generators: dict[str, np.random.Generator] = {}
        self._saved_states: dict[str, Any] | None = None  # in `unused_on_error`

    def __call__(self, name: str) -> np.random.Generator:
        """The stream of this name, in its current state."""
        if name not in self._generators:
            sequence = np.random.SeedSequence(self.seed, spawn_key=(zlib.crc32(name.encode()),))
            self._generators[name] = np.random.Generator(np.random.PCG64(sequence))
        generator = self._generators[name]
        if self._saved_states is not None and name not in self._saved_states:
            self._saved_states[name] = generator.bit_generator.state
        return generator

    def at(self, name: str, number: int) -> np.random.Generator:
        """A separate stream for the number-th use of a purpose; its state is not kept."""
        sequence = np.random.SeedSequence(self.seed, spawn_key=(zlib.crc32(name.encode()), number))
        return np.random.Generator(np.random.PCG64(sequence))

    @contextmanager
    def unused_on_error(self) -> Iterator[None]:
        """Restore the state of every stream if the block raises."""
        self._saved_states = {}
        try:
            yield
        except BaseException:
            for name, saved in self._saved_states.items():
                self._generators[name].bit_generator.state = saved
            raise
        finally:
            self._saved_states = None

    def state(self) -> dict[str, Any]:
        """The state of every stream, as plain numbers and strings."""
        return {name: generator.bit_generator.state for name, generator in self._generators.items()}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned; streams that are not in it start from the beginning."""
        self._generators = {name: self._generators[name] for name in self._generators if name in state}
        for name, saved in state.items():
            self(name).bit_generator.state = saved

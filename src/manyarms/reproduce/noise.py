"""Common random numbers: the noise of a pull depends on the seed, the arm and how often it was pulled before.

So two methods that pull an arm equally often see the same rewards of it, in whatever order they come to it,
and differences between methods are not differences of luck. The generator is counter based (Philox): the
noise of any pull is computed from its name alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from manyarms.support.validation import Floats


def standard_noise(seed: int, stream: int, arm: int, pull: int) -> float:
    """A standard normal number that belongs to this pull. Two counter words are left to the draw itself."""
    generator = np.random.Philox(key=[seed, stream], counter=[0, 0, pull, arm])
    return float(np.random.Generator(generator).standard_normal())


class PullNoise:
    """Noise of one run, pull after pull; `stream` separates agents that pull the same arms."""

    def __init__(self, noise_std: float, seed: int, stream: int = 0) -> None:
        self.noise_std, self._seed, self._stream = noise_std, seed, stream
        self._pulls: Counter[int] = Counter()

    def __call__(self, arms: Iterable[int]) -> Floats:
        """The noise of the next pull of each of these arms."""
        return self.noise_std * np.array([self._next(int(arm)) for arm in arms])

    def _next(self, arm: int) -> float:
        self._pulls[arm] += 1
        return standard_noise(self._seed, self._stream, arm, self._pulls[arm])

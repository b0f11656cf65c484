"""Common random numbers: the noise of a pull depends only on the seed, the arm and its earlier pulls.

Two methods that pull an arm equally often therefore observe the same rewards for it, in whatever order they
pull, and differences between methods are not due to different noise. The generator is counter-based (Philox),
so the noise of any pull is computed directly from arm and pull number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from manyarms.support.validation import Floats


def standard_noise(seed: int, stream: int, arm: int, pull: int) -> float:
    """The standard normal number of this pull. Two words of the counter are left for the draw itself."""
    generator = np.random.Philox(key=[seed, stream], counter=[0, 0, pull, arm])
    return float(np.random.Generator(generator).standard_normal())


class PullNoise:
    """The noise of one run; `stream` separates agents that pull the same arms."""

    def __init__(self, noise_std: float, seed: int, stream: int = 0) -> None:
        self.noise_std, self._seed, self._stream = noise_std, seed, stream
        self._pulls: Counter[int] = Counter()

    def __call__(self, arms: Iterable[int]) -> Floats:
        """The noise of the next pull of each of these arms."""
        return self.noise_std * np.array([self._next(int(arm)) for arm in arms])

    def _next(self, arm: int) -> float:
        self._pulls[arm] += 1
        return standard_noise(self._seed, self._stream, arm, self._pulls[arm])

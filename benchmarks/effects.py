"""Generated tables in which numbers have other effects in one category than in the next.

The names of `TABLES` are pools of `benchmarks.decisions`, which also knows them as the group `effects`. Every
function returns the features of all candidates and four noisy values of each, and is deterministic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

    Loaded = tuple[pd.DataFrame, np.ndarray]

N = 8000


def shared_and_own() -> Loaded:
    """Effects of three columns that six methods have in common, a wave and a slope of each method's own."""
    rng = np.random.default_rng(41)
    method, x = rng.integers(6, size=N), rng.random((N, 4))
    value = np.sin(5 * x[:, 0]) + 1.5 * x[:, 1] * x[:, 2]
    phase, slope = rng.uniform(0, 6.3, size=6), rng.normal(size=(6, 2))
    value += 0.8 * np.sin(6 * x[:, 3] + phase[method])
    value += 0.7 * slope[method, 0] * (x[:, 1] - 0.5) + 0.3 * slope[method, 1]
    return _table(x, method, "abcdef"), value[:, None] + 0.1 * rng.normal(size=(N, 4))


def peaks_by_method() -> Loaded:
    """In each of four methods a peak in another pair of six columns; the other four do not matter there."""
    rng = np.random.default_rng(40)
    method, x = rng.integers(4, size=N), rng.random((N, 6))
    pairs, tops = [(0, 1), (2, 3), (4, 5), (0, 3)], [0.5, 0.2, 0.0, 0.8]
    centre, value = rng.uniform(0.15, 0.85, size=(4, 2)), np.zeros(N)
    for k, (pair, top) in enumerate(zip(pairs, tops, strict=True)):
        here = method == k
        value[here] = top - 3 * ((x[here][:, pair] - centre[k]) ** 2).sum(axis=1)
    return _table(x, method, "abcd"), value[:, None] + 0.1 * rng.normal(size=(N, 4))


def _table(x: np.ndarray, method: np.ndarray, names: str) -> pd.DataFrame:
    import pandas as pd

    frame = pd.DataFrame(x, columns=list("uvwxyz")[: x.shape[1]])
    frame["method"] = pd.Categorical(np.array(list(names))[method])
    return frame


TABLES: dict[str, Callable[[], Loaded]] = {each.__name__: each for each in (shared_and_own, peaks_by_method)}

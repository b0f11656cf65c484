"""draft"""
from __future__ import annotations
import itertools
import numpy as np
import pandas as pd

METHODS = ("direct", "tiled", "packed", "split", "fused")


def _settings():
    grid = itertools.product((0, 1), (0, 1), (0, 1), (0, 1), range(len(METHODS)), range(6), range(11), range(13))
    return np.array(list(grid))


def plateau(seed=30, tops=(0.22, 0.30, -0.15, -0.1), steep=2.4, power=1.0, flags=0.004, ripple=0.0, n=None):
    rng = np.random.default_rng(seed)
    rows = _settings()
    on, method, x = rows[:, :4], rows[:, 4], rows[:, 5:] / [5.0, 10.0, 12.0]
    value = on @ (flags * rng.normal(size=4))
    value += 0.003 * rng.normal(size=len(rows))
    for k in range(1, 5):
        here = method == k
        centre, weight = rng.uniform(0.1, 0.9, size=3), rng.uniform(0.6, 1.4, size=3)
        far = np.sqrt((weight * (x[here] - centre) ** 2).sum(axis=1))
        effect = on[here] @ (0.05 * rng.normal(size=4))
        value[here] = tops[k - 1] + effect - steep * far**power
    frame = pd.DataFrame(np.column_stack([on, rows[:, 5:]]), columns=["a", "b", "c", "d", "threads", "block", "depth"])
    frame["method"] = pd.Categorical(np.array(METHODS)[method])
    if n is not None:
        pick = np.random.default_rng(1).choice(len(frame), n, replace=False)
        return frame.iloc[pick], value[pick]
    return frame, value

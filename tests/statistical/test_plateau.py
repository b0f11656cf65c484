"""The default leaves a plateau of thousands of nearly equal candidates (theory §8.13 and §8.14)."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.plateaus import METHODS, plateau, tried

RUNS = 8


@pytest.mark.slow
def test_runs_find_what_is_better_than_a_plateau():
    """Four of these eight runs did not before scales were passed over and scouts sent."""
    features, value = plateau()
    level = value[(features["method"] == METHODS[0]).to_numpy()].max()
    found = [value[tried(features, value, seed, 200)].max() for seed in range(RUNS)]
    assert np.sum(np.array(found) < level + 0.05) <= 1

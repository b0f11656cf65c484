"""Fixtures that all tests share."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator of the test's own, so that its numbers do not depend on which tests ran before."""
    return np.random.default_rng(7)

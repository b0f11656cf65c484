"""Fixtures that all tests share."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.campaigns.server import running_server


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator of the test's own, so that its numbers do not depend on which tests ran before."""
    return np.random.default_rng(7)


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of a PostgreSQL server, which runs as long as the tests do."""
    with running_server() as address:
        yield address

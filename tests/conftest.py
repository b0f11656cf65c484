"""Fixtures that all tests share, and how the suites run."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

import numpy as np
import pytest

from tests.campaigns.server import running_server

with contextlib.suppress(ImportError):  # `make test-peers` and `make test-flower` have no property tests
    from hypothesis import HealthCheck, settings

    # The same examples in every run, so that a change fails for what it changes, and no limit that depends on
    # how busy the machine is. `pytest --hypothesis-profile=explore` looks at new examples.
    settings.register_profile(
        "fixed", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.register_profile(
        "explore", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
    )
    settings.load_profile("fixed")


# A shell starts programs in the background with Ctrl-C ignored, and their children would ignore it as well.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One process more than cores: a test that waits leaves its core to another one."""
    return (os.cpu_count() or 1) + 1


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator of the test's own, so that its numbers do not depend on which tests ran before."""
    return np.random.default_rng(7)


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of a PostgreSQL server, which runs as long as the tests do."""
    with running_server() as address:
        yield address

from __future__ import annotations

from collections.abc import Iterator

import pytest
from distributed import Client, LocalCluster

from manyarms.engines import base
from tests.engines.campaigns import BLOCK


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shards begin at multiples of a smaller number, so that small pools have many of them."""
    monkeypatch.setattr(base, "BLOCK", BLOCK)


@pytest.fixture(scope="session")
def client() -> Iterator[Client]:
    """A client of two worker processes on this machine."""
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            silence_logs=50,
        ) as cluster,
        Client(cluster) as connected,
    ):
        yield connected

"""Where campaigns of the tests are kept: in a file, and on a PostgreSQL server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaigns.server import fresh_database


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where to keep a campaign; PostgreSQL among the slow tests."""
    if request.param == "sqlite":
        return str(tmp_path / "c.db")
    return f"{fresh_database(request.getfixturevalue('server'))}#screen 7"

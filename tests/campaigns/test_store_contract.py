"""SQLite and PostgreSQL keep the promises of a campaign store."""

from __future__ import annotations

from pathlib import Path

import pytest

from manyarms.campaigns.store.store import Store
from manyarms.testing import CampaignStoreContract
from tests.campaigns.server import fresh_database


class TestSQLite(CampaignStoreContract):
    @pytest.fixture(autouse=True)
    def empty_database(self, tmp_path: Path) -> None:
        self.address = str(tmp_path / "c.db")

    def store(self) -> Store:
        return Store(self.address)


@pytest.mark.slow
class TestPostgreSQL(CampaignStoreContract):
    @pytest.fixture(autouse=True)
    def empty_database(self, server: str) -> None:
        self.address = f"{fresh_database(server)}#screen 7"

    def store(self) -> Store:
        return Store(self.address)

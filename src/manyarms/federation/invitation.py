"""An invitation: the file with which an organisation joins a run. It holds the agent's keys and is secret."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from manyarms.agents import Coin
from manyarms.errors import InvalidParameterError, RunFileError
from manyarms.federation.description import RunDescription
from manyarms.federation.sqlite_file import INVITATION, other_kind

_FORMAT, _VERSION = INVITATION, 1
KEY_BYTES = 32


@dataclass(frozen=True)
class Invitation:
    """The description of the run, the agent's number, its key for packets, and its coin."""

    description: RunDescription
    agent: int
    key: bytes = field(repr=False)
    coin: Coin
    name: str = ""
    url: str = ""  # of the mailbox; empty if packets travel another way
    certificate: str = ""  # PEM of the authority behind the server's certificate, if it is private

    def to_plain(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "format": _FORMAT, "version": _VERSION, "name": self.name, "url": self.url, "agent": self.agent,
            "key": self.key.hex(), "coin": self.coin.key.hex(), "certificate": self.certificate,
            "description": self.description.to_plain(),
        }  # fmt: skip

    @classmethod
    def from_plain(cls, plain: Any) -> Invitation:
        """The inverse of `to_plain`; anything else is refused."""
        try:
            if plain["format"] != _FORMAT or plain["version"] != _VERSION:
                raise ValueError(f"format {plain['format']!r}, version {plain['version']!r}")
            key, coin = bytes.fromhex(plain["key"]), Coin(bytes.fromhex(plain["coin"]))
            found = cls(
                RunDescription.from_plain(plain["description"]), int(plain["agent"]), key, coin,
                str(plain["name"]), str(plain["url"]), str(plain["certificate"]),
            )  # fmt: skip
            if len(key) != KEY_BYTES or not 0 <= found.agent < found.description.n_agents:
                raise ValueError(f"a key of {len(key)} bytes for agent {found.agent}")
        except (TypeError, KeyError, ValueError, InvalidParameterError) as problem:
            raise RunFileError(f"not an invitation: {problem}") from None
        return found

    def write(self, path: Path) -> None:
        """Write a new file that only its owner can read."""
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except OSError as problem:
            raise RunFileError(f"{path}: cannot be created: {problem.strerror}") from None
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            json.dump(self.to_plain(), stream, indent=1)

    @classmethod
    def read(cls, path: Path) -> Invitation:
        """The invitation in a file."""
        try:
            plain = json.loads(path.read_text(encoding="utf-8"))
        except OSError as problem:
            raise RunFileError(f"{path}: {problem.strerror}") from None
        except ValueError:  # not a text, or not JSON
            raise other_kind(path, INVITATION) from None
        try:
            return cls.from_plain(plain)
        except RunFileError as problem:
            raise RunFileError(f"{path}: {problem}") from None

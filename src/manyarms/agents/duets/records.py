"""What a DUETS server remembers of its epochs, and how it is saved and restored."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from manyarms.agents.protocol.coins import Coin
from manyarms.agents.protocol.saved import pack, unpack
from manyarms.agents.protocol.wire import decode, encode

if TYPE_CHECKING:
    from manyarms.agents.duets.server import DuetsServer


@dataclass(frozen=True)
class EpochRecord:
    """One line of the run's minutes."""

    epoch: int
    length: int
    active_size: float  # before the trim: arms of a pool, or share of a box
    present: tuple[int, ...]
    left_out: tuple[int, ...]
    n_inducing: int
    inclusion: float  # p_j
    sigma_max: float
    cutoff: float
    trim_withheld: bool
    corrections: int

    def plain(self) -> dict[str, Any]:
        """For JSON, which has no infinity: a cutoff that keeps everything is null there."""
        return asdict(self) | {"cutoff": self.cutoff if math.isfinite(self.cutoff) else None}

    @classmethod
    def of(cls, plain: dict[str, Any]) -> EpochRecord:
        """The record back."""
        values = {name: tuple(v) if isinstance(v, list) else v for name, v in plain.items()}
        return cls(**values | {"cutoff": -math.inf if plain["cutoff"] is None else plain["cutoff"]})


def fingerprint(server: DuetsServer) -> dict[str, Any]:
    """Which run a state belongs to: settings, domain, and the coin's fingerprint (never the coin)."""
    return {
        "settings": server.settings.described(),
        "domain": server.active.domain_digest,
        "coin": Coin.of_server(server._seed).fingerprint,
    }


def saved_duets(server: DuetsServer) -> bytes:
    """The server between two messages. Draws are not saved: the coins bring them back."""
    senders = sorted(server.projections)
    meta = {
        "epoch": server.epoch,
        "phase": server.phase,
        "ready": sorted(server.ready),
        "excluded": sorted(server.excluded),
        "absent": sorted(server.absent),
        "pinged": sorted(server.pinged),
        "asked": server.asked,
        "corrections": sorted(server.corrections.items()),
        "participants": server.participants,
        "senders": senders,
        "inclusion": server.inclusion,
        "ignored": server.ignored,
        "records": [record.plain() for record in server.records],
    }
    projections = [server.projections[n] for n in senders]
    arrays = {
        "active": np.frombuffer(encode(server.active.message(server.epoch)), dtype=np.uint8),
        "inducing": server.inducing,
        "projections": np.array(projections) if projections else np.empty((0, len(server.inducing))),
    }
    return pack("DUETS", fingerprint(server), meta, arrays)


def restore_duets(server: DuetsServer, state: bytes) -> None:
    """Bring a fresh server into a saved state."""
    meta, arrays = unpack(state, "DUETS", fingerprint(server))
    server.active = server.active.adopted(decode(arrays["active"].tobytes()))
    server.epoch, server.phase = meta["epoch"], meta["phase"]
    server._begin_collecting()
    server.ready, server.excluded = set(meta["ready"]), set(meta["excluded"])
    server.absent, server.pinged = set(meta["absent"]), set(meta["pinged"])
    server.asked, server.corrections = meta["asked"], dict(meta["corrections"])
    server.participants = tuple(meta["participants"])
    server.inclusion, server.ignored = meta["inclusion"], meta["ignored"]
    server.inducing = arrays["inducing"]
    server.projections = dict(zip(meta["senders"], arrays["projections"], strict=True))
    server.records = [EpochRecord.of(record) for record in meta["records"]]

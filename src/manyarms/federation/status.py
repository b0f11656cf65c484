"""The progress of a run as plain data: the same for the command, for programs and for the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from manyarms.agents import Server
from manyarms.federation.description import Domain, Units
from manyarms.federation.presence import Presence
from manyarms.federation.run_file import RunFile
from manyarms.pool.pool import Pool

Sum = Callable[..., int]
PHASES = {  # what happens now, by the phase of the server's state machine
    "collecting ready": "the agents enter the epoch",
    "collecting projections": "the agents measure",
    "collecting data": "the agents send their trials",
    "collecting points": "the agents send their points",
    "collecting statistics": "the agents send their sums",
    "idle": "the agents measure",
    "done": "the agents make their last trials",
}


def happening(status: dict[str, Any]) -> str:
    """For whom the server waits, or what is going on."""
    if status["over"]:
        return "the run is over"
    names = [called(status["agents"][agent]) for agent in status["waiting_for"]]
    return f"waits for {', '.join(names)}" if names else PHASES.get(status["phase"], status["phase"])


def called(agent: dict[str, Any]) -> str:
    """The name of an agent, or its number."""
    return agent["name"] or f"agent {agent['agent']}"


def run_status(file: RunFile, server: Server, domain: Domain, presence: Presence) -> dict[str, Any]:
    """Epochs or syncs, who takes part, what was sent, what is left and its bound; no keys."""
    description, traffic = file.description, file.traffic()
    sent = _sums(traffic)
    return {
        "run": description.run,
        "algorithm": description.algorithm,
        "horizon": description.settings["horizon"],
        "candidates": domain.n_arms if isinstance(domain, Pool) else None,
        "units": asdict(description.units),
        "lockstep": description.lockstep,
        "round": file.fact("round", 1) if description.lockstep else None,
        "over": presence.is_over(server),
        "waiting_for": list(server.waiting_for),
        **_summary(server, domain, description.units),
        "agents": [
            {
                "agent": row.number,
                "name": row.name,
                "state": presence.state(row),
                "last_seen": row.last_seen,
                "reals_up": sent("up", "reals", row.number),
                "bytes_up": sent("up", "bytes", row.number),
                "reals_down": sent("down", "reals", row.number),
                "bytes_down": sent("down", "bytes", row.number),
            }
            for row in presence.agents
        ],
        "traffic": _by_kind(traffic),
        "cost": {
            "uplink": sent("up", "reals") / description.n_agents,
            "downlink": sent("down", "reals") / description.n_agents,
            "resent": sent("down", "again") / description.n_agents,
            "messages": sent("up", "messages") + sent("down", "messages"),
            "n_bytes": sent("up", "bytes") + sent("down", "bytes"),
        },
        "refused": sum(line["kind"] == "refused" for line in file.log()),
    }


def _sums(traffic: list[dict[str, Any]]) -> Sum:
    def sent(direction: str, what: str, agent: int | None = None) -> int:
        return sum(
            row[what] for row in traffic if row["direction"] == direction and agent in (None, row["agent"])
        )

    return sent


def _by_kind(traffic: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What all agents together have sent and received, by kind of message."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in traffic:
        key = row["direction"], row["kind"]
        sums = found.setdefault(
            key, {"direction": key[0], "kind": key[1], "messages": 0, "reals": 0, "bytes": 0}
        )
        for name in ("messages", "reals", "bytes"):
            sums[name] += row[name]
    return list(found.values())


def _summary(server: Server, domain: Domain, units: Units) -> dict[str, Any]:
    """The server's summary; what is in units of the reward also in the units of the values."""
    summary = server.summary()
    best = summary.get("best")
    if best is not None and isinstance(domain, Pool):
        id = str(domain.id_of(best["arm"]))
        summary["best"] = {"id": id, **best, "value": units.value(best["mean"])}
    if summary.get("bound") is not None:
        summary["bound_value"] = summary["bound"] * units.scale
    return summary

"""What the page of a run of agents shows, from the status of its hub: progress, agents, traffic, the log."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from manyarms.campaigns.text import counted
from manyarms.federation.status import called, happening
from manyarms.plots.numbers import number
from manyarms.service.page.contents import age

MOST_LINES = 200
UP, DOWN = "to the server", "to the agents"


def run_parts(status: dict[str, Any], log: list[dict[str, Any]], now: float) -> dict[str, Any]:
    """The parts of the page, ready for its templates."""
    return {
        "headline": _headline(status),
        "epochs": _epochs(status),
        "agents": [_agent(each, now) for each in status["agents"]],
        "traffic": [_kind(each) for each in status["traffic"]],
        "cost": status["cost"],
        "log": [
            {**line, "moment": _moment(line["time"]), "bad": line["kind"] == "refused"}
            for line in log[: -MOST_LINES - 1 : -1]
        ],
        "n_lines": len(log),
        "facts": _facts(status),
    }


def run_line(status: dict[str, Any]) -> dict[str, Any]:
    """One line about a run, for the list of all runs."""
    if "error" in status:
        return {"name": status["name"], "problem": status["error"]}
    here = sum(each["state"] in ("present", "done") for each in status["agents"])
    return {
        "name": status["name"], "run": status["run"], "problem": None, "algorithm": status["algorithm"],
        "state": _state(status), "here": f"{here} of {len(status['agents'])}",
        "sent": size(status["cost"]["n_bytes"]), "refused": status["refused"],
    }  # fmt: skip


def size(n_bytes: int) -> str:
    """A number of bytes for people."""
    for length, unit in ((1_000_000, "MB"), (1_000, "kB")):
        if n_bytes >= length:
            return f"{n_bytes / length:.1f} {unit}"
    return f"{n_bytes} B"


def _state(status: dict[str, Any]) -> str:
    if status["over"]:
        return "over"
    if "epoch" in status:
        return f"epoch {status['epoch']} of {status['n_epochs']}"
    return counted(status["syncs"], "sync") if "syncs" in status else "in progress"


def _headline(status: dict[str, Any]) -> list[dict[str, str]]:
    cost = status["cost"]
    tiles = [{"title": "State", "figure": _state(status).capitalize(), "note": happening(status)}]
    if "epoch" in status:
        tiles += _search_tiles(status)
    elif "shared_pulls" in status:
        shared = status["shared_pulls"]
        pulls = sum(shared) if isinstance(shared, list) else shared
        tiles.append({"title": "Shared trials", "figure": number(pulls), "note": "since the first sync"})
    return [
        *tiles,
        {
            "title": "Sent", "figure": size(cost["n_bytes"]),
            "note": f"{cost['uplink']:,.0f} numbers up and {cost['downlink']:,.0f} down per agent",
        },
        {"title": "Refused", "figure": number(status["refused"]), "note": "each is a line in the log"},
    ]  # fmt: skip


def _search_tiles(status: dict[str, Any]) -> list[dict[str, str]]:
    """The active set, its bound and the best candidate of a run in epochs."""
    best, bound = status["best"], status.get("bound_value")
    return [
        {
            "title": "Candidates left", "figure": _left(status["active"], status),
            "note": f"of {number(status['candidates'])}" if status["candidates"] else "of the box",
        },
        {
            "title": "Bound", "figure": number(bound),
            "note": "known after the first epoch" if bound is None
            else "no candidate left falls further short of the best one",
        },
        {
            "title": "Best by the common mean", "figure": number(best["value"]) if best else "–",
            "note": best["id"] if best else "known after the first epoch",
        },
    ]  # fmt: skip


def _left(active: float, status: dict[str, Any]) -> str:
    return number(int(active)) if status["candidates"] else f"{100 * active:.3g} %"


def _epochs(status: dict[str, Any]) -> list[dict[str, Any]]:
    """All epochs of the plan: those that are complete, the present one, and those to come."""
    if "epochs" not in status:
        return []
    records = {record["epoch"]: record for record in status["epochs"]}
    scale, whole = status["units"]["scale"], status["candidates"] or 1.0
    found = []
    for epoch, length in enumerate(status["lengths"], start=1):
        record, present = records.get(epoch), epoch == status["epoch"] and not status["over"]
        active = record["active_size"] if record else status["active"] if present else None
        sigma = record["sigma_max"] if record else 0.0
        found.append(
            {
                "epoch": epoch, "trials": length,
                "state": "complete" if record else "now" if present else "later",
                "left": "–" if active is None else _left(active, status),
                "share": None if active is None else active / whole,
                "present": _names(status, record["present"]) if record else "",
                "left_out": _names(status, record["left_out"]) if record else "",
                "inducing": record["n_inducing"] if record else None,
                "bound": number(4.0 * status["width"] * sigma * scale) if sigma else "–",
            }
        )  # fmt: skip
    return found


def _names(status: dict[str, Any], numbers: Any) -> str:
    return ", ".join(called(status["agents"][agent]) for agent in numbers)


def _agent(agent: dict[str, Any], now: float) -> dict[str, Any]:
    seen = agent["last_seen"]
    if seen is None:
        ago = "never"
    else:
        said = age(datetime.fromtimestamp(seen, UTC).isoformat(), datetime.fromtimestamp(now, UTC))
        ago = said if said == "now" else f"{said} ago"
    return {**agent, "called": called(agent), "seen": ago}


def _kind(traffic: dict[str, Any]) -> dict[str, Any]:
    return {**traffic, "direction": UP if traffic["direction"] == "up" else DOWN}


def _moment(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _facts(status: dict[str, Any]) -> list[tuple[str, str]]:
    """What the run is, as far as everybody who may look knows it."""
    units = status["units"]
    facts = [
        ("Algorithm", status["algorithm"]),
        ("Goal", "minimise" if units["sign"] < 0 else "maximise"),
        ("Trials of each agent", number(status["horizon"])),
        ("Average value assumed", number(units["sign"] * units["mean"])),
        ("Standard deviation of the values assumed", number(units["scale"])),
        ("Run", status["run"]),
    ]
    if status["lockstep"]:
        facts.insert(3, ("Round", f"{status['round']}: every agent has one turn per round"))
    return facts

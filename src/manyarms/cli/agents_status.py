"""`manyarms agents status`: the progress of a run or of one agent, as text or JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from manyarms.cli.output import print_json, print_table, say
from manyarms.federation.agent_file import AgentFile
from manyarms.federation.hub import Hub
from manyarms.federation.sqlite_file import SqliteFile


def show_run(hub: Hub, log: bool, as_json: bool) -> None:
    """Everything the hub knows about the run, except keys."""
    status = hub.status()
    if as_json:
        print_json({**status, "log": hub.log()} if log else status)
        return
    waiting = ", ".join(str(agent) for agent in status["waiting_for"])
    now = "over" if status["over"] else f"waits for agents {waiting}" if waiting else "in progress"
    say(f"{status['algorithm']}, {status['horizon']} trials per agent: {now}.")
    _show_progress(status)
    rows = [
        [
            each["agent"], each["name"], each["state"], _moment(each["last_seen"]), each["reals_up"],
            each["bytes_up"], each["reals_down"], each["bytes_down"],
        ]
        for each in status["agents"]
    ]  # fmt: skip
    print_table(
        ["agent", "name", "state", "last seen", "reals up", "bytes up", "reals down", "bytes down"], rows
    )
    cost = status["cost"]
    say(
        f"Sent: {cost['uplink']:g} reals up and {cost['downlink']:g} down per agent "
        f"({cost['resent']:g} of them again), {cost['messages']} messages, "
        f"{cost['n_bytes']} bytes. Refused: {status['refused']}."
    )
    if log:
        _show_log(hub.file)


def _show_progress(status: dict[str, Any]) -> None:
    if "epochs" in status:
        say(
            f"Epoch {status['epoch']} of {status['n_epochs']} ({status['phase']}); "
            f"{status['active']:g} candidates are left."
        )
        if status["bound"] is not None:
            say(
                f"If the width holds, none of them is more than {status['bound']:.4g} worse than the best "
                "one, in units of the signal."
            )
        if status["best"] is not None:
            best = status["best"]
            say(f"The best candidate so far is {best['id']}, with a mean of {best['value']:.4g}.")
        if status["epochs"]:
            names = (
                "epoch",
                "length",
                "active_size",
                "present",
                "left_out",
                "n_inducing",
                "sigma_max",
                "cutoff",
            )
            print_table(
                [name.replace("_", " ") for name in names],
                [[_cell(epoch[name]) for name in names] for epoch in status["epochs"]],
            )
    elif "syncs" in status:
        missing = sum(bool(agents) for agents in status["left_out"])
        say(f"{status['syncs']} syncs, {missing} of them without some agents; now {status['phase']}.")


def show_agent(file: AgentFile, log: bool, as_json: bool) -> None:
    """The trials of one agent and its contact with the server."""
    invitation, trials = file.invitation, file.trials()
    status = {
        "run": invitation.description.run,
        "algorithm": invitation.description.algorithm,
        "agent": invitation.agent,
        "name": invitation.name,
        "url": invitation.url,
        "horizon": invitation.description.settings["horizon"],
        "told": sum(row.value is not None for row in trials),
        "open": sum(row.value is None and row.used for row in trials),
        "dropped": sum(row.value is None and not row.used for row in trials),
        "unacknowledged": len(file.unacknowledged()[1]),
        "over": bool(file.fact("over", False)),
    }
    if as_json:
        print_json({**status, "log": file.log()} if log else status)
        return
    say(
        f"Agent {status['agent']} ({status['name']}) of a run of {status['algorithm']} "
        f"at {status['url'] or 'no address'}."
    )
    say(
        f"{status['told']} of {status['horizon']} trials are made, {status['open']} are open, "
        f"{status['dropped']} were given up; {status['unacknowledged']} messages wait to be sent."
    )
    say("The run is over." if status["over"] else "The run is not over.")
    if log:
        _show_log(file)


def _show_log(file: SqliteFile) -> None:
    for line in file.log():
        say(f"{_moment(line['time'])}  {line['kind']}: {line['text']}")


def _cell(value: Any) -> Any:
    return " ".join(str(each) for each in value) if isinstance(value, list | tuple) else value


def _moment(time: float | None) -> str:
    return "" if time is None else datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S")

"""`manyarms agents status`: the progress of a run or of one agent, as text or JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from manyarms.campaigns.text import counted
from manyarms.cli.output import print_json, print_table, say
from manyarms.federation.agent_file import AgentFile
from manyarms.federation.hub import Hub
from manyarms.federation.sqlite_file import SqliteFile
from manyarms.federation.status import happening


def show_run(hub: Hub, log: bool, as_json: bool) -> None:
    """Everything the hub knows about the run, except keys."""
    status = hub.status()
    if as_json:
        print_json({**status, "log": hub.log()} if log else status)
        return
    say(f"{status['algorithm']}, {counted(status['horizon'], 'trial')} per agent: {happening(status)}.")
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
    again = f" ({cost['resent']:g} of them again)" if cost["resent"] else ""
    say(
        f"Sent: {cost['uplink']:.1f} real numbers up and {cost['downlink']:.1f} down per agent{again}, in "
        f"{counted(cost['messages'], 'message')} of {cost['n_bytes']:,} bytes."
    )
    hint = "; see --log" if status["refused"] and not log else ""
    say(f"Refused: {counted(status['refused'], 'act')}{hint}.")
    if log:
        _show_log(hub.file)


def _show_progress(status: dict[str, Any]) -> None:
    if "epochs" in status:
        active, whole = status["active"], status["candidates"]
        box, pool = f"{100 * active:.3g} % of the box is", f"{active:.0f} of {whole} candidates are"
        left = box if whole is None else pool
        say(f"Epoch {status['epoch']} of {status['n_epochs']}; {left} left.")
        if status["bound"] is not None:
            say(
                f"None of them is more than {status['bound_value']:.4g} worse than the best one, in units of "
                "the measured values, if the width holds."
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
        say(f"{counted(status['syncs'], 'sync')}, {missing} of them without some agents.")


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
        f"Agent {status['agent']} ({status['name']}) of a run of {status['algorithm']}"
        f"{' at ' + str(status['url']) if status['url'] else ''}."
    )
    say(
        f"Trials: {status['told']} of {status['horizon']} made, {status['open']} open, "
        f"{status['dropped']} given up because the run went on without them."
    )
    if status["unacknowledged"]:
        say(f"{counted(status['unacknowledged'], 'message')} not yet received by the server.")
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

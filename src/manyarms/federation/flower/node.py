"""The agent's side without Flower's classes: one packet in, one packet out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from manyarms.errors import RefusedPacketError, RunFileError
from manyarms.federation.invitation import Invitation
from manyarms.federation.member import Member
from manyarms.federation.table import CandidateTable
from manyarms.federation.working import Measurer, single_trials


def answered(received: bytes, config: Mapping[str, Any]) -> bytes:
    """Take a packet of the hub (empty in the first message), measure, and return the next packet for it."""
    for name in ("invitation", "pool"):
        if not config.get(name):
            raise RunFileError(f"the node configuration has no {name!r}")
    invitation_path = Path(str(config["invitation"]))
    invitation = Invitation.read(invitation_path)
    table = CandidateTable.of_run(invitation.description, Path(str(config["pool"])))
    file = Path(str(config.get("file") or invitation_path.with_suffix(".agent")))
    member = Member.join(file, invitation, table.pool)
    try:
        if received:
            _take(member, received)
        _measure(member, table, config)
        return member.outgoing()
    finally:
        member.close()


def _take(member: Member, received: bytes) -> None:
    try:
        member.incoming(received)
    except (
        RefusedPacketError
    ):  # it is in the agent's log; the next packet of the agent tells the hub what it has
        return


def _measure(member: Member, table: CandidateTable, config: Mapping[str, Any]) -> None:
    """Measure open trials one after the other until the time is used up."""
    if not config.get("command") and not config.get("python"):
        return
    from manyarms.federation.measuring import measurer

    until = time.monotonic() + float(config.get("seconds", 20.0))
    trial: Measurer | None = None
    try:
        while (pulls := member.open_trials()) is not None and time.monotonic() < until:
            trial = trial or measurer(member, table, config.get("command"), config.get("python"))
            first = single_trials(pulls)[0]
            member.tell({first.step: trial.measure(first)})
    finally:
        if trial is not None:
            trial.close()

"""The mailbox over TLS: the server's certificate is checked, and with mutual TLS the client's, too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from manyarms import errors
from manyarms.federation.http_carrier import HttpCarrier
from manyarms.federation.invitation import Invitation
from tests.federation.certificates import write_certificates
from tests.federation.direct import measure, members
from tests.federation.processes import free_port, processes
from tests.federation.support import N, make_problem


@pytest.mark.slow
def test_a_run_over_mutual_tls_and_who_is_turned_away(tmp_path: Path) -> None:
    port, keys = free_port(), tmp_path / "keys"
    keys.mkdir()
    write_certificates(keys)
    problem = make_problem(tmp_path, "duets", url=f"https://127.0.0.1:{port}")
    authority = (keys / "ca.pem").read_text()
    with processes(tmp_path) as started:
        started.serve(
            port, "--certificate", str(keys / "server.pem"), "--key", str(keys / "server.key"),
            "--client-authority", str(keys / "ca.pem"),
        )  # fmt: skip
        agents = members(problem)
        invitation = replace(problem.invitations[0], certificate=authority)
        packet = agents[0].outgoing()
        for turned_away in (
            HttpCarrier(invitation),  # no certificate of its own
            HttpCarrier(
                problem.invitations[0], keys / "client.pem", keys / "client.key"
            ),  # unknown authority
        ):
            with pytest.raises(errors.UnreachableError):
                turned_away.exchange(packet)
            turned_away.close()
        carriers = [
            HttpCarrier(replace(each, certificate=authority), keys / "client.pem", keys / "client.key")
            for each in problem.invitations
        ]
        for _ in range(200):
            for n in range(N):
                agents[n].incoming(carriers[n].exchange(agents[n].outgoing()))
                measure(agents[n])
            if all(agent.over for agent in agents):
                break
        for carrier in carriers:
            carrier.close()
    problem.check()


def test_addresses_that_would_leak_are_refused(tmp_path: Path) -> None:
    problem = make_problem(tmp_path, "duets")
    given = problem.invitations[0]

    def at(url: str) -> Invitation:
        return replace(given, url=url)

    with pytest.raises(errors.RunFileError, match="without TLS"):
        HttpCarrier(at("http://hub.example.org:8765"))
    for url in ("", "ftp://hub.example.org", "hub.example.org"):
        with pytest.raises(errors.RunFileError, match="no usable address of a server"):
            HttpCarrier(at(url))
    HttpCarrier(at("http://localhost:1"))
    with pytest.raises(errors.UnreachableError):
        HttpCarrier(at("http://127.0.0.1:9"), timeout=2.0).exchange(b"x")
    with pytest.raises(errors.RunFileError, match="certificate"):
        HttpCarrier(at("https://hub.example.org"), tmp_path / "absent.pem")
    text = repr(given)
    assert given.key.hex() not in text
    assert repr(given.key) not in text

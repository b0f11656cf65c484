"""The service as a real process: where it listens, how it starts and how it stops."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from manyarms import errors
from manyarms.service.server import Listening, check_listening
from tests.campaigns.support import cli
from tests.federation.certificates import write_certificates
from tests.service.support import campaign_in, new_token, running


def test_the_command_serves_and_stops(tmp_path: Path) -> None:
    campaign_in(tmp_path)
    with running(tmp_path) as service:
        tickets = httpx.post(f"{service.address}/campaigns/screen/asks", json={"n": 2}, timeout=60).json()
        assert len(tickets["tickets"]) == 2
        with httpx.stream("GET", f"{service.address}/campaigns/screen/events") as stream:  # still open
            assert stream.status_code == 200
            said = service.stop()
    assert service.process.returncode == 0
    assert "Traceback" not in said


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.7", "::", "example.org"])
def test_a_public_address_needs_tls_and_a_token(tmp_path: Path, host: str) -> None:
    campaign_in(tmp_path)
    bare = cli("serve", tmp_path, "--host", host, "--port", "0")
    assert bare.code == 3
    assert "--certificate" in bare.err
    pem = tmp_path / "cert.pem"
    pem.write_text("")
    with_tls = cli("serve", tmp_path, "--host", host, "--port", "0", "--certificate", pem, "--key", pem)
    assert with_tls.code == 3
    assert "manyarms token new" in with_tls.err
    new_token(tmp_path)
    check_listening(Listening(host, 0, pem, pem), has_tokens=True)
    with pytest.raises(errors.UnsafeAddressError, match="--key"):
        check_listening(Listening(host, 0, pem), has_tokens=True)


def test_behind_a_proxy_a_token_is_needed_too(tmp_path: Path) -> None:
    campaign_in(tmp_path)
    done = cli("serve", tmp_path, "--port", "0", "--allow-host", "lab.example.org")
    assert done.code == 3
    assert "manyarms token new" in done.err


def test_a_missing_folder_and_a_taken_port_are_explained(tmp_path: Path) -> None:
    assert cli("serve", tmp_path / "nowhere").code == 4
    campaign_in(tmp_path)
    file = cli("serve", tmp_path / "screen.db")
    assert file.code == 4
    assert f"the folder that holds it: {tmp_path}" in file.err
    with running(tmp_path) as service:
        taken = cli("serve", tmp_path, "--port", service.port)
        assert taken.code == 3
        assert "cannot listen" in taken.err


@pytest.mark.parametrize("wrong", ["--certificate", "--key", "--client-authority"])
def test_certificates_that_cannot_be_used_are_refused_before_anything_is_announced(
    tmp_path: Path, wrong: str
) -> None:
    campaign_in(tmp_path)
    new_token(tmp_path)
    write_certificates(tmp_path)
    names = {"--certificate": "server.pem", "--key": "server.key", "--client-authority": "ca.pem"}
    files = {option: tmp_path / name for option, name in names.items()}
    files[wrong] = tmp_path / "plate.csv"
    files[wrong].write_text("ticket,value\n")
    done = cli("serve", tmp_path, "--port", "0", *(each for pair in files.items() for each in pair))
    assert done.code == 3
    assert "plate.csv" in done.err
    assert "PEM" in done.err
    assert "standard output" not in done.err
    assert done.out == ""

"""A Flower deployment on this machine: a SuperLink with TLS and node authentication, and its SuperNodes."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

BIN = Path(sys.executable).parent
APP = Path(__file__).resolve().parents[2] / "examples" / "flower"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def write_certificates(folder: Path) -> None:
    """ca.pem, server.pem and server.key for this machine."""
    now = datetime.datetime.now(datetime.UTC)

    def signed(name: str, key: Any, issuer: Any, signer: Any, authority: bool) -> x509.Certificate:
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer or subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=30))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        if authority:
            usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
            builder = builder.add_extension(usage, critical=True)
        else:
            names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
            by = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
            builder = builder.add_extension(by, critical=False)
        return builder.sign(signer, hashes.SHA256())

    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca = signed("test authority", ca_key, None, ca_key, True)
    certificate = signed("localhost", key, ca.subject, ca_key, False)
    (folder / "ca.pem").write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    (folder / "server.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "server.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )


def write_node_key(path: Path) -> None:
    """A key pair in the form that `flwr supernode register` takes."""
    key = ec.generate_private_key(ec.SECP384R1())
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
        )
    )
    path.with_suffix(".pub").write_bytes(
        key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    )


class Deployment:
    """The processes of one federation, with everything they write in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.home = folder / "flwr"
        self.home.mkdir()
        write_certificates(folder)
        (self.home / "config.toml").write_text(
            f'[superlink]\ndefault = "test"\n\n[superlink.test]\naddress = "127.0.0.1:{self.port}"\n'
            f'root-certificates = "{folder / "ca.pem"}"\n'
        )
        self.env = {
            **os.environ, "FLWR_HOME": str(self.home), "FLWR_TELEMETRY_ENABLED": "0",
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "OPENBLAS_NUM_THREADS": "1",
        }  # fmt: skip
        self.processes: list[subprocess.Popen[bytes]] = []
        self.nodes: list[subprocess.Popen[bytes]] = []  # the SuperNodes, by agent

    def start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a process whose output goes to a file."""
        with open(self.folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                [str(BIN / arguments[0]), *arguments[1:]], stdout=log, stderr=log, env=self.env,
                start_new_session=True,
            )  # fmt: skip
        self.processes.append(process)
        return process

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """End a process with its children, by the ids that were started here."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)

    def superlink(self) -> subprocess.Popen[bytes]:
        """Start the SuperLink and wait until it listens."""
        process = self.start(
            "superlink", "flower-superlink", "--host", "127.0.0.1", "--port", str(self.port),
            "--ssl-certfile", str(self.folder / "server.pem"),
            "--ssl-keyfile", str(self.folder / "server.key"),
            "--ssl-ca-certfile", str(self.folder / "ca.pem"),
            "--enable-supernode-auth", "--disable-runtime-dependency-installation",
            "--database", str(self.folder / "superlink.db"),
        )  # fmt: skip
        self.wait_for_port(self.port, process)
        return process

    def wait_for_port(self, port: int, process: subprocess.Popen[bytes], seconds: float = 90.0) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
                return
            assert process.poll() is None, self.logs()
            time.sleep(0.3)
        raise AssertionError(f"nothing listens at port {port}\n{self.logs()}")

    def flwr(self, *arguments: str) -> str:
        """Run the `flwr` command."""
        ran = subprocess.run(
            [str(BIN / "flwr"), *arguments], env=self.env, cwd=APP, capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, f"flwr {arguments}\n{ran.stdout}\n{ran.stderr}\n{self.logs()}"
        return ran.stdout

    def supernode(self, number: int, config: dict[str, Any]) -> subprocess.Popen[bytes]:
        """Register and start a SuperNode with this node configuration."""
        key = self.folder / f"node{number}"
        if not key.exists():
            write_node_key(key)
            self.flwr("supernode", "register", str(key.with_suffix(".pub")), "test")
        text = " ".join(
            f'{name}="{value}"' if isinstance(value, str) else f"{name}={value}"
            for name, value in config.items()
        )
        return self.start(
            f"supernode{number}", "flower-supernode", "--superlink", f"127.0.0.1:{self.port}",
            "--root-certificates", str(self.folder / "ca.pem"),
            "--auth-supernode-private-key", str(key), "--port", str(free_port()),
            "--node-config", text,
        )  # fmt: skip

    def logs(self) -> str:
        """The last lines of every log."""
        return "\n".join(
            f"--- {path.name}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-25:])
            for path in sorted(self.folder.glob("*.log"))
        )


@contextlib.contextmanager
def deployed(folder: Path) -> Iterator[Deployment]:
    """A deployment whose processes are ended afterwards."""
    deployment = Deployment(folder)
    try:
        yield deployment
    finally:
        for process in reversed(deployment.processes):
            deployment.stop(process)

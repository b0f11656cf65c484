"""A real PostgreSQL server, started for the tests that need one and stopped after them."""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

_DATABASES = itertools.count()


def _programs() -> Path:
    """The folder with `initdb` and `pg_ctl`; missing ones are a failure, not a reason to skip."""
    found = shutil.which("initdb")
    places = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    assert places, "PostgreSQL's initdb and pg_ctl are not installed (Debian: apt-get install postgresql)"
    return places[-1]


def _user() -> str | None:
    """PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _call(*arguments: object) -> None:
    user = _user()
    done = subprocess.run(
        [str(each) for each in arguments], user=user, cwd="/", check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextlib.contextmanager
def running_server() -> Iterator[str]:
    """The server's address without a database: `postgresql://…/`."""
    programs, user = _programs(), _user()
    folder = Path(tempfile.mkdtemp(prefix="manyarms-postgres-"))
    if user is not None:
        os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
    port, data, log = _free_port(), folder / "data", folder / "log"
    options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories= -c fsync=off"
    try:
        _call(programs / "initdb", "-D", data, "-U", "tests", "-A", "trust", "--no-sync", "-E", "UTF8")
        _start(programs / "pg_ctl", data, log, options)
        yield f"postgresql://tests@127.0.0.1:{port}/"
    finally:
        if (data / "postmaster.pid").exists():
            _call(programs / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder)


def _start(program: Path, data: Path, log: Path, options: str) -> None:
    """Without pipes: the server would inherit them, and nobody would ever see them closed."""
    done = subprocess.run(
        [str(program), "-D", str(data), "-l", str(log), "-o", options, "-w", "start"], user=_user(), cwd="/",
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    assert done.returncode == 0, log.read_text() if log.exists() else "PostgreSQL did not start"


def fresh_database(server: str) -> str:
    """A new, empty database on the server; its address."""
    import psycopg

    name = f"lab{next(_DATABASES)}_{os.getpid()}"
    with psycopg.connect(f"{server}postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"{server}{name}"

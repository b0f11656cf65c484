"""Oversized and slow requests, and path tricks in uploads."""

from __future__ import annotations

import gzip
import io
import socket
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from manyarms.service.limits import Limits
from manyarms.service.tokens.store import TOKENS_FILE
from tests.campaigns.support import wait_until
from tests.service.support import campaign_in, in_process

SMALL = Limits(json_bytes=2_000, file_bytes=5_000, table_bytes=9_000, body_seconds=0.6, head_seconds=0.6)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    campaign_in(tmp_path)
    return tmp_path


@pytest.fixture
def client(folder: Path) -> Iterator[httpx.Client]:
    with in_process(folder, limits=SMALL) as found:
        yield found


def files(folder: Path) -> set[str]:
    own = (TOKENS_FILE, "-wal", "-shm")
    return {path.name for path in folder.iterdir() if not path.name.endswith(own)}


@pytest.mark.parametrize("chunked", [False, True])
def test_an_oversized_body_is_refused(client: httpx.Client, folder: Path, chunked: bool) -> None:
    def body(size: int) -> bytes | Iterator[bytes]:
        data = b"x" * size
        return (data[i : i + 100] for i in range(0, size, 100)) if chunked else data

    before = files(folder)
    for method, path, size in (
        ("POST", "/campaigns/screen/asks", 2_001),
        ("POST", "/campaigns/screen/results/file?name=a.csv", 5_001),
        ("POST", "/campaigns/screen/candidates?name=a.csv", 9_001),
        ("PUT", "/campaigns/new?name=a.csv", 9_001),
    ):
        answer = client.request(
            method, path, content=body(size), headers={"Content-Type": "application/json"}
        )
        assert (answer.status_code, answer.json()["kind"]) == (413, "TooLargeError"), path
    assert files(folder) == before
    assert client.get("/campaigns").status_code == 200


def test_a_workbook_that_is_huge_when_unpacked_is_refused(client: httpx.Client) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as workbook:
        workbook.writestr("xl/worksheets/sheet1.xml", b"0" * 1_000_000)
    answer = client.post("/campaigns/screen/results/file?name=a.xlsx", content=packed.getvalue())
    assert (answer.status_code, answer.json()["kind"]) == (413, "TooLargeError")


def packed_by_zip(part: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as parts:
        parts.writestr(part, b"0" * 1_000_000)
    return packed.getvalue()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv.gz", gzip.compress(b"name,x\n" + b"a,1\n" * 250_000)),
        ("t.xlsx", packed_by_zip("xl/worksheets/sheet1.xml")),
        ("t.npz", packed_by_zip("features.npy")),
    ],
)
def test_a_table_that_is_huge_when_unpacked_is_refused_and_deleted(
    client: httpx.Client, folder: Path, name: str, content: bytes
) -> None:
    before = files(folder)
    assert len(content) < SMALL.table_bytes
    for method, path in (("PUT", "/campaigns/second"), ("POST", "/campaigns/screen/candidates")):
        answer = client.request(method, path, params={"name": name}, content=content)
        assert (answer.status_code, answer.json()["kind"]) == (413, "TooLargeError"), answer.text
    assert files(folder) == before


def raw(client: httpx.Client, *parts: bytes, pause: float = 0.25) -> bytes:
    """Send these bytes with pauses; what the service answers until it closes the connection, as it must."""
    address = (client.base_url.host, client.base_url.port)
    with socket.create_connection(address, timeout=60) as connection:
        try:
            for part in parts:
                connection.sendall(part)
                time.sleep(pause)
        except OSError:
            pass
        answer = b""
        try:
            while part := connection.recv(65536):
                answer += part
        except ConnectionError:
            pass
        return answer


def test_a_slow_body_is_refused(client: httpx.Client) -> None:
    head = b"POST /campaigns/screen/asks HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    answer = raw(client, head + b"Content-Length: 9\r\n\r\n", *[b" "] * 8)
    assert b" 408 " in answer.split(b"\r\n")[0]
    assert b"TooSlowError" in answer
    assert client.get("/campaigns/screen/tickets").json()["tickets"] == []


def test_a_slow_or_broken_upload_of_a_table_leaves_no_file(client: httpx.Client, folder: Path) -> None:
    before = files(folder)
    head = b"PUT /campaigns/second?name=t.csv HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 900\r\n\r\n"
    answer = raw(client, head, *[b"name,x\n"] * 8)
    assert b" 408 " in answer.split(b"\r\n")[0]
    assert files(folder) == before
    with socket.create_connection((client.base_url.host, client.base_url.port)) as connection:
        connection.sendall(head + b"name,x\n")
        wait_until(lambda: files(folder) != before)  # the upload has begun, and the client goes away
    wait_until(lambda: files(folder) == before)
    assert client.get("/campaigns").json()["campaigns"] == ["screen"]


def test_a_slow_head_ends_the_connection(folder: Path) -> None:
    with in_process(folder, idle_seconds=1, limits=SMALL) as client:
        assert raw(client, b"GET /campaigns HT", *[b"T"] * 6) == b""
        assert raw(client) == b""  # a client that sends nothing
        kept = raw(client, b"GET /campaigns HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /camp")
        assert kept.startswith(b"HTTP/1.1 200")  # the first is answered, the second never comes
        assert client.get("/campaigns").status_code == 200


def test_a_long_answer_is_not_taken_for_a_slow_head(folder: Path) -> None:
    with (
        in_process(folder, limits=SMALL) as client,
        client.stream("GET", "/campaigns/screen/events") as events,
    ):
        lines = events.iter_lines()
        deadline = time.monotonic() + 1.5
        first = [next(lines) for _ in range(5)]
        assert any("change" in line for line in first)
        time.sleep(max(0.0, deadline - time.monotonic()))
        client.post("/campaigns/screen/asks", json={"n": 1})
        assert any('"open": 1' in line for line in (next(lines) for _ in range(6)))


NAMES = ["../a.csv", "..", "/etc/passwd", "a\\b.csv", "c:a.csv", ".a.csv", "a\nb.csv", "a\0.csv", " ", ""]


def test_path_tricks_in_names_of_files_are_refused(client: httpx.Client, folder: Path) -> None:
    before, above = files(folder), files(folder.parent)
    for name in NAMES:
        for method, path in (
            ("POST", "/campaigns/screen/results/file"),
            ("POST", "/campaigns/screen/candidates"),
            ("PUT", "/campaigns/second"),
        ):
            answer = client.request(method, path, params={"name": name}, content=b"ticket,value\n0,1\n")
            assert (answer.status_code, answer.json()["kind"]) == (422, "InvalidRequestError"), (path, name)
    assert (files(folder), files(folder.parent)) == (before, above)


def test_path_tricks_in_names_of_new_campaigns_are_refused(client: httpx.Client, folder: Path) -> None:
    before, above = files(folder), files(folder.parent)
    table = (folder / "pool.csv").read_bytes()[:1_000].rpartition(b"\n")[0]
    query = {"name": "t.csv", "settings": '{"id": "name"}'}
    for name in ("..%2fx", "%2e%2e", ".x", "a%5cb", "a%0ab", "%00", "-x", "%20", "x%2f..%2fy"):
        answer = client.put(f"/campaigns/{name}", params=query, content=table)
        assert answer.status_code in (404, 405, 422), (name, answer.text)
    assert (files(folder), files(folder.parent)) == (before, above)


def test_settings_of_a_new_campaign_name_no_file_of_the_service(client: httpx.Client, folder: Path) -> None:
    before = files(folder)
    table = (folder / "pool.csv").read_bytes()[:1_000].rpartition(b"\n")[0]
    for settings in (
        '{"pool": "/etc/passwd"}', "[1]", "{", '{"unknown": 1}', '{"seed": "x"}', '{"budget": []}',
        "9" * 5_000, '{"options": {"kernel": 1}}', '{"lengthscale": {}}', '{"features": [1, 2]}',
        '{"repeats": 1e400}',
    ):  # fmt: skip
        answer = client.put("/campaigns/new", params={"name": "t.csv", "settings": settings}, content=table)
        assert answer.status_code == 422, (settings, answer.text)
    assert files(folder) == before, "nothing is left of a refused campaign"
    made = client.put("/campaigns/new", params={"name": "t.csv", "settings": '{"id": "name"}'}, content=table)
    assert made.status_code == 201, made.text


def test_files_that_are_no_tables_are_refused_and_deleted(client: httpx.Client, folder: Path) -> None:
    before = files(folder)
    for name in ("t.csv", "t.parquet", "t.xlsx", "t.npy", "t.npz", "t.csv.gz", "t.db", "t.py", "t"):
        for content in (b"", b"\x00\xff" * 50, b"PK\x03\x04" + b"x" * 40):
            answer = client.put("/campaigns/new", params={"name": name}, content=content)
            assert answer.status_code == 422, (name, answer.text)
            told = client.post("/campaigns/screen/results/file", params={"name": name}, content=content)
            assert told.status_code == 422, (name, told.text)
    assert files(folder) == before


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"noise_std": 0}, "noise_std: Input should be greater than or equal to 1e-100"),
        ({"noise_std": 1e101}, "noise_std: Input should be less than or equal to 1e+100"),
        ({"value": -1e101}, "value: Input should be greater than or equal to -1e+100"),
    ],
)
def test_a_limit_is_not_written_with_a_hundred_digits(client: httpx.Client, given: dict, rule: str) -> None:
    answer = client.post("/campaigns/screen/results", json={"rows": [{"id": "arm 1", "value": 1.0} | given]})
    assert answer.status_code == 422
    assert answer.json()["detail"].endswith(rule)

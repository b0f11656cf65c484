"""Who may do what: wrong, revoked, expired and underscoped tokens, sessions, and other sites."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from pathlib import Path

import httpx
import pytest

from manyarms.service.places import Folder
from manyarms.service.tokens import sessions
from manyarms.service.tokens.attempts import MOST, WITHIN, Attempts
from manyarms.service.tokens.store import TOKENS_FILE
from tests.campaigns.support import cli
from tests.service.support import bearer, campaign_in, in_process, new_token

REQUESTS = {  # one of each scope
    "read": ("GET", "/campaigns/screen/status", None),
    "ask": ("POST", "/campaigns/screen/asks", {"n": 1}),
    "tell": ("POST", "/campaigns/screen/results", {"rows": []}),
    "admin": ("POST", "/campaigns/screen/exclusions", {"ids": ["arm 1"]}),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    campaign_in(tmp_path)
    return tmp_path


def codes(client: httpx.Client, token: str) -> dict[str, int]:
    return {
        scope: client.request(method, path, json=body, headers=bearer(token)).status_code
        for scope, (method, path, body) in REQUESTS.items()
    }


def test_without_any_token_the_machine_is_trusted_until_the_first_one(folder: Path) -> None:
    with in_process(folder) as client:
        assert client.get("/campaigns/screen/status").status_code == 200
        token = new_token(folder)
        refused = client.get("/campaigns/screen/status")
        assert (refused.status_code, refused.json()["kind"]) == (401, "NotAuthenticatedError")
        assert refused.headers["WWW-Authenticate"] == "Bearer"
        assert client.get("/campaigns/screen/status", headers=bearer(token)).status_code == 200
        with contextlib.closing(Folder(folder).tokens()) as tokens:
            tokens.revoke(tokens.all()[0].id)
        for headers in ({}, bearer(token)):  # revoking the last token does not open the service again
            assert client.get("/campaigns/screen/status", headers=headers).status_code == 401


@pytest.mark.parametrize(
    ("scopes", "allowed"),
    [
        ("read", {"read"}),
        ("ask", {"ask"}),
        ("tell", {"tell"}),
        ("read,tell", {"read", "tell"}),
        ("admin", set(REQUESTS)),
    ],
)
def test_a_token_allows_its_scopes_only(folder: Path, scopes: str, allowed: set[str]) -> None:
    token = new_token(folder, scopes=scopes)
    with in_process(folder) as client:
        found = codes(client, token)
    assert {scope for scope, code in found.items() if code < 300} == allowed
    assert {code for scope, code in found.items() if scope not in allowed} <= {403}


def test_a_token_is_for_its_campaign_only(folder: Path) -> None:
    campaign_in(folder, "other.db")
    token = new_token(folder, campaign="other", scopes="admin")
    with in_process(folder) as client:
        assert set(codes(client, token).values()) == {403}
        assert client.get("/campaigns", headers=bearer(token)).json() == {"campaigns": ["other"]}
        assert client.get("/campaigns/other/status", headers=bearer(token)).status_code == 200
        # What exists is not told to those who may not see it.
        assert client.get("/campaigns/none/status", headers=bearer(token)).status_code == 403


def test_wrong_revoked_and_expired_tokens_are_refused(folder: Path) -> None:
    good, gone = new_token(folder), new_token(folder, "leaver")
    with contextlib.closing(Folder(folder).tokens()) as tokens:
        _, late = tokens.make("late", "*", ["admin"], time.time() - 1)
        tokens.revoke(next(each.id for each in tokens.all() if each.name == "leaver"))
    other_secret = f"{good[:-4]}{'aaaa' if good[-4:] != 'aaaa' else 'bbbb'}"
    with in_process(folder) as client:
        for wrong in (
            gone,
            late,
            other_secret,
            "ma_",
            "x",
            good.upper(),
            good + "=",
            "ma_" + "0" * 12 + "_" + "A" * 43,
        ):
            answer = client.get("/campaigns/screen/status", headers=bearer(wrong))
            assert (answer.status_code, answer.json()["kind"]) == (401, "NotAuthenticatedError"), wrong
        assert client.get("/campaigns/screen/status", headers=bearer(good)).status_code == 200


def test_too_many_wrong_tokens_are_slowed_down_but_a_right_one_passes(folder: Path) -> None:
    good = new_token(folder)
    with in_process(folder) as client:
        seen = [client.get("/campaigns", headers=bearer("wrong")) for _ in range(MOST + 2)]
        assert [each.status_code for each in seen] == [401] * MOST + [429] * 2
        assert 0 < int(seen[-1].headers["Retry-After"]) <= WITHIN
        assert client.post("/login", data={"token": "wrong"}).status_code == 429
        assert client.get("/campaigns", headers=bearer(good)).status_code == 200


def test_attempts_are_forgotten_with_time() -> None:
    now = [0.0]
    attempts = Attempts(lambda: now[0])
    assert [attempts.count("a") for _ in range(MOST)] == [None] * MOST
    assert attempts.count("a") == WITHIN
    assert attempts.count("b") is None
    now[0] = WITHIN + 1
    assert attempts.count("a") is None


def test_secrets_are_not_stored(folder: Path) -> None:
    token = new_token(folder)
    secret = token.rpartition("_")[2] if token.count("_") == 2 else token.split("_", 2)[2]
    stored = b"".join(path.read_bytes() for path in folder.glob(f"{TOKENS_FILE}*"))
    assert token.split("_")[1].encode() in stored
    assert secret.encode() not in stored
    assert (folder / TOKENS_FILE).stat().st_mode & 0o077 == 0


# ------------------------------------------------------------------ browsers


def logged_in(client: httpx.Client, token: str) -> str:
    """The CSRF token of a new session, whose cookie the client keeps."""
    answer = client.post("/login", data={"token": token, "next": "/campaigns"})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/campaigns")
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    return str(client.get("/session").json()["csrf"])


def test_a_browser_logs_in_and_changes_need_the_csrf_token(folder: Path) -> None:
    token = new_token(folder)
    with in_process(folder) as client:
        csrf = logged_in(client, token)
        assert client.get("/campaigns/screen/status").status_code == 200
        for headers in ({}, {"X-CSRF-Token": "wrong"}, {"X-CSRF-Token": "é"}):
            sent = [(name.encode(), value.encode()) for name, value in headers.items()]
            refused = client.post("/campaigns/screen/asks", json={"n": 1}, headers=sent)
            assert (refused.status_code, refused.json()["kind"]) == (403, "CrossSiteError")
        done = client.post("/campaigns/screen/asks", json={"n": 1}, headers={"X-CSRF-Token": csrf})
        assert done.status_code == 201
        assert client.post("/logout").status_code == 403
        assert client.post("/logout", data={"csrf": csrf}).status_code == 303
        assert client.get("/campaigns/screen/status").status_code == 401


def test_a_session_ends_with_its_token_and_cannot_be_forged(folder: Path) -> None:
    token = new_token(folder)
    with in_process(folder) as client:
        logged_in(client, token)
        cookie = client.cookies[sessions.COOKIE]
        id, until, nonce, mac = cookie.split(".")
        for forged in (
            f"{id}.{int(until) + 9}.{nonce}.{mac}",
            f"{'0' * 12}.{until}.{nonce}.{mac}",
            "...",
            "x",
            "",
        ):
            headers = {"Cookie": f"{sessions.COOKIE}={forged}"}
            bare = httpx.get(f"{client.base_url}/campaigns", headers=headers)
            assert bare.status_code == 401, forged
        with contextlib.closing(Folder(folder).tokens()) as tokens:
            tokens.revoke(id)
        assert client.get("/campaigns").status_code == 401


def test_a_session_expires() -> None:
    key = b"k" * 32
    session = sessions.new_session(key, "a" * 12, 1000.0)
    assert sessions.token_of(key, session, 1000.0 + sessions.SESSION_SECONDS - 1) == "a" * 12
    assert sessions.token_of(key, session, 1000.0 + sessions.SESSION_SECONDS) is None
    assert sessions.token_of(b"other", session, 1000.0) is None


@pytest.mark.parametrize("inside", ["//evil.example", "https://evil.example", "/\\evil.example", "/a\nb"])
def test_login_leads_nowhere_else(folder: Path, inside: str) -> None:
    token = new_token(folder)
    with in_process(folder) as client:
        answer = client.post("/login", data={"token": token, "next": inside})
        assert answer.headers["Location"] == "/"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_other_sites_change_nothing_even_without_tokens(folder: Path, headers: dict[str, str]) -> None:
    with in_process(folder) as client:
        answer = client.post("/campaigns/screen/asks", json={"n": 1}, headers=headers)
        assert (answer.status_code, answer.json()["kind"]) == (403, "CrossSiteError")
        assert client.get("/campaigns/screen/tickets").json()["tickets"] == []
        own = {"Origin": str(client.base_url).rstrip("/"), "Sec-Fetch-Site": "same-origin"}
        assert client.post("/campaigns/screen/asks", json={"n": 1}, headers=own).status_code == 201


def test_no_answer_allows_another_origin_to_read_it(folder: Path) -> None:
    with in_process(folder) as client:
        answer = client.get("/campaigns", headers={"Origin": "https://evil.example"})
        assert not [name for name in answer.headers if name.startswith("access-control")]
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        preflight = client.options("/campaigns/screen/asks", headers={"Origin": "https://evil.example"})
        assert preflight.status_code == 405


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "a@127.0.0.1", "[::1", "127.0.0.1/x"]
)
def test_a_foreign_host_name_is_refused(folder: Path, host: str) -> None:
    with in_process(folder) as client:
        assert client.get("/campaigns", headers={"Host": host}).status_code in (400, 422)
        assert client.get("/campaigns", headers={"Host": "localhost:1"}).status_code == 200


# ------------------------------------------------------------------ the command


def test_tokens_are_made_listed_and_revoked_by_the_command(folder: Path) -> None:
    made = cli(
        "token", "new", folder, "--name", "robot", "--campaign", "screen", "--scope", "ask,tell", "--json"
    )
    found = made.json
    (row,) = cli("token", "list", folder, "--json").json["tokens"]
    assert (row["id"], row["scopes"], row["campaign"], row["state"]) == (
        found["id"],
        "ask,tell",
        "screen",
        "valid",
    )
    assert found["token"] not in cli("token", "list", folder).out
    assert cli("token", "revoke", folder, found["id"]).code == 0
    assert cli("token", "list", folder, "--json").json["tokens"][0]["state"] == "revoked"
    assert cli("token", "revoke", folder, "0" * 12).code == 3
    assert cli("token", "new", folder, "--name", "robot", "--scope", "write").code == 3
    early = cli("token", "new", folder, "--name", "robot", "--campaign", "scren")
    assert (early.code, "does not exist yet" in early.err, "'scren'" in early.err) == (0, True, True)
    assert early.out.startswith("ma_")
    assert cli("token", "new", folder, "--name", " ").code == 3
    assert cli("token", "list", folder / "nowhere").code == 4


def test_the_file_of_the_tokens_is_not_a_campaign(folder: Path) -> None:
    new_token(folder)
    (folder / "text.db").write_text("not a database")
    sqlite3.connect(folder / "else.db").execute("CREATE TABLE t (x)").connection.close()
    assert Folder(folder).names() == ["screen"]

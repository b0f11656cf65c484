"""The page when the service is away or the session ends, and pages of other sites, in a real browser."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.queries import history, ticket_counts
from manyarms.service import events
from manyarms.service.limits import Limits
from manyarms.service.places import Folder
from tests.browser import Watched, chromium, watched
from tests.service.support import campaign_in, in_process, new_token

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


def says(shown: Watched, text: str) -> None:
    shown.until(f"document.getElementById('live').textContent.startsWith('{text}')")


def test_the_page_goes_on_after_the_service_was_away_and_busy(browser: Browser, tmp_path: Path) -> None:
    path = campaign_in(tmp_path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with watched(browser, 1400) as shown:
        statuses: list[int] = []
        shown.page.on("response", lambda answer: statuses.append(answer.status))
        with in_process(tmp_path, port=port):
            shown.page.goto(f"http://127.0.0.1:{port}/page/screen")
            says(shown, "live")
        says(shown, "not connected")
        with in_process(tmp_path, port=port, limits=Limits(streams=0)) as client:  # its answer is 503
            while 503 not in statuses:
                shown.page.wait_for_timeout(50)
            assert client.get("/campaigns").status_code == 200
        with in_process(tmp_path, port=port):
            says(shown, "live")
            with Campaign(path) as campaign:
                campaign.ask(3)
            shown.until("document.querySelectorAll('[data-part=tickets] tbody tr').length === 3")


def test_the_page_asks_for_a_token_when_its_own_is_revoked(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_SECONDS", 0.2)
    campaign_in(tmp_path)
    token = new_token(tmp_path)
    with in_process(tmp_path) as client, watched(browser, 390) as shown:
        page = shown.page
        page.goto(f"{str(client.base_url).rstrip('/')}/page/screen")
        page.get_by_label("Token").fill(token)
        page.keyboard.press("Enter")
        page.wait_for_url("**/page/screen")
        says(shown, "live")
        with closing(Folder(tmp_path).tokens()) as tokens:
            tokens.revoke(tokens.all()[0].id)
        page.wait_for_url("**/login?next=**", timeout=120_000)


EVIL = """<!doctype html><title>elsewhere</title>
<form id="form" method="post" target="frame" enctype="text/plain" action="{service}/campaigns/screen/asks">
<input name='{{"n": 3, "worker": "' value='"}}'></form>
<iframe name="frame"></iframe><iframe id="page" src="{service}/page/screen"></iframe>
<script>
const tries = [
  fetch("{service}/campaigns/screen/asks", {{method: "POST", mode: "no-cors", credentials: "include",
    body: JSON.stringify({{n: 3}})}}),
  fetch("{service}/campaigns/screen/asks", {{method: "POST", credentials: "include",
    headers: {{"Content-Type": "application/json"}}, body: JSON.stringify({{n: 3}})}}),
  fetch("{service}/campaigns/screen/results/file?name=a.csv", {{method: "POST", mode: "no-cors",
    credentials: "include", body: "name,value\\narm 1,9\\n"}}),
  fetch("{service}/campaigns/screen/history", {{credentials: "include"}}).then((a) => a.text())
    .then((text) => window.read = text),
];
document.getElementById("form").submit();
Promise.allSettled(tries).then((all) => document.title = all.map((each) => each.status).join(" "));
</script>"""


@contextmanager
def another_site(service: str) -> Iterator[str]:
    """A site with a hostile page, under a name that is another site than that of the service."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(EVIL.format(service=service).encode())

        def log_message(self, *_args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://localhost:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("logged_in", [False, True])
def test_a_page_of_another_site_reads_and_changes_nothing(
    browser: Browser, tmp_path: Path, logged_in: bool
) -> None:
    """Neither on a service without tokens, which trusts this machine, nor with the session of its user."""
    path = campaign_in(tmp_path)
    token = new_token(tmp_path, scopes="admin") if logged_in else None
    with in_process(tmp_path) as client, watched(browser, 1400) as shown:
        service, page = str(client.base_url).rstrip("/"), shown.page
        if token is not None:
            page.goto(f"{service}/login")
            page.get_by_label("Token").fill(token)
            page.keyboard.press("Enter")
            page.wait_for_url(f"{service}/")
        answered: list[tuple[str, int]] = []
        page.on("response", lambda answer: answered.append((answer.request.method, answer.status)))
        with another_site(service) as elsewhere:
            page.goto(elsewhere)
            shown.until("document.title.includes('fulfilled') || document.title.includes('rejected')")
            shown.until("document.querySelector('iframe[name=frame]').contentWindow.length === 0")
            page.wait_for_load_state("networkidle")
            assert page.evaluate("window.read") is None
            assert [frame.title() for frame in page.frames if frame.url.startswith(service)] == []
        assert [status for method, status in answered if method == "POST" and status < 400] == []
        if token is not None:  # the session is still good: it is the other site that is refused
            page.goto(f"{service}/page/screen")
            says(shown, "live")
    with Campaign(path) as campaign:
        assert history(campaign) == []
        assert ticket_counts(campaign)["open"] == 0

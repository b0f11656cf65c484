"""A day with the page in a real browser: everything that it offers, on a wide and a narrow screen."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

import manyarms as ma
from tests.browser import Watched, chromium, watched
from tests.service.support import in_process

pytestmark = pytest.mark.slow

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{7*7}}"
WIDTHS = [1400, 390]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


def value_of(row: dict[str, str]) -> float:
    return -(((float(row["temperature"]) - 60) / 20) ** 2) + (1.0 if row["solvent"] == "dmso" else 0.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A campaign with two batches of results, with candidates and texts that nobody should trust."""
    rng = np.random.default_rng(0)
    with open(tmp_path / "pool.csv", "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["name", "temperature", "ph", "solvent", "<b>remark</b>"])
        for arm in range(300):
            name = f"{HOSTILE} {arm}" if arm % 3 == 0 else f"recipe {arm}"
            temperature, ph = round(rng.uniform(20, 90), 1), round(rng.uniform(3, 10), 2)
            writer.writerow([name, temperature, ph, rng.choice(["water", "dmso", "<i>thf</i>"]), HOSTILE])
    with ma.Campaign.new(tmp_path / "screen.db", tmp_path / "pool.csv", id="name", budget=100) as campaign:
        for _ in range(2):
            batch = campaign.ask(10)
            rows = [dict(zip(batch, row, strict=True)) for row in zip(*batch.values(), strict=True)]
            campaign.tell({**batch, "value": [value_of(row) for row in rows]})
    return tmp_path


def counted(page: Page, title: str) -> int:
    """The figure of a card at the top of the page."""
    card = page.locator("header dl > div", has_text=title).first
    return int(card.locator(".figure").inner_text().replace(",", ""))


def waits_for(shown: Watched, title: str, figure: int) -> None:
    """The page shows this figure, by itself."""
    card = f"[...document.querySelectorAll('header dl > div')].find(d => d.textContent.includes('{title}'))"
    shown.until(f"{card}.querySelector('.figure').textContent === '{figure}'", 60)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_day(browser: Browser, folder: Path, tmp_path: Path, width: int) -> None:
    with in_process(folder) as client, watched(browser, width) as shown:
        page, address = shown.page, str(client.base_url).rstrip("/")
        page.goto(f"{address}/")
        page.get_by_role("link", name="screen").click()
        shown.until("document.body.dataset.drawn >= 1")
        assert page.locator("#live").inner_text() == "live"
        check_all_is_shown(page)
        page.screenshot(path=str(tmp_path / f"page-{width}.png"), full_page=True)

        previewed = page.locator("[data-part=preview] tbody tr").count()
        assert previewed == int(page.locator("#size").input_value()) == 10
        page.locator("#size").fill("6")
        shown.until("document.querySelectorAll('[data-part=preview] tbody tr').length === 6")
        names = page.locator("[data-part=preview] tbody th").all_inner_texts()
        ask_why(shown, names[0])
        page.get_by_role("button", name="Hand out this batch").click()
        waits_for(shown, "Open tickets", 6)
        handed_out = page.locator("[data-part=tickets] tbody td:nth-child(2)").all_inner_texts()
        assert sorted(handed_out) == sorted(names), "the preview is what was handed out"

        fill_and_drop(shown, tmp_path)
        record_one_and_fail_one(shown)
        correct_one(shown)
        exclude_and_readmit(shown)
        make_a_token_and_log_in(shown, address)

        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert not shown.complaints
        assert [each for each in shown.requested if not each.startswith((address, "data:"))] == []


def check_all_is_shown(page: Page) -> None:
    titles = page.locator("figure h3").all_inner_texts()
    for title in ["Best so far", "Importance of the columns", "Effect of temperature", "Map of the pool",
                  "Predicted against measured", "Calibration", "Batch sizes"]:  # fmt: skip
        assert title in titles
    assert page.locator(".chart svg").count() == len(titles) >= 10
    assert page.locator("[data-part=top] tbody tr").count() == 20
    assert "upper bound" in page.locator("[data-part=preview]").inner_text()
    body = page.locator("body").inner_text()
    assert "<script>alert(1)</script>" in body  # as text
    assert "{{7*7}}" in body
    assert page.locator("img[src=x]").count() == 0
    assert page.locator("b, i").count() == 0
    assert " to " in page.locator("header dl > div", has_text="Best by the model").inner_text()


def ask_why(shown: Watched, name: str) -> None:
    """The reasons for a candidate of the next batch, as text and on the screen."""
    page = shown.page
    page.locator("[data-part=preview]").get_by_role("button", name="Why?").first.click()
    shown.until("document.querySelectorAll('#why-text table').length === 2")
    text = page.locator("#why").inner_text()
    assert name in text
    assert "Nearest measured candidates" in text
    assert "temperature" in text
    assert "solvent" in text
    assert page.locator("#why img, #why b, #why i").count() == 0
    inside = "document.getElementById('why')"
    assert page.evaluate(f"{inside}.scrollWidth <= {inside}.clientWidth")
    page.locator("#why").get_by_role("button", name="Close").click()
    page.locator("#why").wait_for(state="hidden")


def fill_and_drop(shown: Watched, folder: Path) -> None:
    """Download the batch, fill four of its six rows, and drop it on the page."""
    page = shown.page
    with page.expect_download() as started:
        page.locator(".downloads a", has_text="CSV").first.click()
    blank = folder / "batch.csv"
    started.value.save_as(blank)
    with open(blank, newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 6
    for row in rows[:4]:
        row["value"] = str(value_of(row))
    filled = folder / "filled.csv"
    with open(filled, "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    transfer = page.evaluate_handle(
        """text => { const data = new DataTransfer();
        data.items.add(new File([text], "filled.csv", {type: "text/csv"})); return data; }""",
        filled.read_text(encoding="utf-8"),
    )
    page.locator("#drop").dispatch_event("drop", {"dataTransfer": transfer})
    shown.until("document.getElementById('drop-answer').textContent.startsWith('4 new results')")
    waits_for(shown, "Open tickets", 2)
    waits_for(shown, "Results", 24)
    page.locator("#file").set_input_files(filled)  # again, with the button: nothing changes
    shown.until("document.getElementById('drop-answer').textContent.startsWith('0 new results')")


def record_one_and_fail_one(shown: Watched) -> None:
    page = shown.page
    row = page.locator("[data-part=tickets] tbody tr").first
    row.locator("input[name=value]").fill("not a number")
    row.get_by_role("button", name="Record").click()
    shown.until("document.getElementById('told').textContent.includes('is not a number')")
    row.locator("input[name=value]").fill("0,5")
    row.locator("input[name=value]").press("Enter")
    waits_for(shown, "Results", 25)
    page.locator("[data-part=tickets]").get_by_role("button", name="Failed").first.click()
    page.get_by_label("Reason (optional)").fill("spilt <b>everything</b>")
    page.get_by_role("button", name="Mark as failed").click()
    waits_for(shown, "Failed", 1)
    waits_for(shown, "Open tickets", 0)
    page.locator("[data-part=results] summary", has_text="1 failed").click()
    assert "spilt <b>everything</b>" in page.locator("[data-part=results] details").first.inner_text()


def correct_one(shown: Watched) -> None:
    page = shown.page
    page.locator("[data-part=results]").get_by_role("button", name="Correct").nth(1).click()
    page.get_by_role("button", name="Correct", exact=True).last.click()
    shown.until("document.getElementById('dialog-problem').textContent.includes('is not a number')")
    page.get_by_label("Right value").fill("0.75")
    page.get_by_label("Reason (optional)").fill("typing error")
    page.keyboard.press("Enter")
    page.locator("#dialog").wait_for(state="hidden")
    shown.until("document.querySelector('[data-part=results]').textContent.includes('typing error')")
    assert "0.7500" in page.locator("[data-part=results] tbody").inner_text()


def exclude_and_readmit(shown: Watched) -> None:
    page = shown.page
    page.locator("#exclude-id").fill("no such recipe")
    page.locator("#exclude").get_by_role("button").click()
    shown.until("document.getElementById('told').textContent.includes('no such recipe')")
    expected_refusal(shown, 404)
    page.locator("[data-part=preview]").get_by_role("button", name="Exclude").first.click()
    name = page.locator("#dialog-text").inner_text().split(" is never")[0]
    page.get_by_role("button", name="Exclude", exact=True).last.click()
    shown.until("document.querySelectorAll('[data-part=excluded] li').length === 1")
    drawn = int(page.evaluate("document.body.dataset.drawn"))
    shown.until(f"document.body.dataset.drawn > {drawn - 1}")
    shown.until(
        f"![...document.querySelectorAll('[data-part=preview] th bdi')].some(b => b.title === {name!r})"
    )
    page.get_by_role("button", name="Allow again").click()
    shown.until("document.querySelector('[data-part=excluded]').textContent.includes('No candidate')")


def expected_refusal(shown: Watched, status: int) -> None:
    """The browser itself reports a request that was refused on purpose, and nothing else."""
    assert len(shown.complaints) == 1
    assert f"status of {status}" in shown.complaints.pop()


def make_a_token_and_log_in(shown: Watched, address: str) -> None:
    """The first token closes the service; the page then asks for it, and goes on."""
    page = shown.page
    page.locator("#token-name").fill("Ann")
    page.get_by_role("button", name="Make a token").click()
    page.locator("#token-answer code").wait_for()
    token = page.locator("#token-answer code").inner_text()
    assert token.startswith("ma_")
    page.goto(f"{address}/page/screen")
    page.wait_for_url("**/login?next=**")
    page.get_by_label("Token").fill("ma_wrong")
    page.get_by_role("button", name="Log in").click()
    shown.until("document.getElementById('problem').textContent.includes('wrong')")
    expected_refusal(shown, 401)
    page.get_by_label("Token").fill(token)
    page.keyboard.press("Enter")
    page.wait_for_url("**/page/screen")
    shown.until("document.body.dataset.drawn >= 1")
    page.get_by_role("button", name="Hand out this batch").click()
    waits_for(shown, "Open tickets", 6)


def test_the_page_updates_by_itself_and_by_keyboard(browser: Browser, folder: Path) -> None:
    """Another program tells results, and the page shows them; everything can be reached by Tab."""
    with in_process(folder) as client, watched(browser, 390) as shown:
        page = shown.page
        page.goto(f"{str(client.base_url).rstrip('/')}/page/screen")
        shown.until("document.body.dataset.drawn >= 1")
        with ma.Campaign(folder / "screen.db") as campaign:
            batch = campaign.ask(3)
            waits_for(shown, "Open tickets", 3)
            field = page.locator("[data-part=tickets] input").first
            field.fill("1.2")
            campaign.tell(tickets=[batch["ticket"][2]], values=[0.1])
            waits_for(shown, "Results", 21)
            assert field.input_value() == "1.2", "what is being typed stays"
        field.press("Enter")
        waits_for(shown, "Results", 22)
        waits_for(shown, "Open tickets", 1)
        reached: set[str] = set()
        page.locator("body").focus()
        for _ in range(150):
            page.keyboard.press("Tab")
            reached.add(
                page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()")
            )
        for wanted in (
            "size",
            "Hand out this batch",
            "file",
            "Correct",
            "exclude-id",
            "token-name",
            "Make a token",
        ):
            assert wanted in reached, wanted
        assert not shown.complaints

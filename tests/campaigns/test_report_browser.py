"""The report page in a real browser, on a wide and on a narrow screen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from manyarms.campaigns.report import CampaignReport, render
from tests.browser import chromium, watched
from tests.campaigns.reports import nasty_report, real_report, report
from tests.campaigns.test_report_page import SHAPES, campaign

pytestmark = pytest.mark.slow

REPORTS = {"real": real_report, "nasty": nasty_report, "empty": report}
# Every piece of text in the charts shown: its size on the screen in pixels, its box, its chart's box.
CHART_TEXT = """[...document.querySelectorAll('.chart svg')].flatMap((chart, number) => {
    const frame = chart.getBoundingClientRect();
    return [...chart.querySelectorAll('text')].map(text => {
        const box = text.getBoundingClientRect();
        return {
            chart: number, words: text.textContent, faint: getComputedStyle(text).opacity === '0',
            pixels: parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().d,
            turned: text.getScreenCTM().b !== 0,
            left: box.left - frame.left, right: box.right - frame.left, width: frame.width,
            top: box.top, bottom: box.bottom, above: box.top - frame.top, height: frame.height,
        };
    }).filter(text => text.words.trim() && !text.faint);
})"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


def written(made: CampaignReport, folder: Path) -> Path:
    page = folder / "report.html"
    page.write_text(render(made), encoding="utf-8")
    return page


@pytest.mark.parametrize("kind", REPORTS)
@pytest.mark.parametrize("width", [1400, 900, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_is_quiet_alone_and_fits(
    browser: Browser, tmp_path: Path, kind: str, width: int, scheme: str
) -> None:
    path = written(REPORTS[kind](), tmp_path)
    with watched(browser, width, scheme=scheme) as shown:
        shown.open(path)
        assert not shown.complaints
        assert shown.requested == [path.as_uri()]
        assert shown.page.evaluate("innerWidth") == width
        assert shown.page.evaluate("document.documentElement.scrollWidth") <= width
        ground = shown.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", ground))) < 384) == (scheme == "dark"), ground


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_of_campaign_is_drawn_without_complaint(
    browser: Browser, tmp_path: Path, shape: str
) -> None:
    with watched(browser, 900) as shown:
        shown.open(written(replace(campaign(SHAPES[shape]), optimum=4.0), tmp_path))
        assert not shown.complaints
        assert "NaN" not in shown.page.content().split("<script")[0]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("width", [1400, 1104, 900, 641, 390, 320])
def test_charts_can_be_read(browser: Browser, tmp_path: Path, width: int, known: bool) -> None:
    made = real_report()
    with watched(browser, width) as shown:
        shown.open(written(made if known else replace(made, optimum=None), tmp_path))
        assert shown.page.locator(".chart svg").count() == (11 if known else 10)
        texts = shown.page.evaluate(CHART_TEXT)
    assert len(texts) > 8 * 10
    for text in texts:
        assert text["turned"] or 9 <= text["pixels"] <= 20, text
        assert text["left"] >= -0.5, text
        assert text["right"] <= text["width"] + 0.5, text
        assert text["above"] >= -0.5, text
        assert text["above"] + text["bottom"] - text["top"] <= text["height"] + 0.5, text
    for place, one in enumerate(texts):
        for other in texts[place + 1 :]:
            apart = (
                one["chart"] != other["chart"]
                or one["right"] < other["left"] + 0.5
                or other["right"] < one["left"] + 0.5
                or one["bottom"] < other["top"] + 2
                or other["bottom"] < one["top"] + 2
            )
            assert apart, f"{one} covers {other}"


def test_a_mark_tells_its_values_and_a_hostile_name_is_text(browser: Browser, tmp_path: Path) -> None:
    with watched(browser, 1400) as shown:
        shown.open(written(nasty_report(), tmp_path))
        dots = shown.page.locator(".chart svg").first.locator("path[aria-roledescription=circle]")
        assert dots.count() > 20
        seen = ""
        for place in range(20):
            dots.nth(place).hover(force=True)
            seen += shown.page.locator("#vg-tooltip-element").inner_text()
        assert "<script>alert(1)</script>" in seen
        assert "candidate" in seen
        assert shown.page.locator("#vg-tooltip-element img, #vg-tooltip-element script").count() == 0
        assert not shown.complaints


def test_colours_follow_the_system_and_charts_the_window(browser: Browser, tmp_path: Path) -> None:
    with watched(browser, 1400) as shown:
        shown.open(written(real_report(60), tmp_path))
        before, wide = shown.page.content(), shown.page.locator(".chart svg").first.bounding_box()
        assert "#1f5fa8" in before
        shown.page.emulate_media(color_scheme="dark")
        shown.until("document.querySelector('.chart').innerHTML.includes('#6fb1f5')")
        shown.page.set_viewport_size({"width": 390, "height": 900})
        shown.until("document.documentElement.scrollWidth <= 390")
        shown.until(
            "[...document.querySelectorAll('.chart svg')].every(c => c.getBoundingClientRect().width <= 390)"
        )
        narrow = shown.page.locator(".chart svg").first.bounding_box()
        assert narrow["width"] < wide["width"]
        assert not shown.complaints


def test_tables_can_be_read_without_scripts(browser: Browser, tmp_path: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(written(real_report(60), tmp_path).as_uri())
    assert "switched off" in page.inner_text("body")
    assert page.locator("table").first.is_visible()
    context.close()

"""The report page in a real browser, on a wide and on a narrow screen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from manyarms.campaigns.report import CampaignReport, render
from tests.campaigns.browser import Browser, chromium
from tests.campaigns.reports import nasty_report, real_report, report

pytestmark = pytest.mark.slow

REPORTS = {"real": real_report, "nasty": nasty_report, "empty": report}
COMPLAINTS = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
# Every piece of text in the charts shown: its size on the screen in pixels, its box, its chart's box.
CHART_TEXT = """[...document.querySelectorAll('svg.chart')].flatMap((chart, number) => {
    const frame = chart.getBoundingClientRect();
    if (!frame.width) return [];
    return [...chart.querySelectorAll('text')].map(text => {
        const box = text.getBoundingClientRect();
        return {
            chart: number, words: text.textContent,
            pixels: parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a,
            left: box.left - frame.left, right: box.right - frame.left, width: frame.width,
            top: box.top, bottom: box.bottom,
        };
    });
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
    page = written(REPORTS[kind](), tmp_path)
    browser.open(page, width, scheme=scheme)
    assert not [complaint for name in COMPLAINTS for complaint in browser.named(name)]
    requested = [event["request"]["url"] for event in browser.named("Network.requestWillBeSent")]
    assert requested == [page.as_uri()]
    assert browser.value("innerWidth") == width
    assert browser.value("document.documentElement.scrollWidth") <= width
    ground = browser.value("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground))) < 384) == (scheme == "dark"), ground


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("width", [1400, 1104, 900, 641, 390, 320])
def test_charts_can_be_read(browser: Browser, tmp_path: Path, width: int, known: bool) -> None:
    made = real_report()
    browser.open(written(made if known else replace(made, optimum=None), tmp_path), width)
    shown = browser.value("[...document.querySelectorAll('svg.chart')].filter(c => c.clientWidth).length")
    assert shown == (6 if known else 5)
    texts = browser.value(CHART_TEXT)
    assert len(texts) > 8 * shown
    for text in texts:
        assert 9 <= text["pixels"] <= 20, text
        assert text["left"] >= -0.5, text
        assert text["right"] <= text["width"] + 0.5, text
    for one in texts:
        for other in texts:
            apart = (
                one["chart"] != other["chart"]
                or one["right"] < other["left"] + 0.5
                or other["right"] < one["left"] + 0.5
                or one["bottom"] < other["top"] + 2
                or other["bottom"] < one["top"] + 2
            )
            assert one == other or apart, f"{one} covers {other}"

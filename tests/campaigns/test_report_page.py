"""The report page: sound whatever the campaign, and closed to whatever its texts contain."""

from __future__ import annotations

import base64
import hashlib
import html
import itertools
import json
import math
import re
import time
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from xml.etree import ElementTree

import numpy as np
import pytest

from manyarms.campaigns.report import CampaignReport, render
from manyarms.campaigns.report.markup import shortened, tag, user_text
from manyarms.plots import theme
from manyarms.plots.charts.parts import tip
from manyarms.plots.web import SCRIPTS, script
from tests.campaigns.reports import NASTY, batch, measurement, nasty_report, real_report, report

VOID = {"meta", "link"}
ALLOWED = {
    "html", "head", "meta", "link", "title", "style", "body", "header", "main", "section", "footer",
    "h1", "h2", "h3", "p", "dl", "div", "dt", "dd", "ul", "li", "bdi", "details", "summary",
    "figure", "figcaption", "noscript", "script", "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip


class Reader(HTMLParser):
    """Checks that elements nest, and keeps elements, attributes and text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        self.open += [] if tag in VOID else [tag]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += "" if self.open[-1:] == ["script"] else data


def charts(page: str) -> list[dict[str, object]]:
    """The descriptions of the charts."""
    found = re.findall(r'<script type="application/json" id="chart-\d+">(.*?)</script>', page, re.DOTALL)
    assert len(found) == page.count("data-chart=")
    return [json.loads(text, parse_constant=lambda name: pytest.fail(name)) for text in found]


def check(made: CampaignReport) -> Reader:
    """What holds for every page; the page, read."""
    page = render(made)
    page.encode("utf-8")
    reader = Reader(page)
    assert {name for name, _ in reader.elements} <= ALLOWED
    handlers = [name for _, attributes in reader.elements for name in attributes if name.startswith("on")]
    assert not handlers
    for chart in charts(page):
        assert chart["description"]
        assert str(chart["$schema"]).startswith("https://vega.github.io/schema/vega-lite/v6")
    return reader


def campaign(values: list[float | None]) -> CampaignReport:
    """Two batches over these values, with predictions a little off."""
    half = max(1, len(values) // 2)
    measurements = [
        measurement(n, value, batch=1 + (n > half), predicted=None if value is None else 0.99 * value,
                    predicted_lower=None if value is None else 0.9 * value,
                    predicted_upper=None if value is None else 1.02 * value)
        for n, value in enumerate(values, 1)
    ]  # fmt: skip
    known = [value for value in values if value is not None and math.isfinite(value)] or [0.0]
    held = {"best_mean": max(known), "best_lower": min(known), "best_upper": 1.01 * max(known)}
    return report(measurements=measurements, batches=[batch(1, half), batch(2, len(values) - half, **held)])


SHAPES: dict[str, list[float | None]] = {
    "one": [2.5],
    "constant": [3.0] * 20,
    "all failed": [None] * 5,
    "no numbers": [math.nan, math.inf, -math.inf],
    "tiny": [1e-9, 3e-9, 2e-9],
    "denormal": [1e-320, 2e-320],
    "huge": [1e12, 3e12, -2e12],
    "largest": [1.7e308, -1.7e308, 1e-300],
    "one stray": [*[float(n % 7) for n in range(200)], -1e9],
    "close together": [1e12, 1e12 + 1, 1e12 + 2],
}


def test_an_empty_campaign_has_a_page() -> None:
    text = check(report()).text
    assert "There are no measured values yet." in text
    assert "There are no batches yet." in text


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("goal", "optimum"), [("maximise", None), ("minimise", 4.0), ("maximise", -1.7e308)])
def test_every_shape_of_campaign_has_a_page(shape: str, goal: str, optimum: float | None) -> None:
    check(replace(campaign(SHAPES[shape]), goal=goal, optimum=optimum))


def test_figures_that_are_no_numbers_are_left_out() -> None:
    lines = [batch(n, seconds=value, ratio=value) for n, value in enumerate([math.nan, math.inf, 1.0])]
    row = replace(real_report(30).top[0], mean=math.nan, std=math.inf)
    check(report(1.0, batches=lines, top=[row]))


def test_the_page_says_what_happened() -> None:
    made = real_report(150)
    reader = check(made)
    names = [name for name, _ in reader.elements]
    assert names.count("h1") == 1
    assert names.count("figure") == names.count("figcaption") == names.count("h3") == 11
    assert len(charts(render(made))) == 11
    for text in [
        made.title,
        "maximise",
        "Regret",
        made.top[0].id,
        "solvent",
        "policy",
        "BBKB",
        "90 % prediction interval",
    ]:
        assert text in reader.text
    for reason in {line.ended_because for line in made.batches}:
        assert reason in reader.text
    assert all(
        attributes.get("scope") in ("col", "row") for name, attributes in reader.elements if name == "th"
    )


def test_regret_is_shown_only_where_the_optimum_is_known() -> None:
    assert "Regret" not in check(campaign([1.0, 2.0])).text
    assert "Regret" in check(replace(campaign([1.0, 2.0]), optimum=3.0)).text


def test_the_page_may_load_nothing() -> None:
    reader = check(real_report(30))
    policy = next(
        a["content"] for _, a in reader.elements if a.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert policy.count("sha256-") == len(SCRIPTS) + 1
    assert "unsafe" not in policy
    assert "http" not in policy
    assert not [a for _, a in reader.elements if "src" in a or "style" in a]
    assert {a["href"] for _, a in reader.elements if "href" in a} == {"data:,"}
    written = re.sub(r"<script.*?</script>", "", render(real_report(30)), flags=re.DOTALL)
    assert not re.search(r"https?:|url\(|@import", written)


def test_the_policy_allows_exactly_the_scripts_of_the_page() -> None:
    page = render(real_report(30))
    allowed = set(re.findall(r"'sha256-([^']+)'", html.unescape(page)))
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digests = {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts}
    assert len(digests) == len(SCRIPTS)
    assert digests < allowed
    assert all("</script" not in script(name).lower() for name in SCRIPTS)


def test_nothing_from_the_user_becomes_part_of_the_page() -> None:
    made = nasty_report()
    reader, ordinary = check(made), check(real_report(60))
    elements, expected = ([name for name, _ in page.elements] for page in (reader, ordinary))
    for name in ("script", "img", "style", "section", "figure"):
        assert elements.count(name) == expected.count(name)
    assert "<script>alert(1)</script>" in reader.text  # as text
    assert "'; DROP TABLE arms; --" in reader.text


def test_long_texts_are_cut_and_whole_in_the_title() -> None:
    reader = check(nasty_report())
    whole = [a["title"] for name, a in reader.elements if name == "bdi" and "title" in a]
    assert "x" * 10_000 in whole
    assert "x" * 300 not in reader.text


@pytest.mark.parametrize("text", NASTY)
def test_any_text_survives_as_text(text: str) -> None:
    element = ElementTree.fromstring(user_text(text, 20))
    assert len(element.text or "") <= 20
    expected = text.replace("\x00", "\ufffd").replace("\x07", "\ufffd").replace("\ud800", "\ufffd")
    seen = element.get("title") or element.text or ""
    # XML reads line ends and tabs in attributes as blanks; browsers keep them.
    assert re.sub(r"\s+", " ", seen) == re.sub(r"\s+", " ", expected)
    assert not re.search("[\u202a-\u202e\u200f]", tip(text))


def test_markup_is_built_by_escaping() -> None:
    assert tag("p", "a < b", tag("b", "&"), title='"') == '<p title="&quot;">a &lt; b<b>&amp;</b></p>'
    assert tag("link", x1=1, class_="end", dy=None) == '<link x1="1" class="end"/>'
    assert shortened("  one\n two ", 20) == "one two"
    assert shortened("x" * 21, 20) == "x" * 19 + "…"


@pytest.mark.slow
def test_a_hundred_thousand_measurements_make_a_small_page_quickly() -> None:
    rng = np.random.default_rng(0)
    values, errors = rng.normal(size=100_000).tolist(), rng.normal(size=100_000).tolist()
    measurements = [
        measurement(n, value, id=f"<{n}>" * 30, predicted=value + error,
                    predicted_lower=value + error - 1.645, predicted_upper=value + error + 1.645, batch=n)
        for n, (value, error) in enumerate(zip(values, errors, strict=True), 1)
    ]  # fmt: skip
    batches = [batch(n, 1, best_mean=0.0, best_lower=-1.0, best_upper=1.0) for n in range(1, 100_001)]
    started = time.process_time()
    page = render(report(measurements=measurements, batches=batches, optimum=5.0))
    assert time.process_time() - started < 10
    assert len(page.encode()) < 3_000_000
    assert "1,000 of 100,000 measurements are drawn" in page
    assert "400 of 100,000 batches are drawn" in page
    assert "The latest 200 of 100,000 batches" in page
    share = int(re.search(r"(\d+) % of the measured values lie inside", page)[1])
    assert (
        89 <= share <= 91
    )  # errors are standard normal: 90 ± 0.1, from all of them and not from those drawn


# ---------------------------------------------------------------------- colours

# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
BLINDNESS = {
    "none": np.eye(3),
    "protan": np.array([[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]]),
    "deutan": np.array([[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]]),
    "tritan": np.array([[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]]),
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def themes() -> list[dict[str, np.ndarray]]:
    """The palettes of the style sheet, light and dark, in linear RGB."""
    css = files("manyarms.campaigns.report").joinpath("page.css").read_text(encoding="utf-8")
    return [
        {name: linear(colour) for name, colour in re.findall(r"--(\w+): #(\w{6})", block)}
        for block in re.findall(r":root \{([^}]*)\}", css)
    ]


def linear(colour: str) -> np.ndarray:
    share = np.array([int(colour[place : place + 2], 16) / 255 for place in (0, 2, 4)])
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def contrast(one: np.ndarray, other: np.ndarray) -> float:
    """As the Web Content Accessibility Guidelines define it."""
    dark, light = sorted(float(TO_XYZ[1] @ colour) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


def lab(colour: np.ndarray) -> np.ndarray:
    x, y, z = np.cbrt(TO_XYZ @ np.clip(colour, 1e-3, 1) / [0.9505, 1.0, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("dark", [0, 1])
def test_colours_stand_out_from_the_page(dark: int) -> None:
    theme_of_page = themes()[dark]
    for ground in ("paper", "card"):
        for ink in ("ink", "soft"):
            assert contrast(theme_of_page[ink], theme_of_page[ground]) >= 4.5
    for name, colour in [theme.LIGHT_COLOURS, theme.DARK_COLOURS][dark].items():
        assert (linear(colour[1:]) == theme_of_page[name]).all(), f"{name} of the charts"
    for mark in ("c0", "c1", "c2", "c3", "c4", "c5", "dots", "bad"):
        assert contrast(theme_of_page[mark], theme_of_page["card"]) >= 2.99, mark


@pytest.mark.parametrize("dark", [0, 1])
@pytest.mark.parametrize("kind", BLINDNESS)
def test_colours_of_reasons_differ_for_every_eye(dark: int, kind: str) -> None:
    colours = themes()[dark]
    seen = [lab(BLINDNESS[kind] @ colours[f"c{place}"]) for place in range(6)]
    assert min(float(np.linalg.norm(a - b)) for a, b in itertools.combinations(seen, 2)) > 15

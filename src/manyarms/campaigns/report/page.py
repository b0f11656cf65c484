"""The complete page: headline figures, charts and tables, in one file without scripts or requests."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files

from manyarms.campaigns.report.charts import (
    Figure,
    MissingFigure,
    batch_figures,
    calibration_figure,
    progress_figure,
    regret_figure,
)
from manyarms.campaigns.report.data import headline_data
from manyarms.campaigns.report.markup import Markup, join, shortened, tag, user_text
from manyarms.campaigns.report.scales import number
from manyarms.campaigns.report.values import BatchLine, CampaignReport, TopRow

# The pixel size of a chart for each screen width; the style sheet shows one of the drawings.
SIZES = {"full": (1200, 380), "half": (600, 330), "narrow": (340, 270)}
MOST_ROWS = 200  # rows of the table of batches


def render(report: CampaignReport) -> str:
    """The report as one self-contained HTML page."""
    style = Markup(files("manyarms.campaigns.report").joinpath("page.css").read_text(encoding="utf-8"))
    page = tag("html", head(report.title, style), body(report), lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def head(title: str, style: Markup) -> Markup:
    """The head of the page; its security policy allows nothing but the embedded style sheet."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("link", rel="icon", href="data:,"),
        tag("title", shortened(title, 120)),
        tag("style", style),
    )


def body(report: CampaignReport) -> Markup:
    """The sections of the page, the most important first."""
    sizes, seconds, dictionary = batch_figures(report)
    progress: list[Figure | MissingFigure] = [progress_figure(report)]
    if report.optimum is not None:
        progress.append(regret_figure(report))
    main = [
        section("Progress", figures(progress)),
        section("Top candidates", top_table(report.top)),
        section("Batches", join([figures([sizes, seconds]), batch_table(report.batches)])),
        section("Model", figures([calibration_figure(report), dictionary])),
        section("Settings", facts_table(report.facts)),
    ]
    foot = "Point at a mark to see its values. All values are in the units in which they were recorded."
    return tag("body", masthead(report), tag("main", join(main)), tag("footer", tag("p", foot)))


def masthead(report: CampaignReport) -> Markup:
    """The title and the headline figures."""
    cards = []
    for line in headline_data(report):
        parts = [tag("dt", line.name), tag("dd", number(line.figure), class_="figure")]
        parts += [tag("dd", user_text(line.note, 40), class_="note")] if line.note else []
        cards.append(tag("div", *parts))
    return tag(
        "header",
        tag("p", f"Campaign report: {report.goal}", class_="kind"),
        tag("h1", user_text(report.title, 120)),
        tag("dl", *cards),
    )


def section(title: str, content: Markup) -> Markup:
    """A section of the page."""
    return tag("section", tag("h2", title), content)


def figures(shown: Sequence[Figure | MissingFigure]) -> Markup:
    """Figures side by side if there is room; a single figure takes the whole width."""
    alone = len(shown) == 1
    rooms = list(SIZES) if alone else ["half", "narrow"]
    return tag(
        "div", *[figure(item, rooms) for item in shown], class_="figures alone" if alone else "figures"
    )


def figure(item: Figure | MissingFigure, rooms: list[str]) -> Markup:
    """A chart drawn for each screen width, with its caption and legend."""
    title = tag("h3", item.title)
    if isinstance(item, MissingFigure):
        return tag("figure", tag("figcaption", title), tag("p", item.why, class_="empty"))
    keys = [tag("li", swatch(style), tag("bdi", text)) for style, text in item.legend]
    return tag(
        "figure",
        tag("figcaption", title, tag("p", " ".join(item.caption))),
        tag("ul", *keys, class_="legend") if keys else Markup(""),
        *[item.chart.svg(*SIZES[room], style=room) for room in rooms],
    )


def swatch(style: str) -> Markup:
    """A sample of a mark for the legend."""
    shapes = {
        "dots": tag("circle", cx=9, cy=6, r=3),
        "pairs": tag("circle", cx=9, cy=6, r=3),
        "failed": tag("path", d="M9 1v10"),
        "best": tag("path", d="M0 6h18"),
        "mean": tag("path", d="M0 6h18"),
        "dashed": tag("path", d="M0 6h18"),
    }
    shape = shapes.get(style, tag("rect", width=18, height=12))
    return tag("svg", tag("g", shape, class_=style), viewBox="0 0 18 12", aria_hidden="true", class_="swatch")


@dataclass(frozen=True)
class TableColumn:
    """A column of a table; numbers are aligned to the right."""

    name: str
    cells: list[str]
    numeric: bool = False

    @property
    def style(self) -> str | None:
        """The style class of its cells."""
        return "num" if self.numeric else None


def figures_column(name: str, values: Iterable[float]) -> TableColumn:
    """A column of numbers."""
    return TableColumn(name, [number(value) for value in values], numeric=True)


def own_column(name: str, cells: list[str]) -> TableColumn:
    """One of the user's columns."""
    return TableColumn(name, cells, numeric=all(map(looks_numeric, cells)))


def looks_numeric(text: str) -> bool:
    """Whether a user's text is a number or empty."""
    try:
        float(text or "0")
    except ValueError:
        return False
    return True


def table(columns: list[TableColumn], label: str) -> Markup:
    """A table that scrolls in its own box if it is wider than the screen."""
    names = [tag("th", user_text(column.name, 30), scope="col", class_=column.style) for column in columns]
    rows = []
    for row in zip(*[column.cells for column in columns], strict=True):
        first, *rest = map(user_text, row)
        cells = [tag("td", cell, class_=column.style) for cell, column in zip(rest, columns[1:], strict=True)]
        rows.append(tag("tr", tag("th", first, scope="row", class_=columns[0].style), *cells))
    whole = tag("table", tag("thead", tag("tr", *names)), tag("tbody", join(rows)))
    return tag("div", whole, class_="scroll", tabindex=0, role="region", aria_label=label)


def top_table(top: list[TopRow]) -> Markup:
    """The candidates with the best model mean, with the user's own columns."""
    if not top:
        return tag("p", "No candidate has been measured yet.", class_="empty")
    own = dict.fromkeys(name for row in top for name in row.columns)
    columns = [
        figures_column("rank", [row.rank for row in top]),
        TableColumn("id", [row.id for row in top]),
        figures_column("model mean", [row.mean for row in top]),
        figures_column("model sd", [row.std for row in top]),
        figures_column("measurements", [row.pulls for row in top]),
        figures_column("average", [row.average for row in top]),
        *[own_column(name, [row.columns.get(name, "") for row in top]) for name in own],
    ]
    return table(columns, "Top candidates")


def batch_table(batches: list[BatchLine]) -> Markup:
    """All batches in a collapsed table, the latest first."""
    if not batches:
        return Markup("")
    shown = batches[: -MOST_ROWS - 1 : -1]
    columns = [
        figures_column("batch", [batch.number for batch in shown]),
        TableColumn("asked", [batch.asked_at for batch in shown]),
        figures_column("candidates", [batch.size for batch in shown]),
        TableColumn("ended because", [batch.ended_because for batch in shown]),
        figures_column("variance ratio", [batch.ratio for batch in shown]),
        figures_column("dictionary", [batch.dictionary_size for batch in shown]),
        figures_column("seconds", [batch.seconds for batch in shown]),
    ]
    cut = len(shown) < len(batches)
    which = f"The latest {len(shown):,} of {len(batches):,} batches" if cut else "All batches"
    return tag("details", tag("summary", f"{which} as a table"), table(columns, "Batches"))


def facts_table(facts: list[tuple[str, str]]) -> Markup:
    """The settings and counts, in the given order."""
    if not facts:
        return tag("p", "No settings are recorded.", class_="empty")
    rows = [
        tag("tr", tag("th", user_text(name, 60), scope="row"), tag("td", user_text(value, 200)))
        for name, value in facts
    ]
    return tag("div", tag("table", tag("tbody", join(rows)), class_="facts"), class_="scroll")

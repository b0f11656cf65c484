"""The whole page: headline facts, figures, tables. One file, no script, no request to anywhere."""

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

# Pixels of a chart by the room it has; the style sheet shows one of the drawings.
SIZES = {"full": (1200, 380), "half": (600, 330), "narrow": (340, 270)}
MOST_ROWS = 200  # of the table of batches


def render(report: CampaignReport) -> str:
    """The report as one self-contained HTML page."""
    style = Markup(files("manyarms.campaigns.report").joinpath("page.css").read_text(encoding="utf-8"))
    page = tag("html", head(report.title, style), body(report), lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def head(title: str, style: Markup) -> Markup:
    """What the browser must know: above all that this page may load nothing but its own style."""
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
    """From what matters most to what was set."""
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
    foot = "Point at a mark for its values. Values carry the units they were told in."
    return tag("body", masthead(report), tag("main", join(main)), tag("footer", tag("p", foot)))


def masthead(report: CampaignReport) -> Markup:
    """Title and headline facts."""
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
    """A part of the page."""
    return tag("section", tag("h2", title), content)


def figures(shown: Sequence[Figure | MissingFigure]) -> Markup:
    """Side by side where there is room; one alone takes the whole width."""
    alone = len(shown) == 1
    rooms = list(SIZES) if alone else ["half", "narrow"]
    return tag(
        "div", *[figure(item, rooms) for item in shown], class_="figures alone" if alone else "figures"
    )


def figure(item: Figure | MissingFigure, rooms: list[str]) -> Markup:
    """A chart drawn for each kind of room, with its words."""
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
    """A sample of how a mark looks."""
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
    """A column of a table; numbers stand to the right."""

    name: str
    cells: list[str]
    numeric: bool = False

    @property
    def style(self) -> str | None:
        """The class of its cells."""
        return "num" if self.numeric else None


def figures_column(name: str, values: Iterable[float]) -> TableColumn:
    """A column of numbers."""
    return TableColumn(name, [number(value) for value in values], numeric=True)


def own_column(name: str, cells: list[str]) -> TableColumn:
    """A column of the user's."""
    return TableColumn(name, cells, numeric=all(map(looks_numeric, cells)))


def looks_numeric(text: str) -> bool:
    """Whether a user's text is a number, or nothing."""
    try:
        float(text or "0")
    except ValueError:
        return False
    return True


def table(columns: list[TableColumn], label: str) -> Markup:
    """A table that scrolls in its own box when it is wider than the screen."""
    names = [tag("th", user_text(column.name, 30), scope="col", class_=column.style) for column in columns]
    rows = []
    for row in zip(*[column.cells for column in columns], strict=True):
        first, *rest = map(user_text, row)
        cells = [tag("td", cell, class_=column.style) for cell, column in zip(rest, columns[1:], strict=True)]
        rows.append(tag("tr", tag("th", first, scope="row", class_=columns[0].style), *cells))
    whole = tag("table", tag("thead", tag("tr", *names)), tag("tbody", join(rows)))
    return tag("div", whole, class_="scroll", tabindex=0, role="region", aria_label=label)


def top_table(top: list[TopRow]) -> Markup:
    """The best candidates by the model, with the user's own columns."""
    if not top:
        return tag("p", "No candidate has been measured yet.", class_="empty")
    own = dict.fromkeys(name for row in top for name in row.columns)
    columns = [
        figures_column("rank", [row.rank for row in top]),
        TableColumn("id", [row.id for row in top]),
        figures_column("model mean", [row.mean for row in top]),
        figures_column("model sd", [row.std for row in top]),
        figures_column("pulls", [row.pulls for row in top]),
        figures_column("average", [row.average for row in top]),
        *[own_column(name, [row.columns.get(name, "") for row in top]) for name in own],
    ]
    return table(columns, "Top candidates")


def batch_table(batches: list[BatchLine]) -> Markup:
    """The batches in full, the latest first, folded away."""
    if not batches:
        return Markup("")
    shown = batches[: -MOST_ROWS - 1 : -1]
    columns = [
        figures_column("batch", [batch.number for batch in shown]),
        TableColumn("asked", [batch.asked_at for batch in shown]),
        figures_column("pulls", [batch.size for batch in shown]),
        TableColumn("ended because", [batch.ended_because for batch in shown]),
        figures_column("variance ratio", [batch.ratio for batch in shown]),
        figures_column("dictionary", [batch.dictionary_size for batch in shown]),
        figures_column("seconds", [batch.seconds for batch in shown]),
    ]
    cut = len(shown) < len(batches)
    which = f"The latest {len(shown):,} of {len(batches):,} batches" if cut else "All batches"
    return tag("details", tag("summary", f"{which} as a table"), table(columns, "Batches"))


def facts_table(facts: list[tuple[str, str]]) -> Markup:
    """Settings and counts, in the order given."""
    if not facts:
        return tag("p", "None are recorded.", class_="empty")
    rows = [
        tag("tr", tag("th", user_text(name, 60), scope="row"), tag("td", user_text(value, 200)))
        for name, value in facts
    ]
    return tag("div", tag("table", tag("tbody", join(rows)), class_="facts"), class_="scroll")

"""The complete page: headline figures, charts and tables, in one file that requests nothing.

The charts are drawn by scripts inside the file, which the page's security policy allows by their digests. The
tables are readable without scripts.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files

from manyarms.campaigns.report.data import headline_data
from manyarms.campaigns.report.figures import (
    AGREEMENT,
    BATCHES,
    LEARNED,
    PROGRESS,
    Figures,
    agreement_figures,
    batch_figures,
    learned_figures,
    progress_figures,
)
from manyarms.campaigns.report.markup import Markup, join, shortened, tag, user_text
from manyarms.campaigns.report.values import CampaignReport, TopRow
from manyarms.plots.numbers import number
from manyarms.plots.plot import Plot
from manyarms.plots.view import BatchLine
from manyarms.plots.web import SCRIPTS, THEMES, MissingFigure, as_json, script

MOST_ROWS = 200  # rows of the table of batches
NO_SCRIPTS = "The charts are drawn by JavaScript, which is switched off. The tables below need none."


def render(report: CampaignReport) -> str:
    """The report as one self-contained HTML page."""
    style = Markup(files("manyarms.campaigns.report").joinpath("page.css").read_text(encoding="utf-8"))
    scripts = [script(name) for name in SCRIPTS]
    page = tag("html", head(report.title, style, scripts), body(report, scripts), lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def digest(text: str) -> str:
    """A text as the security policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def head(title: str, style: Markup, scripts: Sequence[str]) -> Markup:
    """The head of the page; its security policy allows nothing but the embedded style sheet and scripts."""
    allowed = " ".join(map(digest, scripts))
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src {digest(style)}; img-src data:; "
        f"base-uri 'none'; form-action 'none'"
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


def body(report: CampaignReport, scripts: Sequence[str]) -> Markup:
    """The sections of the page, the most important first, then the scripts."""
    view = report.view()
    charts = _Charts()
    main = [
        section(PROGRESS, charts.figures(progress_figures(view, report.optimum))),
        section("Top candidates", top_table(report.top)),
        section(LEARNED, charts.figures(learned_figures(view))),
        section(AGREEMENT, charts.figures(agreement_figures(view))),
        section(BATCHES, join([charts.figures(batch_figures(view)), batch_table(report.batches)])),
        section("Settings", facts_table(report.facts)),
    ]
    foot = "Point at a mark to see its values. All values are in the units in which they were recorded."
    return tag(
        "body",
        masthead(report),
        tag("noscript", tag("p", NO_SCRIPTS, class_="empty")),
        tag("main", join(main)),
        tag("footer", tag("p", foot)),
        json_block("chart-themes", THEMES),
        *[json_block(name, spec) for name, spec in charts.specs.items()],
        *[tag("script", Markup(text)) for text in scripts],
    )


def json_block(name: str, value: object) -> Markup:
    """Data for the scripts, in which no text can end the element."""
    return tag("script", Markup(as_json(value)), type="application/json", id=name)


class _Charts:
    """Figures as markup; `specs` collects the description of each chart under its id."""

    def __init__(self) -> None:
        self.specs: dict[str, object] = {}

    def figures(self, shown: Figures) -> Markup:
        """Figures side by side if there is room; a single figure takes the whole width."""
        style = "figures alone" if len(shown) == 1 else "figures"
        return tag("div", *map(self.figure, shown), class_=style)

    def figure(self, item: Plot | MissingFigure) -> Markup:
        """A chart with its title and caption, or the reason why there is none."""
        title = tag("h3", item.title)
        if isinstance(item, MissingFigure):
            return tag("figure", tag("figcaption", title), tag("p", item.why, class_="empty"))
        name = f"chart-{1 + len(self.specs)}"
        self.specs[name] = item.spec()
        place = tag("div", class_="chart", data_chart=name)
        return tag("figure", tag("figcaption", title, tag("p", " ".join(item.caption))), place)


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

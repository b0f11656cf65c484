"""`Plot`: a chart with the data behind it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manyarms.errors import InvalidParameterError, MissingExtraError
from manyarms.plots.theme import DARK, LIGHT

FORMATS = (".png", ".svg", ".html", ".json")
WIDTH, HEIGHT = 640, 320  # pixels of a chart outside of a web page


@dataclass(frozen=True)
class Plot:
    """A chart: its title, what it says in sentences, the Altair chart, and the data that it shows.

    It draws itself as the last expression of a notebook cell. `save` writes it to a file; `data` is the
    result of the function of the same name that ends in `_data`.

    """

    title: str
    caption: tuple[str, ...]
    layers: Any  # an Altair chart without size and configuration; its data are named
    tables: dict[str, list[dict[str, Any]]]  # the rows of each name
    data: Any
    description: str
    height: int = HEIGHT

    @property
    def chart(self) -> Any:
        """The Altair chart, with its title and colours."""
        altair = altair_module()
        title = altair.TitleParams(self.title, subtitle=_lines(" ".join(self.caption)))
        sized = self.layers.properties(
            width=WIDTH, height=self.height, title=title, description=self.description
        )
        return sized.properties(config=LIGHT, padding=12, datasets=self.tables)

    def spec(self) -> dict[str, Any]:
        """The Vega-Lite description for a web page: as wide as its place, without colours of its own."""
        sized = self.layers.properties(width="container", height=self.height, description=self.description)
        found: dict[str, Any] = sized.to_dict(validate=False)
        found.pop("config", None)
        return {**found, "datasets": self.tables, "autosize": {"type": "fit-x", "contains": "padding"}}

    def save(self, path: str | Path, *, dark: bool = False) -> None:
        """Write the chart to a .png, .svg, .html or .json file."""
        place = Path(path)
        if place.suffix.lower() not in FORMATS:
            raise InvalidParameterError("path", str(path), f"a file name that ends in {', '.join(FORMATS)}")
        chart = self.chart.properties(config=DARK) if dark else self.chart
        if place.suffix.lower() in (".png", ".svg"):
            try:
                import vl_convert  # noqa: F401
            except ImportError:
                raise MissingExtraError("vl-convert-python", "plots", f"a chart as {place.suffix}") from None
        chart.save(str(place), **({"scale_factor": 2} if place.suffix.lower() == ".png" else {}))

    def _repr_mimebundle_(self, *args: Any, **kwargs: Any) -> Any:
        """What a notebook shows."""
        return self.chart._repr_mimebundle_(*args, **kwargs)


def altair_module() -> Any:
    """Altair, which draws the charts."""
    try:
        import altair
    except ImportError:
        raise MissingExtraError("altair", "plots", "a chart") from None
    return altair


def _lines(text: str, longest: int = 105) -> list[str]:
    """The text in lines that fit above the chart."""
    lines = [""]
    for word in text.replace(" %", "\N{NO-BREAK SPACE}%").split(" "):
        if lines[-1] and len(lines[-1]) + len(word) >= longest:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines

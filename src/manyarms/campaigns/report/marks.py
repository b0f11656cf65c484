"""SVG charts composed of simple marks. A chart is a value that can be drawn at any size."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from manyarms.campaigns.report.data import Point
from manyarms.campaigns.report.markup import Markup, join, tag
from manyarms.campaigns.report.scales import AxisScale

LETTER = 6.9  # upper bound on the average width of a character in a 12-pixel font, in pixels
TOP, BOTTOM, RIGHT = 26.0, 46.0, 22.0


@dataclass(frozen=True)
class Area:
    """The plotting area with its two scales."""

    x: AxisScale
    y: AxisScale
    width: float
    height: float

    def place(self, point: Point) -> str | None:
        """The pixel position of a point; None if it is not finite. Distant points are moved closer."""
        across, up = self.x.share(point[0]), self.y.share(point[1])
        if not (math.isfinite(across) and math.isfinite(up)):
            return None
        return f"{self.width * within(across):.1f} {self.height * (1 - within(up)):.1f}"

    def places(self, points: Iterable[Point]) -> list[str]:
        """The pixel positions of all finite points."""
        return [place for point in points if (place := self.place(point)) is not None]


def within(share: float) -> float:
    """Limit a position to the surroundings of the chart; both are invisible."""
    return min(max(share, -2.0), 3.0)


class Mark(Protocol):
    """An element of a chart; its `style` is a class of the style sheet."""

    def draw(self, area: Area) -> Markup:
        """The mark as SVG."""


def hint(text: str) -> list[Markup]:
    """A tooltip, if there is a text for it."""
    return [tag("title", text)] if text else []


@dataclass(frozen=True)
class Dots:
    """Points, each with a tooltip."""

    points: list[tuple[float, float, str]]
    style: str
    radius: float = 2.5

    def draw(self, area: Area) -> Markup:
        """One circle per point."""
        circles = []
        for x, y, text in self.points:
            if place := area.place((x, y)):
                cx, cy = place.split()
                circles.append(tag("circle", *hint(text), cx=cx, cy=cy, r=self.radius))
        return tag("g", *circles, class_=self.style)


@dataclass(frozen=True)
class Line:
    """A line through points."""

    points: list[Point]
    style: str

    def draw(self, area: Area) -> Markup:
        """One path through all points."""
        places = area.places(self.points)
        return tag("path", d=f"M{'L'.join(places)}", class_=self.style) if places else Markup("")


@dataclass(frozen=True)
class Rectangle:
    """A rectangle between two values of each axis, with a tooltip."""

    left: float
    right: float
    low: float
    high: float
    style: str
    text: str

    def draw(self, area: Area) -> Markup:
        """A closed path, which unlike an SVG rectangle accepts corners in any order."""
        corners = [
            (self.left, self.low),
            (self.left, self.high),
            (self.right, self.high),
            (self.right, self.low),
        ]
        places = area.places(corners)
        if len(places) < len(corners):
            return Markup("")
        return tag("path", *hint(self.text), d=f"M{'L'.join(places)}Z", class_=self.style)


@dataclass(frozen=True)
class Rug:
    """Short strokes at the lower edge."""

    at: list[int]
    style: str

    def draw(self, area: Area) -> Markup:
        """One path of many strokes."""
        strokes = [f"M{area.width * within(area.x.share(x)):.1f} {area.height:.1f}v-9" for x in self.at]
        return tag("path", d="".join(strokes), class_=self.style) if strokes else Markup("")


@dataclass(frozen=True)
class Chart:
    """A chart without a size. `label` describes it in words for readers who cannot see it."""

    label: str
    x: AxisScale
    y: AxisScale
    x_title: str
    y_title: str
    marks: list[Mark] = field(default_factory=list)

    def svg(self, width: int, height: int, style: str) -> Markup:
        """The chart in a box of this many pixels."""
        y_ticks = self.y.ticks(max(3, height // 45))
        left = round(14.0 + LETTER * max((len(text) for _, text in y_ticks), default=1), 1)
        area = Area(self.x, self.y, round(width - left - RIGHT, 1), height - TOP - BOTTOM)
        x_ticks = self.x.ticks(max(3, int(area.width // 62)))
        inner = tag(
            "svg", *[mark.draw(area) for mark in self.marks],
            x=left, y=TOP, width=area.width, height=area.height, class_="plot",
        )  # fmt: skip
        return tag(
            "svg", grid(area, left, y_ticks), inner, axis(area, left, x_ticks), *self._titles(area, left),
            viewBox=f"0 0 {width} {height}", role="img", aria_label=self.label, class_=f"chart {style}",
        )  # fmt: skip

    def _titles(self, area: Area, left: float) -> list[Markup]:
        across = f"{self.x_title} ({self.x.unit})" if self.x.unit else self.x_title
        upward = f"{self.y_title} ({self.y.unit})" if self.y.unit else self.y_title
        return [
            tag("text", upward, x=4, y=14, class_="name"),
            tag("text", across, x=left + area.width, y=TOP + area.height + 38, class_="name end"),
        ]


def grid(area: Area, left: float, ticks: list[tuple[float, str]]) -> Markup:
    """Horizontal lines at the ticks, with their labels."""
    parts = []
    for share, text in ticks:
        y = f"{TOP + area.height * (1 - share):.1f}"
        parts.append(tag("line", x1=left, x2=left + area.width, y1=y, y2=y))
        parts.append(tag("text", text, x=left - 7, y=y, dy="0.35em", class_="end"))
    return tag("g", join(parts, ""), class_="grid")


def axis(area: Area, left: float, ticks: list[tuple[float, str]]) -> Markup:
    """The lower axis with its ticks and labels."""
    bottom = TOP + area.height
    parts = [tag("line", x1=left, x2=left + area.width, y1=bottom, y2=bottom)]
    for share, text in ticks:
        x = f"{left + area.width * share:.1f}"
        parts.append(tag("line", x1=x, x2=x, y1=bottom, y2=bottom + 5))
        parts.append(tag("text", text, x=x, y=bottom + 18, class_="middle"))
    return tag("g", join(parts, ""), class_="axis")

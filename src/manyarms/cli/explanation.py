"""How the command prints why a candidate was or would be chosen."""

from __future__ import annotations

from typing import Any

from manyarms.campaigns.explaining import value_text
from manyarms.campaigns.text import counted
from manyarms.cli.output import cell_text, print_table, say


def show_explanation(found: dict[str, Any]) -> None:
    """Print one explanation: what is predicted, the nearest measured candidates, and the columns."""
    spread = f"{cell_text(found['mean'])} ± {found['std']:.3g}"
    if found["lower"] is not None:
        ends = cell_text(found["lower"]), cell_text(found["upper"])
        spread += f"; 90 % of measurements between {ends[0]} and {ends[1]}"
    say(f"{found['id']}: predicted {spread}")
    if found["reason"]:
        say(f"  chosen by: {found['reason']}")
    if found["measurements"]:
        how_often = counted(found["measurements"], "measurement")
        say(f"  measured: average {cell_text(found['average'])} of {how_often}")
    if found.get("failures"):
        say(f"  failed: {counted(found['failures'], 'time')}")
    if found.get("success") is not None:
        say(f"  predicted probability that a trial succeeds: {found['success']:.2f}")
    if found["neighbours"]:
        rows = [
            [each["id"], round(each["correlation"], 3), each["average"], each["measurements"]]
            for each in found["neighbours"]
        ]
        print_table(["nearest measured", "correlation", "average", "measurements"], rows)
    if found["columns"]:
        header = ["column", "value", "against the pool", f"in {found['best']}", f"against {found['best']}"]
        rows = [
            [
                each["column"], value_text(each["value"]), f"{each['against_pool']:+.3g}",
                value_text(each["best_value"]), f"{each['against_best']:+.3g}",
            ]
            for each in found["columns"]
        ]  # fmt: skip
        print_table(header, rows)

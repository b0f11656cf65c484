"""Results grouped by case and method and averaged over seeds, for figures and tables."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from manyarms.reproduce.curves import Curve, Panel, averaged, mean_and_sd
from manyarms.reproduce.experiment import ExperimentResult, SummaryRow
from manyarms.support.validation import Floats


def grouped(results: Sequence[ExperimentResult]) -> dict[str, dict[str, list[ExperimentResult]]]:
    """Results by case, then by method, in order of appearance."""
    found: dict[str, dict[str, list[ExperimentResult]]] = {}
    for result in results:
        found.setdefault(result.job.case, {}).setdefault(result.job.method, []).append(result)
    return found


def by_case_and_method(results: Sequence[ExperimentResult]) -> list[tuple[str, str, list[ExperimentResult]]]:
    """The same groups as a list of (case, method, runs)."""
    return [
        (case, method, runs) for case, methods in grouped(results).items() for method, runs in methods.items()
    ]


def to_csv(rows: list[SummaryRow]) -> str:
    """A summary as CSV text."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def to_markdown(rows: list[SummaryRow]) -> str:
    """A summary as a Markdown table, the form of docs/reproduction.md."""
    header = [" | ".join(rows[0]), " | ".join("---" for _ in rows[0])]
    body = [" | ".join(shown(value) for value in row.values()) for row in rows]
    return "".join(f"| {line} |\n" for line in (*header, *body))


def shown(value: str | int | float) -> str:
    """A value with three digits, whole numbers and numbers above 1 000 without decimals."""
    if isinstance(value, str) or math.isnan(value):
        return str(value) if isinstance(value, str) else "–"
    if abs(value) >= 1_000 or float(value).is_integer():
        return f"{value:.0f}"
    return f"{value:.3g}"


def panel_of(
    case: str, y_label: str, column: str, methods: dict[str, list[ExperimentResult]], *, log_y: bool = False
) -> Panel:
    """One column of every method's runs (`simulation.trace_columns`) against t."""
    curves = [
        averaged(name, runs[0].numbers["t"], [(run.numbers | run.timings)[column] for run in runs])
        for name, runs in methods.items()
    ]
    return Panel(f"{case}: {y_label}" if case else y_label, "t", y_label, tuple(curves), log_y=log_y)


def regret_panel(case: str, methods: dict[str, list[ExperimentResult]]) -> Panel:
    """Cumulative regret of every method and of a uniformly random choice."""
    panel = panel_of(case, "cumulative regret", "regret", methods)
    longest = max((runs for runs in methods.values()), key=lambda runs: float(runs[0].numbers["t"][-1]))
    uniform, _ = mean_and_sd([run.numbers["uniform_regret"] for run in longest])
    chance = Curve("uniform choice", longest[0].numbers["t"], uniform, kind="reference")
    return replace(panel, curves=(*panel.curves, chance))


def relative_regret_panel(case: str, methods: dict[str, list[ExperimentResult]]) -> Panel:
    """The regret of every method divided by that of a uniformly random choice, R_t / R_uniform."""
    shares = {
        name: [replace(run, numbers=run.numbers | {"share": relative_regret(run)}) for run in runs]
        for name, runs in methods.items()
    }
    return replace(panel_of(case, "regret / uniform", "share", shares), y_limits=(0.0, 1.05))


def relative_regret(run: ExperimentResult) -> Floats:
    """R_t / R_uniform at the recorded steps: 1 is as good as chance."""
    return run.numbers["regret"] / run.numbers["uniform_regret"]


def final_rows(results: Sequence[ExperimentResult]) -> list[SummaryRow]:
    """Every method at its last step, averaged over seeds."""
    return [_final_row(case, method, runs) for case, method, runs in by_case_and_method(results)]


def _final_row(case: str, method: str, runs: list[ExperimentResult]) -> SummaryRow:
    last = {name: np.array([run.numbers[name][-1] for run in runs]) for name in runs[0].numbers}
    regret, sd = mean_and_sd(last["regret"])
    return {
        "case": case,
        "method": method,
        "T": int(last["t"][0]),
        "seeds": len(runs),
        "regret": float(regret),
        "regret sd": float(sd),
        "uniform regret": float(last["uniform_regret"].mean()),
        "R/uniform": float((last["regret"] / last["uniform_regret"]).mean()),
        "CPU s": float(np.mean([run.timings["seconds"][-1] for run in runs])),
        "largest batch": int(last["largest_batch"].max()),
        "batches": float(last["batches"].mean()),
        "inducing arms": float(last["dictionary"].mean()),
        "unique arms": float(last["unique_arms"].mean()),
    }

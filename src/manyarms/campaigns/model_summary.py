"""A summary of a learned model, as plain data and as lines of text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from manyarms.kernels import RBF, Matern, Mixed, OnColumns, OneHot, Reading, Scale, Sum
from manyarms.kernels.describe import describe
from manyarms.kernels.readings import INDICATORS, NAME, NUMBER
from manyarms.learning import LearnedModel, should_refit
from manyarms.posterior.history import History

MOST_NAMED = 8  # columns named in the line about length-scales


def model_facts(
    model: LearnedModel, columns: Sequence[tuple[str, float]], recorded: Sequence[tuple[int, float]]
) -> dict[str, Any]:
    """The learned model as plain data; `recorded` are all rewards so far; larger is better.

    Columns are sorted by influence. Length-scales are given in units of the column's scale, which makes them
    comparable. Signal and noise are given in standard deviations of the modelled values. The noise is also
    given in the user's units, for values near the middle, once there are results. If it differs between
    candidates, it is that of an average one.
    """
    kernel = model.kernel
    assert isinstance(kernel, Scale)
    _, low, high = model.in_user_units(np.array(-model.mean), np.array(model.noise_std))
    return {
        "family": model.family,
        "lengthscales": _lengthscales(_of_features(kernel.kernel), columns),
        "signal_std": math.sqrt(kernel.variance),
        "noise_std": model.noise_std,
        "noise_in_units": 0.5 * float(high - low) if model.n_pulls else None,
        "noise_depends_on": None if model.noise_law is None else model.noise_law.depends_on,
        "transform": model.transform.describe()["transform"],
        "results": model.n_pulls,
        "candidates": model.n_unique,
        "outcome": model.outcome,
        "learned_again_at_the_next_ask": _refit_is_due(model, recorded),
        "kernel": describe(kernel),
    }


def _of_features(kernel: Any) -> Any:
    """The kernel of the features, without what old results predict (`learning/old_family.py`).

    Of own effects by category, the part that all categories share (`learning/by_category.py`).
    """
    while isinstance(kernel, Sum | OnColumns | Scale):
        kernel = kernel.parts[0] if isinstance(kernel, Sum) else kernel.kernel
    return kernel


def _refit_is_due(model: LearnedModel, recorded: Sequence[tuple[int, float]]) -> bool:
    arms = [arm for arm, _ in recorded]
    history = History(1 + max(arms, default=0))
    history.add(arms, [reward for _, reward in recorded])
    return len(history) > 0 and should_refit(model, history)


def _lengthscales(kernel: Any, columns: Sequence[tuple[str, float]]) -> list[dict[str, Any]]:
    """The length-scales of all columns that are not constant, shortest first; empty if the kernel has none.

    The indicator columns of a category share one length-scale and appear under the name of the category. A
    column that is not read in the usual way appears with how it is read.
    """
    if isinstance(kernel, OneHot | Mixed) and columns:
        return _of_readings(kernel, [name for name, _ in columns])
    if not isinstance(kernel, RBF | Matern) or not columns:
        return []
    found = {
        name: {"column": name, "in_spreads": float(length) / spread, "lengthscale": float(length)}
        for (name, spread), length in zip(columns, np.ravel(kernel.lengthscale), strict=True)
        if spread > 0
    }
    return sorted(found.values(), key=lambda each: float(each["in_spreads"]))


def _of_readings(kernel: OneHot | Mixed, columns: Sequence[str]) -> list[dict[str, Any]]:
    """The length-scales of the readings of columns; their scales are part of the readings."""
    positions = tuple(Reading(NAME, (j,)) for j in range(len(columns)))
    readings = positions if isinstance(kernel, OneHot) else kernel.readings
    lengths = np.broadcast_to(np.asarray(kernel.lengthscale), (len(readings),)).tolist()
    found = []
    for reading, length in zip(readings, lengths, strict=True):
        usual = reading.kind in (NUMBER, INDICATORS) or isinstance(kernel, OneHot)
        name = columns[reading.columns[0]] + ("" if usual else f" ({reading.kind})")
        found.append({"column": name, "in_spreads": length, "lengthscale": length * reading.scale})
    return sorted(found, key=lambda each: float(each["in_spreads"]))


def model_lines(found: dict[str, Any] | None) -> list[tuple[str, str]]:
    """The result of `model_facts` as lines of text; None if there has been no ask yet."""
    if found is None:
        return [("model", "will be learned from the results, starting with the first ask")]
    if not found["results"]:
        return [("model", f"{found['family']}, until there are results to learn from")]
    again = "; it will be learned again at the next ask" if found["learned_again_at_the_next_ask"] else ""
    basis = f"learned from {found['results']} results of {found['candidates']} candidates{again}"
    noise = f"{found['noise_std']:.3g}, about {found['noise_in_units']:.3g} in your units"
    lines = [("model", f"{found['family']}; {basis}")]
    if found["lengthscales"]:
        lines.append(("length-scales", _named(found["lengthscales"])))
    lines.append(("signal", f"{found['signal_std']:.3g} standard deviations of the modelled values"))
    depends_on = found["noise_depends_on"]
    where = (
        f"for an average candidate; it depends on the {depends_on}" if depends_on else "near the median value"
    )
    lines.append(("noise", f"{noise} {where}"))
    return [*lines, ("transform", f"{found['transform']}")]


def _named(lengthscales: list[dict[str, Any]]) -> str:
    """The most influential columns with their length-scales, or one number shared by all."""
    lengths = [each["in_spreads"] for each in lengthscales]
    if max(lengths) <= min(lengths) * (1 + 1e-9):
        return f"{lengths[0]:.3g} times the scale of each column, the same for every column"
    named = [f"{each['column']} {each['in_spreads']:.3g}" for each in lengthscales[:MOST_NAMED]]
    rest = len(lengths) - MOST_NAMED
    more = f" and {rest} longer ones" if rest > 0 else ""
    return f"{', '.join(named)}{more} (in units of the column's scale; the shortest have the most influence)"

"""What a learned model found, as plain data for programs and as lines for people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from manyarms.kernels import RBF, Matern, Scale
from manyarms.kernels.describe import describe
from manyarms.learning import LearnedModel, should_refit
from manyarms.posterior.history import History

MOST_NAMED = 8  # length-scales in a line for people


def learned_facts(
    model: LearnedModel, columns: Sequence[tuple[str, float]], told: Sequence[tuple[int, float]]
) -> dict[str, Any]:
    """Everything found, the most influential column first; `told` are all results by now, more being better.

    Length-scales count in spreads of their column, which makes them comparable; signal and noise in standard
    deviations of all values on the model's scale, the noise also in the user's units about the middle value,
    once there are values that have units.
    """
    kernel = model.kernel
    assert isinstance(kernel, Scale)
    _, low, high = model.in_user_units(np.array(-model.mean), np.array(model.noise_std))
    return {
        "family": model.family,
        "lengthscales": _lengthscales(kernel.kernel, columns),
        "signal_std": math.sqrt(kernel.variance),
        "noise_std": model.noise_std,
        "noise_in_units": 0.5 * float(high - low) if model.n_pulls else None,
        "transform": model.transform.describe()["transform"],
        "results": model.n_pulls,
        "candidates": model.n_unique,
        "outcome": model.outcome,
        "learned_again_at_the_next_ask": _due(model, told),
        "kernel": describe(kernel),
    }


def _due(model: LearnedModel, told: Sequence[tuple[int, float]]) -> bool:
    arms = [arm for arm, _ in told]
    history = History(1 + max(arms, default=0))
    history.add(arms, [reward for _, reward in told])
    return len(history) > 0 and should_refit(model, history)


def _lengthscales(kernel: Any, columns: Sequence[tuple[str, float]]) -> list[dict[str, Any]]:
    """Of the columns that tell candidates apart, the shortest first; none where the kernel has none.

    The texts of a category come under the name of its column and share one length-scale.
    """
    if not isinstance(kernel, RBF | Matern) or not columns:
        return []
    found = {
        name: {"column": name, "in_spreads": float(length) / spread, "lengthscale": float(length)}
        for (name, spread), length in zip(columns, np.ravel(kernel.lengthscale), strict=True)
        if spread > 0
    }
    return sorted(found.values(), key=lambda each: float(each["in_spreads"]))


def learned_lines(found: dict[str, Any] | None) -> list[tuple[str, str]]:
    """What `learned_facts` gave, to read; None where no ask has been made yet."""
    if found is None:
        return [("model", "learned from the results, beginning with the first ask")]
    if not found["results"]:
        return [("model", f"{found['family']} until there are results to learn from")]
    again = "; will be learned again at the next ask" if found["learned_again_at_the_next_ask"] else ""
    basis = f"learned from {found['results']} results of {found['candidates']} candidates{again}"
    noise = f"{found['noise_std']:.3g}, about {found['noise_in_units']:.3g} in your units"
    lines = [("model", f"{found['family']}; {basis}")]
    if found["lengthscales"]:
        lines.append(("length-scales", _named(found["lengthscales"])))
    lines.append(("signal", f"{found['signal_std']:.3g} standard deviations of the modelled values"))
    lines.append(("noise", f"{noise} at the middle of the values told"))
    return [*lines, ("values are", f"modelled as {found['transform']}")]


def _named(lengthscales: list[dict[str, Any]]) -> str:
    """The most influential columns by name, or one number for all."""
    lengths = [each["in_spreads"] for each in lengthscales]
    if max(lengths) <= min(lengths) * (1 + 1e-9):
        return f"{lengths[0]:.3g} spreads, the same for every column"
    named = [f"{each['column']} {each['in_spreads']:.3g}" for each in lengthscales[:MOST_NAMED]]
    rest = len(lengths) - MOST_NAMED
    more = f" and {rest} longer ones" if rest > 0 else ""
    return f"{', '.join(named)}{more} (in spreads; short ones matter most)"

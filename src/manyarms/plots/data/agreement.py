"""The data of the charts of agreement: predicted against measured values, and the coverage of intervals.

A campaign stores its predictions when it hands out candidates. A run in Python does not; its results are
predicted from all other results instead (leave one out), which needs the exact posterior on the measured arms
alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from manyarms.plots.data.progress import MOST_POINTS, values_of
from manyarms.plots.numbers import axis_range, central, thinned, usable
from manyarms.plots.view import ModelView, RunView
from manyarms.support.linalg import inverse_positive_definite
from manyarms.support.validation import Floats, Ints

NINETY = NormalDist().inv_cdf(0.95)  # standard deviations to either side that hold 90 % of a normal variable
MOST_LEFT_OUT = 1500  # measured arms that are predicted from all others: the cost grows with the third power
JITTER = 1e-9  # of the prior variance
SHARES = tuple(round(0.05 * step, 2) for step in range(1, 20))


@dataclass(frozen=True)
class Pair:
    """One measured value and its prediction; `score` is the error in standard deviations."""

    id: str
    predicted: float
    measured: float
    lower: float | None = None
    upper: float | None = None
    score: float | None = None


@dataclass(frozen=True)
class PredictedData:
    """Pairs of predicted and measured values; `pairs` holds all of them, `points` those that are drawn."""

    pairs: list[Pair]
    points: list[Pair]
    error: float  # root mean square
    inside: int  # values inside their 90 % interval
    n_intervals: int
    left_out: bool  # whether each value was predicted from all others

    @property
    def range(self) -> tuple[float, float]:
        """One range for both axes."""
        predicted, measured = [p.predicted for p in self.points], [p.measured for p in self.points]
        ends = [end for side in (predicted, measured) for end in central(side) or (0.0, 0.0)]
        return axis_range(ends)


@dataclass(frozen=True)
class CalibrationData:
    """For each share: the fraction of values inside the central interval that should hold this share.

    `lower` and `upper` bound the fraction for a perfectly calibrated model, with probability 95 % at each
    share.
    """

    shares: tuple[float, ...]
    fractions: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    n: int
    left_out: bool


def predicted_data(view: RunView) -> PredictedData:
    """Predicted against measured values."""
    pairs = [
        Pair(
            m.id,
            predicted,
            value,
            *_interval_and_score(predicted, value, m.predicted_lower, m.predicted_upper),
        )
        for m, value in values_of(view.measurements)
        if (predicted := usable(m.predicted)) is not None
    ]
    left_out = False
    if not pairs and not any(m.predicted is not None for m in view.measurements):
        model = view.model()
        pairs, left_out = ([], False) if model is None else (leave_one_out(model), True)
    distance = math.dist([p.predicted for p in pairs], [p.measured for p in pairs])
    error = distance / math.sqrt(len(pairs)) if pairs else math.nan
    hits = [p.lower <= p.measured <= p.upper for p in pairs if p.lower is not None and p.upper is not None]
    return PredictedData(pairs, thinned(pairs, MOST_POINTS), error, sum(hits), len(hits), left_out)


def _interval_and_score(
    predicted: float, value: float, lower: float | None, upper: float | None
) -> tuple[float | None, float | None, float | None]:
    """The ends of the interval, and the error relative to the half of the interval on its side."""
    low, high = usable(lower), usable(upper)
    if low is None or high is None:
        return None, None, None
    half = high - predicted if value >= predicted else predicted - low
    return low, high, NINETY * (value - predicted) / half if half > 0 else None


def calibration_data(view: RunView) -> CalibrationData:
    """How often values lie inside prediction intervals of every size, beside how often they should."""
    found = predicted_data(view)
    scores = np.abs([p.score for p in found.pairs if p.score is not None])
    n = len(scores)
    limits = [NormalDist().inv_cdf(0.5 + 0.5 * share) for share in SHARES]
    fractions = [float((scores <= limit).mean()) if n else math.nan for limit in limits]
    reach = [1.96 * math.sqrt(share * (1 - share) / max(n, 1)) for share in SHARES]
    pairs = list(zip(SHARES, reach, strict=True))
    lower = tuple(max(0.0, share - each) for share, each in pairs)
    upper = tuple(min(1.0, share + each) for share, each in pairs)
    return CalibrationData(SHARES, tuple(fractions), lower, upper, n, found.left_out)


def leave_one_out(model: ModelView) -> list[Pair]:
    """Each measured arm's average, predicted from the results of all other arms, with a 90 % interval.

    With C = K + Λ/n on the measured arms, the prediction of the average of arm i without its own results is
    y_i − [C⁻¹y]_i / [C⁻¹]_ii with variance 1 / [C⁻¹]_ii, its own noise included (Rasmussen and Williams, eq.
    5.12).
    """
    arms, averages, counts = _averages(model)
    chosen = np.array(thinned(range(len(arms)), MOST_LEFT_OUT), dtype=np.int64)
    arms, averages, counts = arms[chosen], averages[chosen], counts[chosen]
    if len(arms) < 2:
        return []
    run = model.run
    rows, ridge = run.context.encoded_pool.take(arms), run.posterior.ridge
    kernel = np.asarray(run.posterior.kernel.matrix(rows, rows), dtype=np.float64)
    noise = ridge / counts
    rounding = JITTER * float(np.diag(kernel).mean())  # equal arms with hardly any noise
    inverse = inverse_positive_definite(kernel + np.diag(noise + rounding))
    variance = 1.0 / np.diag(inverse)
    mean = averages - variance * (inverse @ averages)
    noise = np.minimum(noise, variance)
    factor = 1.0 if run.model is None else run.model.std_factor
    std = np.sqrt(factor**2 * (variance - noise) + noise)
    middle, lower, upper = model.model_interval(mean, std, NINETY)
    measured = model.to_user(model.scale.rewards(averages))
    columns = (each.tolist() for each in (middle, measured, lower, upper, (averages - mean) / std))
    return [Pair(*row) for row in zip(model.names(arms), *columns, strict=True)]


def _averages(model: ModelView) -> tuple[Ints, Floats, Floats]:
    """The measured arms, their average values on the scale of the model, and their numbers of results."""
    state = model.run.state
    history, learned = state.history, state.belief.model
    if learned is not None:
        targets = learned.targets(history, model.run.context.encoded_pool)
        return targets.arms, targets.means, targets.counts
    counts = np.asarray(history.counts, dtype=np.float64)
    return history.arms, history.sums / counts, counts

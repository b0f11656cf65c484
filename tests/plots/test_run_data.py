"""What the charts of results and batches show, before anything is drawn."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from manyarms.campaigns.report import CampaignReport
from manyarms.campaigns.report.data import headline_data
from manyarms.errors import InvalidParameterError
from manyarms.plots.data import batches, progress
from manyarms.plots.data.agreement import NINETY, predicted_data
from manyarms.plots.data.batches import MOST_BARS, MOST_REASONS, BatchData
from manyarms.plots.data.progress import MOST_POINTS, ProgressData, improvements, recorded_before
from manyarms.plots.numbers import axis_range, central, number, thinned
from manyarms.plots.view import BatchLine
from tests.campaigns.reports import batch, measurement, report


def progress_data(told: CampaignReport) -> ProgressData:
    return progress.progress_data(told.view())


def batch_data(lines: list[BatchLine]) -> BatchData:
    return batches.batch_data(report(batches=lines).view())


def test_best_so_far_keeps_its_value_until_a_better_one() -> None:
    data = progress_data(report(1.0, None, 3.0, 2.0))
    assert data.best == [(1, 1.0), (3, 1.0), (3, 3.0), (4, 3.0)]
    assert data.failed == [2]
    assert data.n_values == 3


def test_best_so_far_follows_the_goal() -> None:
    values = (2.0, 3.0, 1.0)
    assert [value for _, value in improvements(report(*values).view())] == [2.0, 3.0]
    assert [value for _, value in improvements(report(*values, goal="minimise").view())] == [2.0, 1.0]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_counts_as_failed(value: float) -> None:
    told = report(1.0, value)
    assert progress_data(told).failed == [2]
    assert {line.name: line.figure for line in headline_data(told)}["Failed"] == 1


def test_headlines() -> None:
    told = report(1.0, 3.0, None, batches=[batch(1, 2, seconds=0.5), batch(2, 1, seconds=math.nan)])
    assert [(line.name, line.figure, line.note) for line in headline_data(told)] == [
        ("Best measured", 3.0, "arm-2"),
        ("Measurements", 3, ""),
        ("Failed", 1, ""),
        ("Batches", 2, "3 tickets"),
        ("Seconds of computing", 0.5, ""),
    ]


def test_an_interval_holds_from_its_batch_to_the_next() -> None:
    measurements = [measurement(n, 0.0, batch=b) for n, b in enumerate([1, 1, 2, 2, 2], 1)]
    batches = [
        batch(1),
        batch(2, best_mean=1.0, best_lower=0.5, best_upper=1.5),
        batch(3, best_mean=2.0, best_lower=math.nan, best_upper=2.5),
        batch(4, best_mean=3.0, best_lower=2.5, best_upper=3.5),
    ]
    model = progress_data(report(measurements=measurements, batches=batches)).model
    assert [(held.batch, held.start, held.end) for held in model] == [(2, 2.0, 5.0), (4, 5.0, 6.0)]


def test_a_batch_was_asked_before_those_after_it() -> None:
    # The second batch's results came first; the third has none yet.
    measurements = [measurement(n, 0.0, batch=b) for n, b in enumerate([2, 2, 1, None], 1)]
    told = report(measurements=measurements, batches=[batch(1), batch(2), batch(3)])
    assert recorded_before(told.view()) == {1: 0.0, 2: 0.0, 3: 4.0}


@pytest.mark.parametrize(
    ("goal", "values"), [("maximise", (8.0, 9.0, 10.0)), ("minimise", (12.0, 11.0, 10.0))]
)
def test_regret_is_averaged_from_the_start(goal: str, values: tuple[float, ...]) -> None:
    data = progress.regret_data(report(*values, goal=goal).view(), 10.0)
    assert [value for _, value in data.average] == pytest.approx([2.0, 1.5, 1.0])
    assert data.total == pytest.approx(3.0)


def test_batches_by_reason_with_the_commonest_first() -> None:
    data = batch_data([batch(1, 1, ended_because="first arm"), batch(2, 4), batch(3, 6)])
    assert data.reasons == [("fixed size", 2), ("first arm", 1)]
    assert [bar.reasons for bar in data.bars] == [{"first arm": 1}, {"fixed size": 4}, {"fixed size": 6}]


def test_many_batches_are_averaged_and_nothing_is_lost() -> None:
    lines = [batch(n, n % 7, ended_because="ab"[n % 2], seconds=float(n)) for n in range(1, 1001)]
    data = batch_data(lines)
    assert len(data.bars) <= MOST_BARS
    assert (data.bars[0].first, data.bars[-1].last) == (1, 1000)
    pulls = sum(sum(bar.reasons.values()) * (bar.last - bar.first + 1) for bar in data.bars)
    assert pulls == pytest.approx(sum(line.size for line in lines))
    assert data.bars[0].seconds == pytest.approx((1 + data.bars[0].last) / 2)


def test_rare_reasons_share_a_colour() -> None:
    data = batch_data([batch(n, ended_because=str(n)) for n in range(20)])
    assert len(data.reasons) == MOST_REASONS
    assert data.reasons[-1] == ("other reasons", 20 - MOST_REASONS + 1)


def test_predicted_against_measured() -> None:
    predictions = [
        (1.0, 1.0, 0.8, 1.5),
        (2.0, 2.5, 2.4, 2.6),
        (3.0, math.nan, 2.0, 4.0),
        (4.0, 4.1, None, None),
        (None, 1.0, 0.0, 2.0),
    ]
    told = [
        measurement(n, value, predicted=mean, predicted_lower=lower, predicted_upper=upper)
        for n, (value, mean, lower, upper) in enumerate(predictions, 1)
    ]
    data = predicted_data(report(measurements=told).view())
    assert (len(data.pairs), data.inside, data.n_intervals) == (3, 1, 2)
    assert not data.left_out
    assert [pair.score for pair in data.pairs] == [0.0, pytest.approx(NINETY * -0.5 / 0.1), None]
    assert data.error == pytest.approx(math.sqrt((0.25 + 0.01) / 3))


def test_thinning_is_even_and_keeps_both_ends() -> None:
    kept = thinned(range(100_000), MOST_POINTS)
    assert len(kept) == MOST_POINTS
    assert (kept[0], kept[-1]) == (0, 99_999)
    assert {after - before for before, after in pairwise(kept)} == {100, 101}


def test_strays_do_not_set_the_range() -> None:
    assert central([*range(1000), 1e9]) == (10, 990)
    assert central([1.0, 2.0, 30.0]) == (1.0, 30.0)
    assert central([5.0] * 500 + [6.0]) == (5.0, 6.0)
    assert central([]) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"), (5.07, "5.070"), (-0.25, "−0.2500"), (999.96, "1,000"), (206_855.8, "206,856"),
        (1e-9, "1.000×10⁻⁹"), (-1.5e12, "−1.500×10¹²"), (1_234_567, "1,234,567"), (10_000_000, "10,000,000"),
        (math.nan, "–"), (math.inf, "–"), (None, "–"),
    ],
)  # fmt: skip
def test_numbers_are_written_for_readers(value: float | None, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(5.1224e-4, 2, "5.1×10⁻⁴"), (0.003, 2, "0.0030"), (12.4, 2, "12"), (9.96, 2, "10"), (9.94, 2, "9.9"),
     (3e-4, 1, "3×10⁻⁴"), (0.03, 1, "0.03"), (14.2, 1, "14"), (-250.0, 2, "−250")],
)  # fmt: skip
def test_numbers_with_fewer_digits(value: float, digits: int, text: str) -> None:
    assert number(value, digits) == text


@pytest.mark.parametrize(
    "values",
    [
        [0, 1],
        [3.2],
        [0.0],
        [1e-9, 5e-9],
        [1e12, 3e12],
        [1e12, 1e12 + 1],
        [-1.7e308, 1.7e308],
        [1e-320],
        [1e-320, 2e-320],
        [-4, -3],
        [],
    ],
)
def test_an_axis_shows_its_values_and_can_be_divided(values: list[float]) -> None:
    low, high = axis_range(values)
    span = high - low
    assert math.isfinite(span)
    assert span > 1e-12 * max(abs(low), abs(high))
    assert span / 10 > 0
    assert math.log10(span) > -300
    for value in values:
        assert low <= value <= high or abs(value) > 1e300


@pytest.mark.parametrize("changes", [{"goal": "maximize"}, {"optimum": math.nan}])
def test_reports_that_make_no_sense_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(InvalidParameterError, match=next(iter(changes))):
        report(1.0, **changes)

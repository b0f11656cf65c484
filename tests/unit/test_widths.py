"""Each width against its formula, written out here once more by hand."""

from __future__ import annotations

import math

import pytest

from manyarms.choice import widths
from manyarms.choice.widths import Assumptions, RunStatistics, width_named
from manyarms.errors import InvalidParameterError

GIVEN = Assumptions(ridge=0.2, noise_std=0.3, norm_bound=2.0, delta=0.01, epsilon=0.5, batch_ratio=4.0)
SEEN = RunStatistics(
    pulls=50,
    effective_dimension=7.0,
    log_det=11.0,
    prior_variance=1.5,
    triple_log_sum=20.0,
    log_sum=9.0,
    escaped=0.1,
    residual_trace=0.02,
)
LOG, BIAS = math.log(100.0), math.sqrt(0.2) * 2.0
KAPPA = 2 * 0.02 / 0.2
SHRINK, SHIFT = 1 / math.sqrt(1 - math.sqrt(3 * KAPPA)), math.sqrt(KAPPA)  # a_t and c_t

EXPECTED = {
    "exact": 2 * (BIAS + 0.3 * math.sqrt(11 + 2 * LOG)),
    "exact-printed": 2 * (BIAS + 0.3 * math.sqrt(2 * (11 + LOG))),
    "certified": 2 * (0.3 * math.sqrt(11 + 0.1 + 2 * LOG) + (math.sqrt(0.2) + math.sqrt(0.02)) * 2.0),
    "bkb": 0.6 * math.sqrt(3 * (1 + math.log(1.5 * 50 / 0.2 + 1)) / 2 * 7 + LOG) + (1 + math.sqrt(2)) * BIAS,
    "bkb-printed": 0.6 * math.sqrt(3 * math.log(75) * 7 + LOG) + (1 + math.sqrt(2)) * BIAS,
    "bkb-slides": 0.6 * math.sqrt(math.log(50) * 7 + LOG) + 3 * BIAS,
    "bbkb": 2 * (0.6 * math.sqrt(20 + LOG) + (1 + math.sqrt(2)) * BIAS),
    "bbkb-printed": 4 * (0.6 * math.sqrt(20 + LOG) + (1 + math.sqrt(2)) * BIAS),
    "authors-bkb": BIAS + math.sqrt(0.09 * (math.log(50) * 7 + LOG)),
    "authors-bbkb": BIAS + math.sqrt(0.09 * (4 * 9 + LOG)),
    "soful": 0.3 * math.sqrt(1.5) * math.sqrt(11 + 2 * LOG) + 1.5 * BIAS,
    "thompson": math.sqrt(0.2)
    * (1 + SHRINK * (2 + 0.3 / math.sqrt(0.2) * math.sqrt(11 + 2 * math.log(2500)) + SHIFT)),
    "thompson-printed": math.sqrt(0.2)
    * (1 + SHRINK * (2 + 0.3 * math.sqrt(2 * math.log(2500) / 0.2) + SHIFT)),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_formula(name):
    assert width_named(name)(SEEN, GIVEN) == pytest.approx(EXPECTED[name], rel=1e-12)


def test_every_named_width_is_checked_here():
    assert set(EXPECTED) == set(widths.WIDTHS)


def test_a_number_counts_posterior_standard_deviations():
    assert width_named(2.0)(SEEN, GIVEN) == pytest.approx(2.0 * math.sqrt(0.2))


def test_thompson_and_duets_widths():
    noise = 0.3 / math.sqrt(0.2) * math.sqrt(11 + 2 * math.log(2500))
    assert widths.thompson_scale(50, 11.0, GIVEN) == pytest.approx(1 + 2 + noise)
    a, c = 1 / math.sqrt(1 - math.sqrt(0.3)), math.sqrt(0.1)
    assert widths.thompson_scale(50, 11.0, GIVEN, kappa=0.1) == pytest.approx(1 + a * (2 + noise + c))
    assert widths.thompson_scale(50, 11.0, GIVEN, kappa=0.4) == pytest.approx(1 + 2 + noise)
    printed = 0.3 * math.sqrt(2 * math.log(2500) / 0.2)
    assert widths.thompson_scale(50, 11.0, GIVEN, printed=True) == pytest.approx(1 + 2 + printed)
    duets = 2 + 0.3 * math.sqrt(2 / 0.2 * math.log(200))
    assert widths.duets_printed(GIVEN) == pytest.approx(duets)
    assert widths.duets_proved(GIVEN) == pytest.approx(duets + math.sqrt(2) * 2)


@pytest.mark.parametrize("width", ["nonsense", -1.0, float("nan"), None, True])
def test_bad_width_is_named(width):
    with pytest.raises(InvalidParameterError, match="width"):
        width_named(width)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ridge", 0.0),
        ("noise_std", -1.0),
        ("norm_bound", 0.0),
        ("delta", 1.0),
        ("epsilon", 0.0),
        ("batch_ratio", 0.5),
    ],
)
def test_bad_assumptions_are_named(field, value):
    settings = {"ridge": 1.0, "noise_std": 1.0, "norm_bound": 1.0, "delta": 0.1, field: value}
    with pytest.raises(InvalidParameterError, match=field):
        Assumptions(**settings)

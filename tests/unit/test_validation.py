"""Input checks, one by one, and the errors they raise."""

import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from manyarms import errors
from manyarms.errors import InvalidParameterError, InvalidRewardError, UnknownArmError
from manyarms.support import validation

NUMBER_CHECKS = {
    "positive": (
        validation.positive,
        [1e-300, 2, np.float32(0.5), np.array(3.0), Fraction(1, 3), Decimal("0.1")],
        [0, -1],
    ),
    "non_negative": (validation.non_negative, [0, 0.0, 7], [-1e-300]),
    "at_least_one": (validation.at_least_one, [1, 1.5], [0.999]),
    "probability": (validation.probability, [0.5, 1e-9], [0, 1, -0.1, 1.1]),
    "share": (validation.share, [0, 1, 0.5], [-0.1, 1.1]),
}
NOT_NUMBERS = [
    "1",
    b"1",
    None,
    True,
    np.False_,
    1j,
    np.complex128(1),
    np.nan,
    np.inf,
    [1.0],
    np.ones(1),
    10**400,
    {},
]


@pytest.mark.parametrize(("check", "good", "bad"), NUMBER_CHECKS.values(), ids=NUMBER_CHECKS.keys())
def test_numbers(check, good, bad):
    for value in good:
        assert check("setting", value) == float(value)
        assert type(check("setting", value)) is float
    for value in bad + NOT_NUMBERS:
        with pytest.raises(InvalidParameterError, match="setting must be") as caught:
            check("setting", value)
        assert caught.value.value is value


@pytest.mark.parametrize("value", [0, -1, 1.0, "1", True, np.True_, None, np.nan, [1]], ids=repr)
def test_count_refuses(value):
    with pytest.raises(InvalidParameterError, match="size must be a whole number of at least 1"):
        validation.count("size", value)


def test_count_accepts_whole_numbers():
    assert [validation.count("size", value, 0) for value in (0, 3, np.uint8(4), np.array(5))] == [0, 3, 4, 5]


@pytest.mark.parametrize(
    ("arms", "expected"),
    [
        (3, [3]),
        ([0, 9, 0], [0, 9, 0]),
        (np.uint8([1]), [1]),
        ([], []),
        ((), []),
        (range(2), [0, 1]),
        (pd.Series([4]), [4]),
    ],
    ids=repr,
)
def test_arm_indices_accepts(arms, expected):
    indices = validation.arm_indices(arms, 10)
    assert indices.tolist() == expected
    assert indices.dtype == np.int64


@pytest.mark.parametrize(
    ("arms", "says"),
    [
        ([3, 10], "arm 10 is not in the pool of 10 arms"),
        (-1, "arm -1"),
        (np.uint64(2**63), "9223372036854775808"),
        (2**70, "1180591620717411303424"),
        (1.0, "got 1.0"),
        ([True, False], "True"),
        ("3", "'3'"),
        (None, "None"),
        ([[1, 2]], "vector"),
        ([[1], [1, 2]], "vector"),
        (np.array([3], dtype="m8[s]"), "vector"),
        (np.ma.array([1, 2], mask=[False, True]), "vector"),
        ([1, None], "None"),
        ([0.5] * 10**5, "…"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_arm_indices_refuses(arms, says):
    with pytest.raises(UnknownArmError, match=says) as caught:
        validation.arm_indices(arms, 10)
    assert len(str(caught.value)) < 250


def test_arm_index_is_for_one_arm():
    assert validation.arm_index(np.int32(3), 10) == 3
    for arms in ([], [3], [1, 2], 3.0):
        with pytest.raises(UnknownArmError):
            validation.arm_index(arms, 10)


@pytest.mark.parametrize(
    "rewards", [[1, 0.5], (True, False), np.float32([1, 2]), pd.Series([1.0, 2.0]), [Decimal(1), 2]], ids=repr
)
def test_finite_rewards_accepts(rewards):
    array = validation.finite_rewards(rewards, 2)
    assert array.dtype == np.float64
    assert array.tolist() == [float(reward) for reward in rewards]


def test_finite_rewards_copies():
    rewards = np.ones(2)
    validation.finite_rewards(rewards, 2)[0] = 5.0
    assert rewards[0] == 1.0


@pytest.mark.parametrize(
    ("rewards", "says"),
    [
        ([1.0, np.nan], "reward nan at position 1"),
        ([-np.inf, 1.0], "reward -inf at position 0"),
        ([1.0], "2 rewards expected"),
        ([[1.0, 2.0]], r"\(1, 2\)"),
        ([[1.0], [2.0, 3.0]], "numbers"),
        (["1", "2"], "'1'"),
        ([1.0, None], "reward nan at position 1"),
        ([1.0, pd.NA], "<NA>"),
        (np.array([1j, 2]), "numbers"),
        (np.array([1, 2], dtype="m8[s]"), "numbers"),
        (np.array(["2020", "2021"], dtype="M8[Y]"), "numbers"),
        ([1.0, 10**400], "numbers"),
        (np.ma.array([1.0, 2.0], mask=[False, True]), "reward masked at position 1"),
        ({"a": 1}, "numbers"),
        (3.0, r"\(1,\)"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_finite_rewards_refuses(rewards, says):
    with pytest.raises(InvalidRewardError, match=says):
        validation.finite_rewards(rewards, 2)


def test_missing_values():
    for value in (None, np.nan, np.float32("nan"), pd.NA, pd.NaT, np.datetime64("NaT")):
        assert validation.is_missing(value)
    for value in (0, "", "nan", False, (), np.datetime64("2020")):
        assert not validation.is_missing(value)


ERRORS = [
    item for item in vars(errors).values() if isinstance(item, type) and item.__module__ == errors.__name__
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_errors_share_a_base_and_say_what_they_are_for(error):
    assert issubclass(error, errors.ManyarmsError)
    assert error.__doc__
    is_a_base = any(error in other.__bases__ for other in ERRORS)
    builtin = {base for base in error.__mro__ if base.__module__ == "builtins"}
    assert is_a_base or builtin > {Exception, BaseException, object}, "extend the built-in a caller expects"


@pytest.mark.parametrize(
    "error",
    [
        InvalidParameterError("ridge", -1, "positive"),
        errors.MissingExtraError("pyarrow", "parquet", "a Parquet file"),
        UnknownArmError("arm 3"),
    ],
)
def test_errors_can_be_pickled(error):
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_a_long_value_is_cut_in_a_message():
    assert len(str(InvalidParameterError("size", list(range(10**5)), "small"))) < 200

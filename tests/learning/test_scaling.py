"""What a pool holds is recognised, and every assumption is reported."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from manyarms.errors import InvalidFeaturesError
from manyarms.learning import prepare
from manyarms.learning.kernel_families import HammingFamily, StationaryFamily, TanimotoFamily
from manyarms.learning.numeric_columns import columns_of
from manyarms.pool.pool import Pool


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_numbers_are_not_copied_whatever_their_scale(rng: np.random.Generator) -> None:
    X = rng.normal(size=(500, 3)) * [1e-9, 1.0, 1e9] + [0.0, 5.0, 1e9]
    pool = Pool(X)
    prepared = prepare(pool)
    assert prepared.pool is pool
    (matern,) = prepared.families
    assert isinstance(matern, StationaryFamily)
    np.testing.assert_allclose(matern.spreads, [1e-9, 1.0, 1e9], rtol=0.1)
    scaled = StationaryFamily((1.0, 1.0, 1.0), (0, 0, 0), nu=2.5)
    np.testing.assert_allclose(
        matern.kernel(np.zeros(1)).matrix(X[:5], X[:5]),
        scaled.kernel(np.zeros(1)).matrix(X[:5] / matern.spreads, X[:5] / matern.spreads),
        rtol=1e-6,
    )


def test_a_constant_column_is_left_out_and_named(rng: np.random.Generator) -> None:
    X = np.column_stack([rng.normal(size=50), np.full(50, 7.0)])
    prepared = prepare(Pool(X, names=["dose", "batch"]))
    assert prepared.groups == (0, -1)
    assert any("'batch'" in sentence and "left out" in sentence for sentence in prepared.assumptions)


def test_a_pool_of_equal_arms_is_reported() -> None:
    prepared = prepare(Pool(np.full((5, 2), 3.0)))
    assert "every feature is constant" in prepared.assumptions[0]
    kernel = prepared.families[0].kernel(prepared.families[0].typical)
    np.testing.assert_array_equal(kernel.matrix(np.full((2, 2), 3.0), np.full((2, 2), 3.0)), 1.0)


def test_heavy_tails_are_transformed_in_a_copy_with_the_same_ids(rng: np.random.Generator) -> None:
    X = np.column_stack([rng.normal(size=2000), rng.lognormal(0, 3, size=2000)])
    pool = Pool(X, ids=[f"arm{i}" for i in range(2000)])
    prepared = prepare(pool)
    assert prepared.pool.ids == pool.ids
    np.testing.assert_array_equal(prepared.pool.features[:, 0], X[:, 0])
    transformed = prepared.pool.features[:, 1]
    assert (np.diff(transformed[np.argsort(X[:, 1])]) >= 0).all(), "the order is kept"
    assert np.abs(transformed - np.median(transformed)).max() < 8 * transformed.std()
    np.testing.assert_array_equal(prepared.encode(X[:7]), prepared.pool.features[:7])


@pytest.mark.parametrize("zeros", [0, 100])
def test_orders_of_magnitude_are_recognised(rng: np.random.Generator, zeros: int) -> None:
    """Linear in the logarithm except near the lowest values; zero is slightly below them."""
    values = np.append(10.0 ** rng.uniform(-6, 0, size=2000), np.zeros(zeros))
    prepared = prepare(Pool(np.column_stack([values, rng.normal(size=2000 + zeros)]), names=["rate", "x"]))
    assert any(
        "'rate'" in sentence and "orders of magnitude" in sentence for sentence in prepared.assumptions
    )
    assert not any("'x'" in sentence for sentence in prepared.assumptions)
    seen, positive = prepared.pool.features[:, 0], values > 0
    slope, level = np.polyfit(np.log(values[positive]), seen[positive], 1)
    assert slope == pytest.approx(1.0, abs=0.01)
    assert np.abs(seen[positive] - slope * np.log(values[positive]) - level).max() < 0.5
    assert (seen[~positive] == 0).all()
    later = prepared.encode(np.array([[-1e-3, 0.0], [0.0, 0.0], [1e-7, 0.0]]))[:, 0]
    assert (np.diff(later) > 0).all()
    assert later[0] < 0


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.uniform(1, 1e4, size=2000),
        lambda rng: rng.exponential(size=2000),
        lambda rng: rng.lognormal(0, 0.7, size=2000),
        lambda rng: -(10.0 ** rng.uniform(-6, 0, size=2000)),
        lambda rng: np.append(10.0 ** rng.uniform(-6, 0, size=500), np.zeros(1500)),
        lambda rng: 10.0 ** rng.integers(-4, 1, size=2000),  # few values: levels
        lambda rng: 10.0 ** rng.uniform(-320, 300, size=2000),  # highest over lowest overflows
    ],
    ids=["even", "exponential", "lognormal", "negative", "mostly zero", "few", "overflow"],
)
def test_other_columns_are_not_logarithmic(
    rng: np.random.Generator, draw: Callable[[np.random.Generator], np.ndarray]
) -> None:
    (column,) = columns_of(Pool(draw(rng)[:, None]))
    assert not column.logarithmic
    assert 0 < column.spread < np.inf


def scores(n: int, n_columns: int) -> np.ndarray:
    """Columns of decreasing spread, like principal components; the last has heavy tails."""
    X = np.random.default_rng(0).normal(size=(n, n_columns)) * 0.9 ** np.arange(n_columns)
    X[0, -1] *= 1e3
    return X


def test_many_columns_are_tried_in_their_own_units_too() -> None:
    X = scores(400, 60)
    matern, matern_as_is = (prepared := prepare(Pool(X))).families
    assert prepared.per_feature(matern) is not None
    assert prepared.per_feature(matern_as_is) is None
    assert matern_as_is.name == "Matérn-5/2, one length-scale, columns in their own units"
    assert matern.name == "Matérn-5/2, one length-scale"
    kernel, there = matern_as_is.kernel(matern_as_is.typical), prepared.pool.features[1:50]
    typical = np.sqrt(60) * np.sqrt(np.mean(X[1:].std(axis=0) ** 2))
    apart = ((X[1:50, None, :] - X[None, 1:50, :]) ** 2).sum(axis=-1)
    u = np.sqrt(5 * apart) / typical
    np.testing.assert_allclose(kernel.matrix(there, there), (1 + u + u**2 / 3) * np.exp(-u), rtol=0.05)


@pytest.mark.parametrize("X", [scores(400, 60) / 0.9 ** np.arange(60), scores(400, 40)], ids=["alike", "few"])
def test_few_columns_or_columns_of_like_spread_are_not(X: np.ndarray) -> None:
    assert len(prepare(Pool(X)).families) == 1


@pytest.mark.filterwarnings("error")
def test_units_too_far_apart_to_be_computed_are_not_tried(rng: np.random.Generator) -> None:
    X = rng.standard_cauchy((300, 60)) * 1e-200
    X[:, 0] = rng.normal(size=300) * 1e200
    assert len(prepare(Pool(X)).families) == 1
    assert len(prepare(Pool(rng.uniform(-1, 1, size=(300, 60)) * 1.7e308)).families) == 1


def test_up_to_256_features_may_each_have_a_length_scale(rng: np.random.Generator) -> None:
    for n_columns, own in ((256, True), (257, False)):
        prepared = prepare(Pool(rng.normal(size=(50, n_columns))))
        assert (prepared.per_feature(prepared.families[0]) is not None) == own


@pytest.mark.parametrize("largest", [1e300, 1e-300])
def test_extreme_numbers_give_finite_scales(largest: float) -> None:
    (column,) = columns_of(Pool(np.array([[0.0], [0.3], [0.6], [1.0]]) * largest))
    assert 0 < column.spread < np.inf
    assert not column.uses_asinh


def test_a_sample_that_misses_the_odd_arm_still_gives_a_scale() -> None:
    X = np.zeros((50_000, 1))
    X[7] = 1e-3
    (column,) = columns_of(Pool(X))
    assert not column.constant
    assert column.spread > 0


def test_zeros_and_ones_keep_their_distance(rng: np.random.Generator) -> None:
    """A rare category does not count more than a common one."""
    X = np.column_stack([rng.normal(size=400), np.arange(400) < 4, np.arange(400) % 2])
    (family,) = prepare(Pool(X)).families
    assert isinstance(family, StationaryFamily)
    assert family.spreads[1:] == (1.0, 1.0)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float64])
def test_one_hot_blocks_become_codes(rng: np.random.Generator, dtype: type) -> None:
    codes = rng.integers([3, 5, 2], size=(300, 3))
    one_hot = np.hstack([np.eye(n)[codes[:, j]] for j, n in enumerate((3, 5, 2))])
    prepared = prepare(Pool(one_hot.astype(dtype)))
    assert isinstance(prepared.families[0], HammingFamily)
    np.testing.assert_array_equal(prepared.pool.features, codes)
    np.testing.assert_array_equal(prepared.encode(one_hot[:4]), codes[:4])


def test_one_hot_blocks_are_the_same_however_the_pool_is_cut() -> None:
    """A category that does not occur in a block of arms must not shift the later columns."""
    codes = np.column_stack([np.repeat([0, 1, 2], 3000), np.tile([0, 1], 4500)])
    one_hot = np.hstack([np.eye(3)[codes[:, 0]], np.eye(2)[codes[:, 1]]])
    prepared = prepare(Pool(one_hot, max_memory=2**16))
    np.testing.assert_array_equal(prepared.pool.features, codes)


def test_bits_are_tanimoto_packed_or_not(rng: np.random.Generator) -> None:
    bits = rng.random((100, 128)) < 0.2
    packed = np.packbits(bits, axis=1)
    for features in (packed, bits, bits.astype(np.uint8), bits.astype(float)):
        prepared = prepare(Pool(features))
        assert prepared.families == (TanimotoFamily(),)
        np.testing.assert_array_equal(prepared.pool.features, packed)


@pytest.mark.parametrize(("n_columns", "highest"), [(6, 9), (3, 256), (64, 17)])
def test_bytes_may_be_numbers(rng: np.random.Generator, n_columns: int, highest: int) -> None:
    """Too few columns for a fingerprint, or only small values: settings, colours, pixels."""
    numbers = rng.integers(highest, size=(300, n_columns))
    prepared, same = prepare(Pool(numbers.astype(np.uint8))), prepare(Pool(numbers))
    assert prepared.families == same.families
    kernel = prepared.families[0].kernel(prepared.families[0].typical)
    np.testing.assert_array_equal(
        kernel.matrix(prepared.pool.features[:9], prepared.pool.features[:9]),
        kernel.matrix(same.pool.features[:9], same.pool.features[:9]),
    )


def test_a_few_bits_are_numbers(rng: np.random.Generator) -> None:
    prepared = prepare(Pool(rng.random((50, 5)) < 0.5))
    assert isinstance(prepared.families[0], StationaryFamily)


def test_uneven_levels_become_level_numbers(rng: np.random.Generator) -> None:
    X = np.column_stack([rng.choice([16, 32, 64, 128], 300), rng.choice([0.5, 1.0, 1.5], 300)])
    prepared = prepare(Pool(X))
    np.testing.assert_array_equal(prepared.pool.features[:, 0], np.log2(X[:, 0]) - 4)
    np.testing.assert_array_equal(prepared.pool.features[:, 1], X[:, 1])
    assert "column 0: few unevenly spaced values" in prepared.assumptions[0]
    assert prepared.encode([[48.0, 1.0]])[0, 0] == 1.5, "a new value between two levels"


def test_small_integers_may_be_codes(rng: np.random.Generator) -> None:
    prepared = prepare(Pool(rng.integers(5, size=(200, 4))))
    assert [type(family) for family in prepared.families] == [StationaryFamily, HammingFamily]


def test_words_and_strings_are_compared_position_by_position() -> None:
    words = Pool(np.array([["red", "big"], ["blue", "big"]]))
    assert isinstance(prepare(words).families[0], HammingFamily)
    strings = prepare(Pool(["ACGT", "ACGA", "AAAA"]))
    assert isinstance(strings.families[0], HammingFamily)
    ragged = prepare(Pool(["ACGT", "ACG", "A"]))
    assert "padded" in ragged.assumptions[1]
    assert ragged.pool.features.shape == (3, 4)
    assert ragged.encode(["ACGT"]).tolist() == ragged.pool.features[:1].tolist()


def test_a_table_of_numbers_and_texts() -> None:
    rows = [[["M", "F", "I"][i % 3], 0.1 * i, f"name{i}"] for i in range(300)]
    prepared = prepare(Pool(rows))
    assert prepared.pool.features.shape == (300, 4)
    assert prepared.groups == (0, 0, 0, 1), "the three columns of one text share a length-scale"
    assert any("identifier" in sentence and "left out" in sentence for sentence in prepared.assumptions)
    np.testing.assert_array_equal(prepared.encode(rows[:2]), prepared.pool.features[:2])


def test_assumptions_name_the_columns_of_the_user(rng: np.random.Generator) -> None:
    """Not the columns after each text column has been replaced by several."""
    rates = 10.0 ** rng.uniform(-6, 0, size=300)
    rows = [[["M", "F", "I"][i % 3], 7.0, float(rates[i])] for i in range(300)]
    frame = pd.DataFrame(rows, columns=["a", "b", "c"]).astype({"a": "category"})
    for table, constant, rate in ((rows, "column 1:", "column 2:"), (frame, "'b':", "'c':")):
        said = prepare(Pool(table)).assumptions
        assert any(constant in sentence and "constant" in sentence for sentence in said), said
        assert any(rate in sentence and "orders of magnitude" in sentence for sentence in said), said


def test_a_table_of_texts_alone_is_categories() -> None:
    rows = np.array([[["M", "F", "I"][i % 3], b"x" if i % 2 else b"y"] for i in range(30)], dtype=object)
    prepared = prepare(Pool(rows))
    assert isinstance(prepared.families[0], HammingFamily)
    assert prepared.pool.features.shape == (30, 2)
    np.testing.assert_array_equal(prepared.encode(rows[:4]), prepared.pool.features[:4])


def test_objects_need_a_kernel() -> None:
    with pytest.raises(InvalidFeaturesError, match="give a kernel"):
        prepare(Pool([{"a": 1}, {"a": 2}]))
    with pytest.raises(InvalidFeaturesError, match="give a kernel"):
        prepare(Pool([[f"name{i}"] for i in range(300)] + [[1.0]]))


@pytest.mark.parametrize("texts", [[b"ab", b"\xe9", b"c"], [b"ab", b"\xe9c", b"cd"], ["", "", ""]])
def test_bytes_and_empty_strings_are_compared_too(texts: list[object]) -> None:
    prepared = prepare(Pool(np.array(texts)))
    kernel = prepared.families[0].kernel(prepared.families[0].typical)
    matrix = kernel.matrix(prepared.pool.features, prepared.pool.features)
    assert (matrix == 1.0).all() == (len(set(texts)) == 1)


def mixed(*rows: tuple[object, ...]) -> np.ndarray:
    table = np.empty(len(rows), dtype=object)
    table[:] = rows
    return table


def test_a_category_never_seen_before_is_none_of_them() -> None:
    prepared = prepare(Pool(mixed(("a", "x"), ("b", "y"), ("a", "y"), ("b", "x"))))
    assert isinstance(prepared.families[0], HammingFamily)
    seen, new = prepared.pool.features, prepared.encode(mixed(("c", "x")))
    assert not (seen[:, 0] == new[0, 0]).any()
    assert (seen[:, 1] == new[0, 1]).sum() == 2


@pytest.mark.parametrize(
    ("row", "says"), [(("red", "x"), "'red'"), ((1.0,), "1 cells"), ((1.0, "x", 2.0), "3 cells")]
)
def test_rows_added_later_must_be_like_the_others(row: tuple[object, ...], says: str) -> None:
    prepared = prepare(Pool(mixed((1.0, "x"), (2.0, "y"), (3.5, "x"))))
    with pytest.raises(InvalidFeaturesError, match=says):
        prepared.encode(mixed(row))


def test_a_kernel_that_cannot_take_added_arms_is_no_longer_compared() -> None:
    pool = Pool(np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 3.0]]))
    prepared = prepare(pool)
    whole, half = (prepared.extended(pool.extended([[value, 0.0]])) for value in (5.0, 0.5))
    assert any(isinstance(family, HammingFamily) for family in whole.families)
    assert not any(isinstance(family, HammingFamily) for family in half.families)

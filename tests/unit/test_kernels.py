"""Kernels: values compared with plain formulas, and the input each kernel refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process import kernels as sk

import manyarms as ma
from manyarms.errors import InvalidFeaturesError, InvalidKernelError, InvalidParameterError
from manyarms.kernels import as_kernel

X3 = np.random.default_rng(7).normal(size=(30, 3))
Y3 = np.random.default_rng(8).normal(size=(8, 3))
BITS = np.random.default_rng(9).random((20, 75)) < 0.2
NUMERIC_KERNELS = [ma.RBF(0.7), ma.Matern(0.7, nu=1.5), ma.Matern(nu=0.8), ma.Linear(bias=0.5)]


# ---------------------------------------------------------------------- values


def plain_squared(X: Any, Y: Any, scale: Any = 1.0) -> Any:
    difference = (X[:, None, :].astype(np.float64) - Y[None, :, :].astype(np.float64)) / scale
    return (difference**2).sum(axis=2)


@pytest.mark.parametrize("scale", [0.6, (0.5, 1.0, 2.0)])
def test_rbf_is_its_formula(scale: Any) -> None:
    expected = np.exp(-plain_squared(X3, Y3, np.asarray(scale)) / 2)
    np.testing.assert_allclose(ma.RBF(scale).matrix(X3, Y3), expected, rtol=1e-12)


def test_rbf_takes_a_vector_as_one_feature_per_arm() -> None:
    x = np.array([0.0, 1.0, 2.0])
    np.testing.assert_allclose(ma.RBF().matrix(x, x)[0], np.exp([0.0, -0.5, -2.0]))


@pytest.mark.parametrize("n_features", [8, 64, 65, 100])
@pytest.mark.parametrize("spacing", [1e-9, 1e-6, 1e-3])
def test_near_duplicates_are_told_apart_however_many_features(
    rng: np.random.Generator, n_features: int, spacing: float
) -> None:
    x = 50.0 + rng.normal(size=(1, n_features))
    y = x + spacing * rng.choice([-1.0, 1.0], size=(1, n_features))
    both, length = np.concatenate([x, y, x + 3]), spacing * n_features**0.5
    expected = np.exp(-plain_squared(both, both, length) / 2)
    rounding = 4 * np.finfo(float).eps * 50.0 / spacing  # of the features themselves
    np.testing.assert_allclose(ma.RBF(length).matrix(both, both), expected, rtol=rounding, atol=1e-300)


def test_many_features_give_the_same_distances_as_few() -> None:
    padded = np.pad(X3, ((0, 0), (0, 97)))
    np.testing.assert_allclose(ma.RBF().matrix(padded, padded), ma.RBF().matrix(X3, X3), rtol=1e-10)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_bessel_form_meets_the_closed_forms(nu: float) -> None:
    closed = ma.Matern(0.7, nu=nu).matrix(X3, Y3)
    np.testing.assert_allclose(ma.Matern(0.7, nu=nu + 1e-12).matrix(X3, Y3), closed, rtol=1e-9)


@pytest.mark.parametrize("nu", [0.3, 0.5, 1.0, 1.5, 2.5, 3.7, 10.0])
def test_matern_agrees_with_scikit_learn(nu: float) -> None:
    expected = sk.Matern(length_scale=[0.5, 1.0, 2.0], nu=nu)(X3, Y3)
    ours = ma.Matern((0.5, 1.0, 2.0), nu=nu).matrix(X3, Y3)
    np.testing.assert_allclose(ours, expected, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("nu", [0.1, 0.7, 1.2, 5.0, 30.0, 99.0, 101.0, 1000.0])
def test_matern_falls_from_one_to_zero_at_any_distance(nu: float) -> None:
    distances = np.concatenate([[0.0], np.logspace(-300, 6, 400)])
    values = ma.Matern(nu=nu).matrix(distances, np.zeros(1))[:, 0]
    assert values[0] == 1.0
    assert (values >= 0).all()
    assert (np.diff(values) <= 1e-12).all()
    assert values[-1] == 0.0


@pytest.mark.parametrize("nu", [1e4, 1e6])
def test_a_very_smooth_matern_is_the_rbf(nu: float) -> None:
    np.testing.assert_allclose(ma.Matern(nu=nu).matrix(X3, Y3), ma.RBF().matrix(X3, Y3), atol=10 / nu)


def test_matern_is_continuous_where_its_expansion_takes_over() -> None:
    below, above = ma.Matern(nu=100.0), ma.Matern(nu=100.0 + 1e-9)
    np.testing.assert_allclose(above.matrix(X3, Y3), below.matrix(X3, Y3), rtol=1e-9)


def test_linear_is_an_inner_product_and_a_bias() -> None:
    np.testing.assert_allclose(ma.Linear(bias=2.0).matrix(X3, Y3), X3 @ Y3.T + 4.0)


def jaccard(a: Any, b: Any) -> float:
    a, b = set(np.flatnonzero(a).tolist()), set(np.flatnonzero(b).tolist())
    return len(a & b) / len(a | b) if a | b else 1.0


@pytest.mark.parametrize("n_bits", [1, 8, 63, 64, 65, 75, 200, 1024])
@pytest.mark.parametrize("packed", [True, False])
def test_tanimoto_is_shared_over_either(rng: np.random.Generator, n_bits: int, packed: bool) -> None:
    bits = rng.random((15, n_bits)) < 0.3
    bits[3] = bits[7] = False  # two empty fingerprints
    bits[4] = True
    expected = [[jaccard(a, b) for b in bits] for a in bits]
    features = np.packbits(bits, axis=1) if packed else bits
    np.testing.assert_array_equal(ma.Tanimoto().matrix(features, features), expected)


def test_tanimoto_crosses_its_block_borders_unharmed(rng: np.random.Generator) -> None:
    bits = rng.random((3000, 2048)) < 0.05
    packed = np.packbits(bits, axis=1)
    K = ma.Tanimoto().matrix(packed, packed[:3])
    for arm in (0, 255, 256, 2047, 2048, 2999):
        assert K[arm].tolist() == [jaccard(bits[arm], bits[j]) for j in range(3)]


@pytest.mark.parametrize(
    "view",
    [np.asfortranarray, lambda a: np.repeat(a, 2, axis=1)[:, ::2], lambda a: np.repeat(a, 2, axis=0)[::2]],
    ids=["fortran", "strided columns", "strided rows"],
)
def test_memory_layout_does_not_matter(view: Any) -> None:
    packed = np.packbits(BITS, axis=1)
    np.testing.assert_array_equal(
        ma.Tanimoto().matrix(view(packed), view(packed)), ma.Tanimoto().matrix(packed, packed)
    )
    np.testing.assert_array_equal(ma.RBF().matrix(view(X3), view(Y3)), ma.RBF().matrix(X3, Y3))
    words = np.array([["abc"], ["abd"], ["xyz"]])
    np.testing.assert_array_equal(
        ma.Hamming().matrix(view(words)[:, 0], words[:, 0]), ma.Hamming().matrix(words[:, 0], words[:, 0])
    )


@pytest.mark.parametrize("dtype", [">f8", ">f4", "f2", "i1", ">i4", "u8", bool])
def test_any_numeric_type_is_read_as_its_value(dtype: Any) -> None:
    whole = np.array([[0, 1], [1, 1], [1, 0]])
    np.testing.assert_allclose(
        ma.RBF().matrix(whole.astype(dtype), whole.astype(dtype)), ma.RBF().matrix(whole, whole)
    )


def share_of_differences(a: Any, b: Any) -> float:
    return sum(p != q for p, q in zip(a, b, strict=True)) / len(a)


@pytest.mark.parametrize(
    "features",
    [
        np.array(["ACGT", "ACGA", "TTTT", "ACGT"]),
        np.array(["héé", "hée", "日本語"]),
        np.array(["ab", "ba"], dtype=">U2"),
        np.array(["ab", "ba"], dtype=object),
        np.array(["ab", "ba"], dtype=np.dtypes.StringDType()),
        np.array([["red", "small"], ["red", "large"], ["blue", "large"]]),
        np.array([[0, 1, 2], [0, 1, 3], [5, -1, 2]]),
        np.array([[0, 300], [1, 300]], dtype=np.uint16),
        np.array([[True, False], [False, False]]),
    ],
    ids=[
        "strings",
        "unicode",
        "big-endian",
        "objects",
        "StringDType",
        "words",
        "codes",
        "uint16",
        "booleans",
    ],
)
def test_hamming_counts_differing_positions(features: Any) -> None:
    expected = np.exp([[-share_of_differences(a, b) / 0.3 for b in features] for a in features])
    np.testing.assert_allclose(ma.Hamming(0.3).matrix(features, features), expected, rtol=1e-13)


def test_combinations_add_multiply_and_scale() -> None:
    a, b = ma.RBF(0.5), ma.Linear()
    A, B = a.matrix(X3, Y3), b.matrix(X3, Y3)
    for kernel, expected in [
        (a + b, A + B),
        (a * b, A * B),
        (2 * a, 2 * A),
        (a * 2.5, 2.5 * A),
        (np.float64(2) * a, 2 * A),
        (ma.Sum(a, b, a), 2 * A + B),
        (ma.Product(a, b, a), A * A * B),
        (ma.Sum(a, sk.RBF(0.5)), 2 * A),
    ]:
        np.testing.assert_allclose(kernel.matrix(X3, Y3), expected, rtol=1e-12)
        np.testing.assert_allclose(kernel.diag(X3), np.diag(kernel.matrix(X3, X3)), rtol=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ma.RBF(2.0),
        lambda: ma.Matern((1.0, 2.0), nu=0.7),
        lambda: 2 * ma.RBF() + ma.Linear() * ma.Tanimoto(),
        lambda: ma.Hamming(0.5),
    ],
)
def test_equal_settings_make_equal_kernels_that_print_their_settings(make: Any) -> None:
    assert make() == make()
    assert hash(make()) == hash(make())
    names = {name: getattr(ma, name) for name in ma.__all__}
    assert eval(repr(make()), names) == make()


def test_kernels_are_frozen_and_keep_a_copy_of_their_length_scales() -> None:
    scales = np.array([1.0, 2.0])
    kernel = ma.RBF(scales)
    scales[:] = 9.0
    assert kernel.lengthscale == (1.0, 2.0)
    with pytest.raises(AttributeError):
        kernel.lengthscale = 3.0  # type: ignore[misc]


# ---------------------------------------------------------------------- what they refuse


@pytest.mark.parametrize("kernel", [ma.RBF, ma.Matern, ma.Hamming])
@pytest.mark.parametrize(
    "value",
    [0, -1.0, np.nan, np.inf, "1", None, True, 1j, [], [1.0, 0.0], [1.0, "x"], [[1.0], [1.0, 2.0]], [[1.0]]],
)
def test_bad_length_scales_are_named(kernel: Any, value: Any) -> None:
    with pytest.raises(InvalidParameterError, match="lengthscale"):
        kernel(lengthscale=value)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: ma.Matern(nu=0), "nu"),
        (lambda: ma.Matern(nu=np.nan), "nu"),
        (lambda: ma.Linear(bias=-1), "bias"),
        (lambda: ma.Scale(ma.RBF(), 0), "variance"),
        (lambda: 0 * ma.RBF(), "variance"),
        (lambda: -2 * ma.RBF(), "variance"),
    ],
)
def test_other_bad_settings_are_named(make: Any, name: str) -> None:
    with pytest.raises(InvalidParameterError, match=name):
        make()


@pytest.mark.parametrize("kernel", NUMERIC_KERNELS, ids=repr)
def test_arms_with_different_numbers_of_features_cannot_be_compared(kernel: Any) -> None:
    with pytest.raises(InvalidKernelError, match=r"3.*2 features"):
        kernel.matrix(X3, Y3[:, :2])


@pytest.mark.parametrize("kernel", [ma.RBF((1.0, 2.0)), ma.Matern((1.0, 2.0))], ids=repr)
def test_length_scales_must_fit_the_features(kernel: Any) -> None:
    for call in (lambda: kernel.matrix(X3, Y3), lambda: kernel.diag(X3)):
        with pytest.raises(InvalidKernelError, match=r"2 length-scales.*3 features"):
            call()


@pytest.mark.parametrize("kernel", [*NUMERIC_KERNELS, ma.SklearnKernel(sk.RBF())], ids=repr)
@pytest.mark.parametrize(
    "features",
    [np.array(["a", "b"]), np.array([{}, {}]), np.array([1j]), np.zeros((2, 2, 2)), [[1.0], [1.0, 2.0]]],
    ids=["strings", "objects", "complex", "3-d", "ragged"],
)
def test_numeric_kernels_refuse_what_is_no_matrix_of_numbers(kernel: Any, features: Any) -> None:
    for call in (lambda: kernel.matrix(features, features), lambda: kernel.diag(features)):
        with pytest.raises(InvalidFeaturesError):
            call()


@pytest.mark.parametrize("features", [BITS.astype(float), BITS.astype(np.int64), np.zeros(3, np.uint8)])
def test_tanimoto_needs_bits(features: Any) -> None:
    with pytest.raises(InvalidFeaturesError, match="packed bits"):
        ma.Tanimoto().matrix(features, features)


def test_tanimoto_recognises_bits_that_nobody_packed() -> None:
    unpacked = BITS.astype(np.uint8)
    for call in (lambda: ma.Tanimoto().matrix(unpacked, unpacked[:1]), lambda: ma.Tanimoto().diag(unpacked)):
        with pytest.raises(InvalidFeaturesError, match=r"pass booleans or numpy\.packbits"):
            call()


@pytest.mark.parametrize(
    "packed",
    [
        np.ones((1, 128), dtype=np.uint8),
        np.zeros((5, 128), dtype=np.uint8),
        np.eye(9, 128, dtype=np.uint8),
        np.ones((5, 63), dtype=np.uint8),
        np.full((5, 128), 2, dtype=np.uint8),
    ],
    ids=["one arm", "empty", "sparse", "short", "twos"],
)
def test_packed_fingerprints_are_not_mistaken_for_unpacked_bits(packed: Any) -> None:
    assert np.diag(ma.Tanimoto().matrix(packed, packed)).tolist() == [1.0] * len(packed)


def test_fingerprints_of_different_length_cannot_be_compared() -> None:
    with pytest.raises(InvalidFeaturesError, match="9 and 10 bytes"):
        ma.Tanimoto().matrix(np.ones((2, 9), np.uint8), np.ones((2, 10), np.uint8))


@pytest.mark.parametrize(
    ("X", "Y"),
    [
        (np.array(["ab", "abc"]), None),
        (np.array(["ab"]), np.array(["abc"])),
        (np.array([0.5, 1.0])[:, None], None),
        (np.array([1, 2]), None),
        (np.array(["ab", 3], dtype=object), None),
        (np.array(["abcd", None], dtype=object), None),
        (np.array([["a", "b"]]), np.array([[1, 2]])),
    ],
    ids=["unequal", "unequal between", "fractions", "vector", "mixed", "missing", "words and codes"],
)
def test_hamming_needs_strings_of_one_length_or_codes(X: Any, Y: Any) -> None:
    with pytest.raises(InvalidFeaturesError):
        ma.Hamming().matrix(X, X if Y is None else Y)


@pytest.mark.parametrize("thing", [ma.RBF, sk.RBF, None, 3.0, "rbf", np.zeros((2, 2)), lambda x, y: 0.0])
def test_what_is_no_kernel_is_refused(thing: Any) -> None:
    for make in (as_kernel, lambda k: ma.Scale(k, 2.0), lambda k: ma.Sum(ma.RBF(), k)):
        with pytest.raises(InvalidKernelError):
            make(thing)


def test_a_combination_needs_two_parts() -> None:
    with pytest.raises(InvalidKernelError, match="at least two"):
        ma.Sum(ma.RBF())


def test_any_object_with_the_two_methods_is_a_kernel() -> None:
    class Mine:
        def matrix(self, X: Any, Y: Any) -> Any:
            return np.ones((len(X), len(Y)))

        def diag(self, X: Any) -> Any:
            return np.ones(len(X))

    mine = Mine()
    assert as_kernel(mine) is mine
    np.testing.assert_allclose((ma.RBF() + mine).matrix(X3, Y3), ma.RBF().matrix(X3, Y3) + 1)


def test_noise_belongs_to_the_ridge_not_to_the_kernel() -> None:
    with pytest.raises(InvalidKernelError, match="ridge"):
        as_kernel(sk.RBF() + sk.WhiteKernel())


def test_scikit_learn_mismatch_is_a_typed_error() -> None:
    with pytest.raises(InvalidKernelError, match="does not fit"):
        as_kernel(sk.RBF(length_scale=[1.0, 2.0])).matrix(X3, Y3)

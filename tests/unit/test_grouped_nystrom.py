"""The embedding by groups: the same as a plain one, and the same bits with or without known columns."""

import numpy as np
import pytest

import manyarms as ma
from manyarms.embeddings.grouped_nystrom import GroupedNystrom
from manyarms.support.column_store import Columns

KERNEL, SIZES = ma.Matern(1.5), (4, 1, 7)
POINTS, QUERIES = np.split(np.random.default_rng(3).normal(size=(512, 3)), [12])


def embedding(storage):
    found = GroupedNystrom.empty(KERNEL, np.dtype(storage))
    for group in np.split(POINTS, np.cumsum(SIZES)[:-1]):
        found = found.appended(group)
    return found


def plain(X, storage):
    """z by substitution, one column after the other, each group rounded before the next one uses it."""
    factor, K = embedding(storage).factor, KERNEL.matrix(POINTS, X)
    Z = np.zeros((len(X), len(POINTS)))
    for first, stop in zip(np.cumsum((0, *SIZES)), np.cumsum(SIZES), strict=False):
        own = np.zeros((len(X), len(POINTS)))
        own[:, :first] = Z[:, :first]
        for c in range(first, stop):
            own[:, c] = (K[c] - own[:, :c] @ factor[c, :c]) / factor[c, c]
        Z[:, first:stop] = own[:, first:stop].astype(storage)
    return Z


@pytest.mark.parametrize(("storage", "tolerance"), [("float64", 1e-12), ("float32", 1e-6)])
def test_it_is_the_plain_substitution(storage, tolerance):
    assert np.abs(embedding(storage).matrix(QUERIES) - plain(QUERIES, storage)).max() < tolerance


@pytest.mark.parametrize("storage", ["float64", "float32"])
@pytest.mark.parametrize("known", [0, 4, 5, 12])
def test_columns_that_are_known_change_no_bit_of_the_others(storage, known):
    z = embedding(storage)
    whole = z.matrix(QUERIES)
    for layout in ("C", "F"):
        begun = np.array(whole[:, :known], order=layout)
        assert np.array_equal(z.completed(QUERIES, begun), whole)
        assert np.array_equal(begun, whole[:, :known])


def test_columns_that_were_stored_complete_to_the_same_bits():
    z, columns = embedding("float32"), Columns(500, np.float32, 12)
    whole = z.matrix(QUERIES)
    columns.write(slice(0, 500), 0, whole)
    part = slice(100, 340)
    again = z.completed(QUERIES[part], columns.block(part, 5))
    assert np.array_equal(again[:, :5], whole[part, :5])
    assert np.allclose(again, whole[part], atol=1e-6)


def test_columns_are_contiguous_as_they_are_stored():
    z, columns = embedding("float32"), Columns(500, np.float32, 12)
    whole = z.matrix(QUERIES)
    columns.write(slice(0, 500), 0, whole)
    assert whole.T.flags.c_contiguous
    assert columns.block(slice(3, 90), 12).T.flags.c_contiguous


def test_what_a_kernel_returned_is_not_written_to():
    kept = {}

    class Keeping(ma.Matern):
        def matrix(self, X, Y):
            return kept.setdefault((len(X), X.tobytes(), Y.tobytes()), super().matrix(X, Y))

    z = GroupedNystrom.empty(Keeping(1.5), np.dtype(np.float64)).appended(POINTS[:4]).appended(POINTS[4:])
    first = z.matrix(QUERIES)
    before = {key: value.copy() for key, value in kept.items()}
    assert np.array_equal(z.matrix(QUERIES), first)
    assert all(np.array_equal(kept[key], before[key]) for key in before)

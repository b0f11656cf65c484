"""The arms of a pool: ids, blocks, further arms, and the digest."""

from __future__ import annotations

from decimal import Decimal
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

from manyarms.errors import (
    DuplicateIdError,
    InvalidFeaturesError,
    InvalidIdError,
    InvalidParameterError,
    UnknownArmError,
)
from manyarms.pool.completion import Cells, Completion
from manyarms.pool.pool import Pool
from manyarms.pool.pool import _checked_ids as checked_ids

A = np.arange(6.0).reshape(3, 2)
IDS = ["a", "b", "c"]


class Opaque:
    """An object with the default repr."""


# ---------------------------------------------------------------------- ids


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (None, [0, 1, 2]),
        (IDS, IDS),
        (iter(IDS), IDS),
        (np.array(IDS), IDS),
        (pd.Series(IDS), IDS),
        (np.arange(10, 13, dtype=np.uint8), [10, 11, 12]),
        ([np.int64(1), np.str_("x"), (2, "y")], [1, "x", (2, "y")]),
        (["", 0, b"x"], ["", 0, b"x"]),
    ],
    ids=["default", "strings", "iterator", "array", "series", "integers", "mixed", "falsy"],
)
def test_ids_name_the_arms(ids: Any, expected: list[Any]) -> None:
    pool = Pool(A, ids=ids)
    assert pool.ids == expected
    assert [type(id) for id in pool.ids] == [type(id) for id in expected]
    assert pool.has_ids == (ids is not None)
    for arm, id in enumerate(expected):
        assert pool.id_of(arm) == id
        assert pool.index_of(id) == arm
    assert pool.ids_of([2, 0, 2]) == [expected[2], expected[0], expected[2]]


def test_numpy_scalars_find_their_arm() -> None:
    assert Pool(A, ids=IDS).index_of(np.str_("b")) == 1
    assert Pool(A, ids=[5, 6, 7]).index_of(np.int32(7)) == 2
    assert Pool(A).index_of(np.uint8(2)) == 2


@pytest.mark.parametrize(
    ("ids", "says"),
    [
        (["a", "b"], "2 ids for 3 arms"),
        ("abc", "'abc' names a column"),
        (5, "5"),
        ({"a"}, "sequence"),
        ({"a": 1, "b": 2, "c": 3}, "sequence"),
        (b"abc", "sequence"),
        (np.array(3), "sequence"),
        (["a", None, "c"], "arm 1 cannot have the id None"),
        ([1.0, 2.0, np.nan], "arm 2 cannot have the id nan"),
        ([pd.NA, 1, 2], "<NA>"),
        ([pd.NaT, 1, 2], "NaT"),
        ([np.datetime64("NaT"), 1, 2], "NaT"),
        ([Decimal("NaN"), 1, 2], "NaN"),
        ([[1], [2], [3]], r"arm 0 cannot have the id \[1\]"),
        ([1, (2, [3]), 4], "arm 1"),
        ([True, 2, 3], "True"),
        (np.ma.masked_array([1, 2, 3], mask=[False, True, False]), "arm 1"),
        (np.zeros((3, 2)), "arm 0"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_ids_that_cannot_name_arms_are_refused(ids: Any, says: str) -> None:
    with pytest.raises(InvalidIdError, match=says):
        Pool(A, ids=ids)


@pytest.mark.parametrize(
    "ids", [["x", "y", "x"], [1, 2, 1.0], np.array([1, 2, 1]), [(1,), 2, (1,)]], ids=repr
)
def test_an_id_names_one_arm_only(ids: Any) -> None:
    with pytest.raises(DuplicateIdError, match="arms 0 and 2"):
        Pool(A, ids=ids)


@pytest.mark.parametrize(
    "id", ["z", 0, None, np.nan, [1], {}, np.array(["a"]), pd.NA, True, ("a",)], ids=repr
)
def test_an_unknown_id_is_named(id: Any) -> None:
    with pytest.raises(UnknownArmError, match="no arm has the id"):
        Pool(A, ids=IDS).index_of(id)


@pytest.mark.parametrize("id", ["a", -1, 3, 1.0, None, True, [0], 10**30], ids=repr)
def test_without_ids_only_an_index_names_an_arm(id: Any) -> None:
    with pytest.raises(UnknownArmError):
        Pool(A).index_of(id)


@pytest.mark.parametrize("arms", [3, -1, [0, 3], 1.0, "0", None, [True, False, True], [[0]], {0}], ids=repr)
def test_arms_outside_the_pool_are_refused(arms: Any) -> None:
    pool = Pool(A, ids=IDS)
    for call in (pool.take, pool.ids_of, pool.id_of):
        with pytest.raises(UnknownArmError):
            call(arms)


# ---------------------------------------------------------------------- blocks


@pytest.mark.parametrize("bytes_per_arm", [1, 100, 10_000, 10**9])
def test_blocks_cover_the_pool_once_and_honour_max_memory(bytes_per_arm: int) -> None:
    pool = Pool(np.arange(5000.0).reshape(1000, 5), max_memory=2**16)
    blocks = list(pool.blocks(bytes_per_arm))
    assert np.concatenate([block for _, block in blocks]).tolist() == pool.features.tolist()
    assert [where.start for where, _ in blocks] == [0, *(where.stop for where, _ in blocks[:-1])]
    for where, block in blocks:
        np.testing.assert_array_equal(block, pool.features[where])
        assert len(block) * bytes_per_arm <= max(pool.max_memory, bytes_per_arm), "one arm is always allowed"


def test_blocks_can_start_in_the_middle() -> None:
    pool = Pool(np.arange(3000.0), max_memory=2**16)
    blocks = list(pool.blocks(100, first=1234))
    assert blocks[0][0].start == 1234
    assert np.concatenate([block for _, block in blocks])[:, 0].tolist() == list(range(1234, 3000))


@pytest.mark.parametrize("value", [0, -1, 2**16 - 1, 1e9, None, "1 GB", True])
def test_max_memory_is_a_sensible_number_of_bytes(value: Any) -> None:
    with pytest.raises(InvalidParameterError, match="max_memory"):
        Pool(A, max_memory=value)


# ---------------------------------------------------------------------- further arms


def test_an_extended_pool_keeps_indices_names_and_limits() -> None:
    pool = Pool(A, ids=IDS, names=["u", "v"], max_memory=2**20)
    more = pool.extended([[7, 8]], ids=["d"])
    assert more.features.tolist() == [*A.tolist(), [7.0, 8.0]]
    assert (more.ids, more.names, more.max_memory) == ([*IDS, "d"], ["u", "v"], 2**20)
    assert (pool.n_arms, pool.ids) == (3, IDS)


@pytest.mark.parametrize(
    ("present", "more", "expected"),
    [
        (A.astype("f4"), [[0.1, 2]], np.array([[0.1, 2]], dtype="f4")),
        (A.astype("i4"), [[2.0, 3.0]], np.array([[2, 3]], dtype="i4")),
        (A.astype("u1"), [[255, 0]], np.array([[255, 0]], dtype="u1")),
        (A > 2, [[1, 0]], np.array([[True, False]])),
        (["ab"], ["abc"], np.array(["abc"])),
        ([1.0, 2.0], [3.0], np.array([[3.0]])),
    ],
    ids=["float32", "integers", "bytes", "booleans", "longer strings", "vector"],
)
def test_new_arms_take_the_type_of_the_pool(present: Any, more: Any, expected: Any) -> None:
    grown = Pool(present).extended(more)
    assert grown.features.dtype == expected.dtype
    assert grown.features[-1:].tolist() == expected.tolist()


def test_objects_can_join_objects() -> None:
    grown = Pool([{"x": 1}]).extended([{"y": 2}, "z"])
    assert grown.features.tolist() == [{"x": 1}, {"y": 2}, "z"]


@pytest.mark.parametrize(
    ("present", "more", "says"),
    [
        (A, A[:, :1], r"\(1,\) each"),
        (A, [1.0, 2.0], r"\(1,\) each"),
        (A, [[np.nan, 1.0]], "nan"),
        (A, [[2**60 + 1, 2]], "1152921504606846977"),
        (A, 3.0, "float"),
        (A.astype("f4"), [[1e300, 0.0]], r"1e\+300.*float32"),
        (A.astype("i8"), [[0.5, 1.0]], "0.5.*int64"),
        (A.astype("u1"), [[300, 1]], "300.*uint8"),
        (A.astype("u1"), [[-1, 1]], "-1.*uint8"),
        (A.astype("i8"), np.array([[2**63 + 5, 1]], dtype="u8"), "9223372036854775813"),
        (A > 2, [[2, 1]], "2.*bool"),
        (["ab"], [1.0], "pool"),
        (A[:, :1], ["ab"], "pool"),
    ],
    ids=lambda value: repr(value)[:25],
)
def test_new_arms_that_do_not_fit_are_refused(present: Any, more: Any, says: str) -> None:
    pool = Pool(present)
    digest = pool.digest
    with pytest.raises(InvalidFeaturesError, match=says):
        pool.extended(more)
    assert pool.digest == digest


def test_new_ids_must_be_new_and_there_exactly_when_the_pool_has_some() -> None:
    named, plain = Pool(A, ids=IDS), Pool(A)
    with pytest.raises(DuplicateIdError, match="arms 1 and 3"):
        named.extended(A[:1], ids=["b"])
    for pool, ids in ((named, None), (plain, ["d"]), (named, ["d", "e"])):
        with pytest.raises(InvalidIdError):
            pool.extended(A[:1], ids=ids)


def test_booleans_are_not_taken_for_packed_bytes() -> None:
    with pytest.raises(InvalidFeaturesError, match="hold bool, the arms of the pool hold uint8"):
        Pool(np.full((2, 3), 7, dtype=np.uint8)).extended(np.ones((1, 3), dtype=bool))


# ---------------------------------------------------------------------- the digest


def changed_cell() -> Any:
    features = A.copy()
    features[2, 1] = np.nextafter(features[2, 1], 9.0)
    return features


def test_the_digest_changes_when_anything_changes() -> None:
    pools = {
        "plain": Pool(A),
        "one bit": Pool(changed_cell()),
        "order": Pool(A[::-1]),
        "shape": Pool(A.reshape(2, 3)),
        "float32": Pool(A.astype("f4")),
        "integers": Pool(A.astype("i8")),
        "more arms": Pool(A).extended(A[:1]),
        "ids": Pool(A, ids=IDS),
        "other ids": Pool(A, ids=["a", "b", "d"]),
        "order of ids": Pool(A, ids=["b", "a", "c"]),
        "type of ids": Pool(A, ids=["0", "1", "2"]),
        "ids as by default": Pool(A, ids=[0, 1, 2]),
        "strings": Pool(["ab", "c"]),
        "other strings": Pool(["a", "bc"]),
        "objects": Pool([{"x": 1}, {"x": 2}]),
        "other objects": Pool([{"x": 1}, {"x": 3}]),
        "arrays": Pool([np.zeros(2), np.zeros(3)]),
        "other arrays": Pool([np.zeros(2), np.full(3, 1e-12)]),
        "lists": Pool([[["a"], []], [[], ["b"]]]),
        "other lists": Pool([[["a"], []], [["b"], []]]),
    }
    seen: dict[str, str] = {}
    for name, pool in pools.items():
        assert seen.setdefault(pool.digest, name) == name, f"{name} has the digest of {seen[pool.digest]}"


def test_the_digest_is_a_matter_of_content() -> None:
    assert Pool(A).digest == Pool(A.copy(order="F")).digest == Pool(A, max_memory=2**16).digest
    assert Pool(A, ids=IDS).digest == Pool(A.tolist(), ids=tuple(IDS)).digest
    assert Pool([{"a", "b", "c"}, 1]).digest == Pool([{"c", "b", "a"}, 1]).digest


@pytest.mark.parametrize(
    "thing", [Opaque(), lambda: 0, [Opaque()], {"x": Opaque()}], ids=["object", "lambda", "list", "dict"]
)
def test_objects_known_only_by_their_address_have_no_digest(thing: Any) -> None:
    with pytest.raises(InvalidFeaturesError, match="__repr__"):
        _ = Pool([thing, {}]).digest


@pytest.mark.parametrize(
    "ids",
    [
        [3, 1, 2], ["b", "a", ""], [1, "1"], np.array([5, 7], dtype=np.uint16), np.array(["x", "y"]),
        [True, 1], [1, True], [1, 1.0], [1.5, 2], ["a", "a"], [1, 1], [np.int64(1), 1], [None, 1], [], ["a"],
        [float("nan"), 1], [(1, 2), "a"], [([],), "a"], np.array([1.5, 1.5]), np.array([[1], [2]]),
        np.array([True, False]), np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]"),
        np.array([1, "1"], dtype=object), (1, 2), range(2),
    ],
    ids=repr,
)  # fmt: skip
def test_ids_are_judged_alike_one_by_one_and_all_at_once(
    ids: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def outcome() -> object:
        try:
            return [(type(each), each) for each in checked_ids(ids, 3 if len(ids) == 3 else 2)]  # type: ignore
        except InvalidIdError as problem:
            return type(problem), str(problem)

    at_once = outcome()
    monkeypatch.setattr("manyarms.pool.pool._numbers_and_texts", lambda _ids: None)
    assert at_once == outcome()


def _ways(cells, available, left) -> list[np.ndarray]:
    """Every number of picks from each cell that keeps to the limits."""
    return [
        np.array(picks)
        for picks in product(*(range(n + 1) for n in available))
        if all((np.bincount(cells.groups[:, i], picks, 3) <= each).all() for i, each in enumerate(left))
    ]


def test_completions_agree_with_trying_everything():
    """Random cells with three limits: a pick is allowed exactly if some set of picks completes the batch."""
    rng, refusals, impossible = np.random.default_rng(4), 0, 0
    for turn in range(120):
        groups = [rng.integers(3, size=8) for _ in range(3)]
        cells = Cells.of(groups, [3, 3, 3])
        available = np.bincount(cells.of_arms, rng.integers(0, 3, size=8), len(cells.groups)).astype(int)
        left = [rng.integers(0, 3, size=3) for _ in range(3)]
        needed = max(int(each.sum()) for each in _ways(cells, available, left)) + (turn % 4 == 0)
        if needed < 2:
            continue
        found = Completion(cells, available, left, needed)
        while True:
            every = [each for each in _ways(cells, available, left) if each.sum() == needed]
            assert found.possible == bool(every)
            impossible += not every
            if not every or not needed:
                break
            safe = np.any([each > 0 for each in every], axis=0)
            for arm, cell in enumerate(cells.of_arms):
                if available[cell] and all(each[groups[i][arm]] for i, each in enumerate(left)):
                    assert found.copy().allows(arm) == safe[cell]
                    refusals += not safe[cell]
            arm = int(rng.choice([arm for arm in range(8) if safe[cells.of_arms[arm]]]))
            found.take(arm)
            found.fewer(arm, 1)
            available[cells.of_arms[arm]] -= 1
            left = [each - (np.arange(3) == groups[i][arm]) for i, each in enumerate(left)]
            needed -= 1
    assert refusals > 10
    assert impossible > 5

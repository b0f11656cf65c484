"""The log of calls from which a lost shard is made again."""

from __future__ import annotations

import pickle

from manyarms.engines.base import Keeps
from manyarms.engines.call_log import CallLog

START = Keeps("version", 0)
NEXT = Keeps("version", 1, (("version", 0),))
REBUILD = Keeps("version", 1, (("version", 0),), begins=lambda args: args[2] != "keeps columns")
PLACE = Keeps("placed", 0)
NOTE = Keeps("version", 1, (("placed", 2),))


def log_of(*calls: tuple[Keeps, str, tuple]) -> CallLog:
    log = CallLog(pickle.dumps)
    for keeps, method, args in calls:
        log.record(keeps, method, [args, args])
    return log


def replayed(log: CallLog) -> list[tuple]:
    return [(method, *pickle.loads(args)) for method, args in log.replay(1)]


def test_the_calls_of_a_version_in_use_are_repeated_in_order() -> None:
    log = log_of((START, "start", (1,)), (NEXT, "advance", (1, 2)), (NEXT, "advance", (2, 3)))
    assert replayed(log) == [("start", 1), ("advance", 1, 2), ("advance", 2, 3)]


def test_what_only_led_to_another_version_is_forgotten_as_soon_as_possible() -> None:
    log = log_of((START, "start", (1,)), (NEXT, "advance", (1, 2)), (NEXT, "advance", (2, 3)))
    log.forget("version", 1)
    log.forget("version", 2)
    forget = [("forget", "version", 1), ("forget", "version", 2)]
    assert replayed(log) == [
        ("start", 1), ("advance", 1, 2), forget[0], ("advance", 2, 3), forget[1]
    ]  # fmt: skip


def test_a_rebuild_needs_the_start_of_its_chain_only() -> None:
    log = log_of((START, "start", (1,)), (NEXT, "advance", (1, 2)), (REBUILD, "rebuild", (2, 3, "sketch")))
    log.forget("version", 2)
    assert replayed(log) == [("start", 1), ("rebuild", 1, 3, "sketch")]
    log.record(REBUILD, "rebuild", [(3, 4, "smaller")] * 2)
    log.forget("version", 3)
    assert replayed(log) == [("start", 1), ("rebuild", 1, 4, "smaller")]
    assert len(log) == 2


def test_a_rebuild_that_keeps_columns_needs_what_made_them() -> None:
    log = log_of(
        (START, "start", (1,)), (NEXT, "advance", (1, 2)), (REBUILD, "rebuild", (2, 3, "keeps columns"))
    )
    log.forget("version", 2)
    assert [call[0] for call in replayed(log)] == ["start", "advance", "rebuild", "forget"]


def test_a_branch_that_is_not_in_use_is_not_repeated() -> None:
    log = log_of((START, "start", (1,)), (NEXT, "advance", (1, 2)), (NEXT, "advance", (1, 3)))
    log.forget("version", 2)
    assert replayed(log) == [("start", 1), ("advance", 1, 3)]


def test_what_a_note_was_computed_from_stays_until_the_version_goes() -> None:
    log = log_of((START, "start", (1,)), (PLACE, "place", (1, "columns")), (NOTE, "run", ("f", 1, 1)))
    log.forget("placed", 1)
    assert replayed(log) == [
        ("start", 1), ("place", 1, "columns"), ("run", "f", 1, 1), ("forget", "placed", 1)
    ]  # fmt: skip
    log.forget("version", 1)
    assert replayed(log) == []


def test_each_shard_has_its_own_arguments_and_shared_ones_are_packed_once() -> None:
    packed = []
    log = CallLog(lambda args: packed.append(args) or pickle.dumps(args))
    shared = (1, "for all")
    log.record(START, "start", [shared, shared])
    log.record(NEXT, "restore", [(1, 2, "first"), (1, 2, "second")])
    assert packed == [shared, (1, 2, "first"), (1, 2, "second")]
    assert pickle.loads(log.replay(0)[1][1]) == (1, 2, "first")
    assert pickle.loads(log.replay(1)[1][1]) == (1, 2, "second")

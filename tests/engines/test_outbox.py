"""Calls to shards that wait, and are sent together with the call that reads what they make."""

from __future__ import annotations

import gc
import pickle

import numpy as np
import pytest
from distributed import Client

from manyarms.engines import Dask, Local
from manyarms.engines.base import Keeps
from manyarms.engines.dask import DaskShards, ShardHost
from manyarms.engines.outbox import MISSING, Call, Outbox
from tests.engines.campaigns import Search

NEXT = Keeps("version", 1, (("version", 0),))
PLACE = Keeps("placed", 0)


def call(keeps: Keeps | None, *args: object) -> Call:
    return Call("method", [args, args], [pickle.dumps(args)] * 2, keeps)


def test_a_call_takes_along_those_that_it_depends_on_in_their_order() -> None:
    outbox = Outbox()
    first, other, second = call(NEXT, 1, 2), call(NEXT, 7, 8), call(NEXT, 2, 3)
    for waiting in (first, other, second):
        outbox.add(waiting)
    about_3, about_8 = call(None, 3, np.arange(4)), call(None, "function", 8)
    assert outbox.up_to(about_3) == [first, second, about_3]
    assert outbox.up_to(about_8) == [other, about_8]
    assert outbox.up_to(second) == [first, second]
    nobody = Call("at", [None, None], [None, None], None)
    assert outbox.up_to(nobody) == [nobody]
    assert nobody.is_answered


def test_what_a_waiting_call_reads_is_not_forgotten_and_what_it_makes_can_be_left_out() -> None:
    outbox = Outbox()
    first, second = call(NEXT, 1, 2), call(NEXT, 2, 3)
    outbox.add(first)
    outbox.add(second)
    assert [outbox.needs(("version", number)) for number in (1, 2, 3)] == [True, True, False]
    for name in (("version", 3), ("version", 3), ("placed", 2)):
        outbox.drop(name)
    assert list(outbox) == [first]
    outbox.remove(call(PLACE, 2))
    outbox.remove(call(NEXT, 1, 2))  # another call that makes the same
    assert list(outbox) == [first]


def test_a_shard_that_is_made_again_has_not_answered() -> None:
    waiting = call(NEXT, 1, 2)
    waiting.answers = [np.zeros(2), np.ones(2)]
    assert waiting.is_answered
    waiting.lost(1)
    assert waiting.answers[1] is MISSING
    assert not waiting.is_answered


class Messages:
    """The methods in each message to each shard of a cluster."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: list[tuple[tuple[str, ...], int]] = []
        plain = DaskShards._ask

        def ask(shards: DaskShards, together: list[Call], which: list[int]) -> object:
            self.sent.append((tuple(each.method for each in together), len(which)))
            return plain(shards, together, which)

        monkeypatch.setattr(DaskShards, "_ask", ask)


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("name", ["BKB", "BBKB global"])
def test_a_step_on_a_cluster_is_one_message_to_each_shard(
    client: Client, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    search = Search(0)
    opt = search.start(name, Dask(client, shards=3))
    for _ in range(3):
        search.step(opt, 1)
    messages = Messages(monkeypatch)
    for _ in range(5):
        messages.sent.clear()
        search.step(opt, 1)
        assert messages.sent == [(("advance", "run"), 3)]


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
def test_a_shard_lost_while_a_call_waits_is_told_everything(client: Client) -> None:
    search = Search(1)
    opt = search.start("BKB", Dask(client, shards=3))
    search.step(opt, 3)
    state, arms = opt.posterior.state, np.arange(0, search.pool.n_arms, 97)
    vector = np.random.default_rng(0).normal(size=state.sketch_size)
    expected = state.rows(arms) @ vector
    shards, later = state.over_pool.shards, state.over_pool.refitted(vector)
    assert list(shards._outbox)
    shards._actors[1] = shards._cluster.actors(ShardHost, [shards.homes[1]])[0]  # an actor without its shard
    assert np.allclose(later.at(arms).mean, expected)
    assert not list(shards._outbox)


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
def test_what_nobody_reads_is_neither_sent_nor_kept(client: Client) -> None:
    search = Search(2)
    opt = search.start("BKB", Dask(client, shards=2))
    search.step(opt, 3)
    over_pool = opt.posterior.state.over_pool
    shards, before = over_pool.shards, len(over_pool.shards._log)
    unused = over_pool.refitted(np.zeros(opt.posterior.state.sketch_size))
    assert len(list(shards._outbox)) >= 1
    del unused
    gc.collect()
    over_pool.at(np.array([5]))
    assert not list(shards._outbox)
    assert len(shards._log) <= before + 1


def _kept(shard, version) -> list[int]:
    return sorted(shard.versions)


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
def test_a_version_that_some_shards_made_before_another_failed_is_forgotten(client: Client) -> None:
    search = Search(4)
    opt = search.start("BKB", Dask(client, shards=2))
    search.step(opt, 3)
    over_pool, size = opt.posterior.state.over_pool, opt.posterior.state.sketch_size
    half = over_pool._next("refit", np.zeros(size))[0]
    shards = over_pool.shards
    (call,) = [each for each in shards._outbox if each.makes == ("version", half.number)]
    number = half.number
    wrong = shards._log.packed([(over_pool.number, number, np.zeros(size + 1))])[0]
    call.packed = [call.packed[0], wrong]
    with pytest.raises((ValueError, IndexError)):
        half.at(np.array([5]))
    assert number in shards.each("run", [(_kept, over_pool.number)] * 2)[0]
    del half
    gc.collect()
    for kept in shards.each("run", [(_kept, over_pool.number)] * 2):
        assert number not in kept


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
def test_an_error_of_a_waiting_call_comes_with_the_next_one_and_changes_nothing(client: Client) -> None:
    search = Search(3)
    opt = search.start("BKB", Dask(client, shards=2))
    search.step(opt, 3)
    over_pool = opt.posterior.state.over_pool
    wrong = over_pool.refitted(np.zeros(opt.posterior.state.sketch_size + 1))  # a column too many
    for _ in range(2):
        with pytest.raises((ValueError, IndexError)):
            wrong.at(np.array([5]))
    known = over_pool.at(np.array([5]))
    assert np.isfinite(known.mean).all()
    del wrong
    gc.collect()
    expected = search.arms("BKB", Local(), sizes=(3, 3))
    assert search.step(opt, 3) == expected[3:]

"""How many messages a step sends to the shards: on a cluster each costs a round trip."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import manyarms as ma
from manyarms.choice.highest import BoundRule, peak
from manyarms.engines.local import LocalShards
from manyarms.pool.allowance import Allowance
from tests.engines.campaigns import Search


class Counted:
    """Records the calls to shards: the method, and to how many shards it went."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str, int]] = []
        plain = LocalShards.each

        def each(shards: LocalShards, method: str, calls: Any) -> list[Any]:
            name = calls[0][0].__name__ if method == "run" and calls[0] else method
            self.calls.append((name, sum(args is not None for args in calls)))
            return plain(shards, method, calls)

        monkeypatch.setattr(LocalShards, "each", each)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("size", [1, None])
def test_a_step_of_bkb_asks_all_shards_twice_and_none_of_them_again(
    monkeypatch: pytest.MonkeyPatch, size: int | None
) -> None:
    search = Search(0)
    opt = search.start("BKB", ma.engines.Local(shards=4, threads=1))
    for _ in range(5):
        batch = opt.ask(size)
        opt.tell(batch, search.values[batch.arms])
    counted = Counted(monkeypatch)
    for _ in range(10):
        counted.calls.clear()
        batch = opt.ask(size)
        opt.tell(batch, search.values[batch.arms])
        assert [call for call in counted.calls if call[1] == 4] == [("advance", 4), ("peak_in", 4)]
        assert not [n for _, n in counted.calls if n < 4]


@pytest.mark.usefixtures("small_blocks")
def test_the_peak_of_several_shards_is_that_of_one_also_where_bounds_are_tied() -> None:
    """Bounds within `tie` of the highest count as tied, and the lowest index of these is the peak."""
    search = Search(1)
    arms = np.random.default_rng(1).choice(search.pool.n_arms, 40, replace=False)
    everything, pools = Allowance(search.pool.n_arms), []
    for shards in (1, 2, 5, 16):
        opt = search.start("BKB", ma.engines.Local(shards=shards))
        opt.tell(arms=arms, rewards=search.values[arms])
        opt.ask()
        pools.append(opt.posterior.state.over_pool)
    for tie in (0.0, 1e-12, 1e-3, 0.03, 0.3):
        for width in (0.0, 0.5, 3.0):
            found = [peak(over_pool, BoundRule(width), everything, tie) for over_pool in pools]
            assert len({(each.arm, each.bound, each.leverage) for each in found}) == 1, (tie, width)

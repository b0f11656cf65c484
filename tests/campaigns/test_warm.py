"""A process that keeps the model between asks hands out what a new process would."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from manyarms.campaigns import next_batch
from manyarms.campaigns.campaign import Campaign, Issued
from manyarms.campaigns.results_file import ReportedResult
from tests.campaigns.support import LEARNED, SMALL, made, step, value_of

KINDS = {"learned": LEARNED, "given": SMALL}


class Laboratory:
    """Random acts on one campaign: asks, results that come late or fail, tickets given up, corrections.

    The acts depend on the seed and on what was handed out, so two campaigns that hand out the same candidates
    see the same acts.
    """

    def __init__(self, opened: Callable[[], Campaign], seed: int) -> None:
        self.opened, self.rng = opened, np.random.default_rng(seed)
        self.out: list[Issued] = []
        self.told: list[Issued] = []
        self.log: list[Any] = []

    def act(self) -> None:
        kind = self.rng.choice(["ask", "ask", "tell", "tell", "fail", "forget", "correct"])
        if kind == "ask" or not self.out:
            batch = self.opened().ask(int(self.rng.integers(1, 13)))
            self.out += batch
            self.log += [(i.ticket, i.arm, i.reason, i.predicted, i.predicted_std, i.lower) for i in batch]
        elif kind == "forget":
            self.opened().forget([self._some(1)[0].ticket])
        elif kind == "correct" and self.told:
            wrong, value = self.told[int(self.rng.integers(len(self.told)))], float(self.rng.normal())
            self.opened().correct([ReportedResult("here", wrong.ticket, wrong.id, value)])
        else:
            failed = kind == "fail"
            done = self._some(1 if failed else int(self.rng.integers(1, len(self.out) + 1)))
            self.told += [] if failed else done
            lines = [f"{i.code},{'' if failed else _value(i)},{int(failed)}" for i in done]
            text = "\n".join(["ticket,value,failed", *lines, ""])
            self.opened().tell_bytes(text.encode(), "results.csv")

    def _some(self, n: int) -> list[Issued]:
        places = set(self.rng.choice(len(self.out), size=min(n, len(self.out)), replace=False).tolist())
        some = [each for i, each in enumerate(self.out) if i in places]
        self.out = [each for i, each in enumerate(self.out) if i not in places]
        return some


def _value(issued: Issued) -> str:
    return repr(value_of(float(issued.columns["x1"]), float(issued.columns["x2"]), issued.ticket))


def compare(folder: Path, kind: str, seed: int, acts: int) -> None:
    kept = made(folder, f"warm{seed}.db", **KINDS[kind])
    made(folder, f"cold{seed}.db", **KINDS[kind]).close()
    opened: list[Campaign] = []

    def anew() -> Campaign:
        while opened:
            opened.pop().close()
        opened.append(Campaign(folder / f"cold{seed}.db"))
        return opened[0]

    warm, cold = Laboratory(lambda: kept, seed), Laboratory(anew, seed)
    reused = 0
    for _ in range(acts):
        before = kept._belief
        warm.act()
        cold.act()
        after = kept._belief
        reused += before is not None and after is not None and after.process is before.process
        assert warm.log == cold.log
    kept.close()
    anew().close()
    assert warm.log
    assert reused, "the model was never kept, so nothing was compared"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_kept_model_changes_nothing(tmp_path: Path, kind: str, seed: int) -> None:
    compare(tmp_path, kind, seed, 25)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
@pytest.mark.parametrize("kind", KINDS)
def test_a_kept_model_changes_nothing_in_200_sequences(tmp_path: Path, kind: str, block: int) -> None:
    """Ten sequences each: tickets, candidates, reasons and predictions are equal to the last bit."""
    for seed in range(100 + 10 * block, 110 + 10 * block):
        compare(tmp_path, kind, seed, 20)


def test_a_thinned_sketch_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its columns are used again; with the usual q̄, every feedback would ask for all arms, to be thinned."""
    monkeypatch.setattr(next_batch, "most_inducing", lambda n_arms: 40)
    with made(tmp_path, **{**SMALL, "lengthscale": 0.05}) as campaign:
        sketches = []
        for _ in range(14):
            step(campaign, 6)
            assert campaign._belief is not None
            sketches.append(campaign._belief.state.inducing.tolist())
    assert max(map(len, sketches)) <= 40
    thinned = next(i for i in range(1, 14) if len(sketches[i]) < len(sketches[i - 1]))
    pairs = list(zip(sketches[thinned:], sketches[thinned + 1 :], strict=False))
    kept = sum(later[: len(earlier)] == earlier for earlier, later in pairs)
    assert kept >= len(pairs) - 2, sketches

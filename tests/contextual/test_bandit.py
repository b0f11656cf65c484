"""Rounds, tickets, late and missing rewards, saved bandits, and input that is refused."""

from __future__ import annotations

import numpy as np
import pytest

import manyarms as ma
from manyarms.errors import (
    AlreadyToldError,
    CheckpointError,
    EmptyPoolError,
    InvalidFeaturesError,
    InvalidKernelError,
    InvalidParameterError,
    InvalidRewardError,
    UnknownTicketError,
)
from tests.contextual.rounds import Stream, play

KERNEL = ma.RBF(0.4)
POLICIES = {
    "BKB": (ma.BKB(kernel=KERNEL), {}),
    "BKB limited": (ma.BKB(kernel=KERNEL, width=2.0), {"max_inducing": 12}),
    "BKB forgetting": (ma.BKB(kernel=KERNEL, width=2.0), {"forgetting": 0.99}),
    "BKB window": (ma.BKB(kernel=KERNEL, width=2.0), {"window": 20, "max_inducing": 15}),
    "BBKB": (ma.BBKB(kernel=KERNEL, width=2.0), {}),
    "SGPTS": (ma.SGPTS(kernel=KERNEL, width=1.0), {}),
    "RFFTS": (ma.RFFTS(kernel=KERNEL, width=1.0), {}),
    "OFUL": (ma.OFUL(kernel=ma.Linear(bias=1.0)), {}),
    "SOFUL": (ma.SOFUL(size=2), {"forgetting": 0.99}),
    "CBRAP": (ma.CBRAP(size=1), {}),
}


def snapshot(bandit: ma.ContextualBandit, tmp_path) -> bytes:
    """Everything that is saved."""
    path = tmp_path / "snapshot"
    bandit.save(path)
    return path.read_bytes()


def late_rounds(bandit, stream, n, delay=6, out=()):
    """Rewards come late and out of order; every fifth is lost."""
    out, chosen = list(out), []
    for rows, truth, noise in stream.rounds(n):
        pick = bandit.ask(rows)
        chosen.append((pick.index, pick.ticket, pick.why))
        if pick.ticket % 5:
            out.append((pick.ticket, truth[pick.index] + noise))
        if len(out) > delay:
            bandit.tell(*out.pop(pick.ticket % len(out)))
    return chosen, out


@pytest.mark.parametrize("name", POLICIES)
def test_a_saved_bandit_continues_bit_for_bit(name, tmp_path):
    policy, more = POLICIES[name]
    for stop in (0, 1, 2, 17, 41):
        whole = ma.ContextualBandit(policy, seed=4, expire_after=30, **more)
        stream = Stream(3)
        _, out = late_rounds(whole, stream, stop)
        path = tmp_path / f"{stop}.npz"
        whole.save(path)
        again = ma.ContextualBandit.load(path)
        assert repr(again) == repr(whole)
        assert again.pending == whole.pending
        rest = [list(stream.rounds(30))]

        def play_rest(bandit, rest=rest, out=out):
            replay = type("Replay", (), {"rounds": lambda self, n: iter(rest[0])})()
            return late_rounds(bandit, replay, 30, out=out)[0]

        assert play_rest(again) == play_rest(whole)
        assert snapshot(again, tmp_path) == snapshot(whole, tmp_path)


@pytest.mark.parametrize("name", ["BKB", "BBKB", "SGPTS", "OFUL", "CBRAP"])
def test_what_is_kept_does_not_grow_with_the_rounds(name, tmp_path):
    policy, _ = POLICIES[name]
    bandit, sizes = ma.ContextualBandit(policy, max_inducing=10, expire_after=60), []
    for _ in range(4):
        late_rounds(bandit, Stream(3, candidates=4), 100)
        sizes.append(len(snapshot(bandit, tmp_path)))
    assert sizes[3] < 1.2 * sizes[1]


def test_the_order_of_telling_does_not_matter():
    stream = Stream(0)
    rounds = list(stream.rounds(30))
    means = []
    for order in (1, -1):
        bandit = ma.ContextualBandit(ma.BBKB(kernel=KERNEL, width=2.0, batch_ratio=3.0))
        told = []
        for rows, truth, noise in rounds[:10]:
            pick = bandit.ask(rows)
            told.append((pick.ticket, truth[pick.index] + noise))
        for ticket, reward in told[::order]:
            bandit.tell(ticket, reward)
        means.append([bandit.ask(rows).index for rows, _, _ in rounds[10:]])
    assert means[0] == means[1]


def test_several_tickets_and_picks_are_told_together():
    rows, _, _ = next(Stream(0).rounds(1))
    bandit = ma.ContextualBandit(ma.BKB(kernel=KERNEL))
    picks = [bandit.ask(rows) for _ in range(3)]
    bandit.tell([pick.ticket for pick in picks[:2]], [0.1, 0.2])
    bandit.tell(picks[2], 0.3)
    assert bandit.pending == []
    bandit.ask(rows)
    assert bandit.pulls == 3


def test_pending_picks_are_spread_out():
    """Without any reward after the first, open picks lower the variance of rows like them."""
    rows = np.linspace(0, 1, 20)[:, None]
    bandit = ma.ContextualBandit(ma.BKB(kernel=ma.RBF(0.2), width=2.0))
    bandit.tell(rows=rows[:1], rewards=[0.0])
    chosen = [bandit.ask(rows).index for _ in range(6)]
    assert len(set(chosen)) == 6


def test_a_forgotten_pick_leaves_no_trace(tmp_path):
    stream = Stream(0)
    bandit = ma.ContextualBandit(ma.BKB(kernel=KERNEL, width=2.0))
    play(bandit, stream, 10)
    rows, _, _ = next(stream.rounds(1))
    bandit.ask(rows)
    before = bandit._state
    pick = bandit.ask(rows)
    bandit.forget(pick)
    after = bandit._state
    np.testing.assert_allclose(after.open_picks.between, before.open_picks.between, atol=1e-9)
    with pytest.raises(AlreadyToldError, match="forgotten"):
        bandit.tell(pick.ticket, 1.0)


def test_picks_without_a_reward_expire():
    stream = Stream(0)
    bandit = ma.ContextualBandit(ma.BKB(kernel=KERNEL, width=2.0), expire_after=5)
    picks = [bandit.ask(rows) for rows, _, _ in stream.rounds(10)]
    assert bandit.pending == [4, 5, 6, 7, 8, 9]
    with pytest.raises(AlreadyToldError, match="ticket 0 already has a result, was forgotten or has expired"):
        bandit.tell(picks[0], 1.0)
    assert len(bandit._state.open_picks) == 6


def test_open_rows_beyond_the_limit_are_left_out():
    stream = Stream(0)
    bandit = ma.ContextualBandit(ma.BKB(kernel=KERNEL, width=2.0), max_open=4)
    bandit.tell(rows=np.zeros((1, 2)), rewards=[0.0])
    for rows, _, _ in stream.rounds(9):
        bandit.ask(rows)
    picks = bandit._state.open_picks
    assert len(picks) == 4
    model = bandit._state.model
    np.testing.assert_allclose(model.between(picks.values, picks.values), picks.between, atol=1e-9)


def test_a_context_is_appended_to_every_row():
    actions, context = np.array([[0.0], [1.0]]), [0.3, 0.7]
    kernel = ma.OnColumns(ma.RBF(1.0), 0) * ma.OnColumns(ma.RBF(0.5), [1, 2])
    one, other = (ma.ContextualBandit(ma.BKB(kernel=kernel), seed=1) for _ in range(2))
    for t in range(20):
        together = np.column_stack([actions, np.tile(context, (2, 1))])
        picks = one.ask(actions, context=context), other.ask(together)
        assert picks[0] == picks[1]
        for bandit, pick in zip((one, other), picks, strict=True):
            bandit.tell(pick, float(t % 3 == pick.index))
    np.testing.assert_array_equal(one.predict(actions, context=context), other.predict(together))


def test_rows_may_be_texts_or_packed_bits(tmp_path):
    words = ["cat", "car", "dog"]
    bandit = ma.ContextualBandit(ma.BKB(kernel=ma.Hamming(0.5), width=2.0))
    for _ in range(12):
        pick = bandit.ask(words)
        bandit.tell(pick, float(words[pick.index] == "dog"))
    assert words[int(np.argmax(bandit.predict(words)[0]))] == "dog"
    bandit.save(tmp_path / "words.npz")
    np.testing.assert_array_equal(
        ma.ContextualBandit.load(tmp_path / "words.npz").predict(words)[0], bandit.predict(words)[0]
    )
    bits = np.packbits(np.eye(16, dtype=bool), axis=1)
    bandit = ma.ContextualBandit(ma.BKB(kernel=ma.Tanimoto(), width=2.0))
    bandit.tell(bandit.ask(bits), 1.0)
    assert bandit.ask(bits).why == "upper bound"


def test_an_empty_reward_before_the_first_result():
    rows = np.zeros((3, 2))
    bandit = ma.ContextualBandit(ma.OFUL())
    assert bandit.ask(rows).why == "random start"
    bandit.tell(0, 1.0)
    assert bandit.ask(rows).index == 0  # all rows are zero, so that all bounds are


# ---------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (ma.BKB(), "does not learn"),
        (ma.BBKB(kernel=KERNEL, local=True), "LocalRatio"),
        (ma.BKB(kernel=KERNEL, inducing="incremental"), "incremental"),
        (ma.SGPTS(kernel=KERNEL, inducing="kdpp"), "kdpp"),
        (ma.SGPTS(kernel=KERNEL, rule="features"), "features"),
        (ma.MiniGPUCB(kernel=KERNEL), "RepeatTop"),
        (ma.SoRUCB(kernel=KERNEL), "SoRUCB"),
        (ma.GPBUCB(kernel=KERNEL, initial_pulls=5), "HighestVariance"),
        ("BKB", "'BKB'"),
    ],
)
def test_policies_that_need_a_pool_are_refused(policy, message):
    with pytest.raises(InvalidParameterError, match=message):
        ma.ContextualBandit(policy)


@pytest.mark.parametrize(
    "wrong",
    [
        {"seed": -1},
        {"max_inducing": 0},
        {"max_open": 0},
        {"expire_after": 0},
        {"forgetting": 0.0},
        {"forgetting": 1.5},
        {"window": 0},
        {"window": 10, "forgetting": 0.9},
    ],
)
def test_wrong_settings_are_refused(wrong):
    name = next(iter(wrong))
    with pytest.raises(InvalidParameterError, match=name):
        ma.ContextualBandit(ma.BKB(kernel=KERNEL), **wrong)


def test_a_sketch_of_v_has_no_window():
    with pytest.raises(InvalidParameterError, match="SOFUL"):
        ma.ContextualBandit(ma.SOFUL(), window=10)


BAD_CALLS = [
    (lambda b: b.ask(np.empty((0, 2))), EmptyPoolError, "at least one row"),
    (lambda b: b.ask([[0.1, np.nan]]), InvalidFeaturesError, "nan"),
    (lambda b: b.ask([[0.1, 0.2, 0.3]]), InvalidFeaturesError, "3 columns.* had 2"),
    (lambda b: b.ask(["a", "b"]), InvalidFeaturesError, "columns"),
    (lambda b: b.ask([["a", "b"]]), InvalidFeaturesError, "first round"),
    (lambda b: b.ask([[0.1]], context=[[1.0], [2.0]]), InvalidFeaturesError, "one row of numbers"),
    (lambda b: b.ask([[0.1]], context=["x"]), InvalidFeaturesError, "one row of numbers"),
    (lambda b: b.tell(0, 1.0), AlreadyToldError, "ticket 0"),
    (lambda b: b.tell(99, 1.0), UnknownTicketError, "99"),
    (lambda b: b.tell(-1, 1.0), UnknownTicketError, "-1"),
    (lambda b: b.tell("x", 1.0), UnknownTicketError, "x"),
    (lambda b: b.tell([4, 4], [1.0, 2.0]), AlreadyToldError, "twice"),
    (lambda b: b.tell(4, np.inf), InvalidRewardError, "inf"),
    (lambda b: b.tell([4], [1.0, 2.0]), InvalidRewardError, "1 rewards expected"),
    (lambda b: b.tell(4, None), InvalidParameterError, "rewards"),
    (lambda b: b.tell(rewards=[1.0]), InvalidParameterError, "exactly one"),
    (lambda b: b.tell(4, 1.0, rows=[[0.1, 0.2]]), InvalidParameterError, "exactly one"),
    (lambda b: b.tell(4, 1.0, noise_std=0.0), InvalidParameterError, "noise_std"),
    (lambda b: b.tell(4, 1.0, noise_std=[0.1, 0.2]), InvalidParameterError, "noise_std"),
    (lambda b: b.tell(rows=[[0.1]], rewards=[1.0]), InvalidFeaturesError, "1 columns"),
    (lambda b: b.tell(rows=[[0.1, 0.2]], rewards=[1.0, 2.0]), InvalidRewardError, "1 rewards expected"),
    (lambda b: b.forget(0), AlreadyToldError, "ticket 0"),
    (lambda b: b.forget([4, 99]), UnknownTicketError, "99"),
    (lambda b: b.predict([[0.1]]), InvalidFeaturesError, "1 columns"),
]


@pytest.mark.parametrize(("call", "error", "message"), BAD_CALLS)
def test_a_failed_call_changes_nothing(call, error, message, tmp_path):
    stream = Stream(0)
    bandit = ma.ContextualBandit(ma.BKB(kernel=KERNEL, width=2.0))
    play(bandit, stream, 4)
    bandit.ask(next(stream.rounds(1))[0])
    before = snapshot(bandit, tmp_path)
    with pytest.raises(error, match=message):
        call(bandit)
    assert snapshot(bandit, tmp_path) == before


def test_a_kernel_that_fails_changes_nothing(tmp_path):
    class Broken(type(KERNEL)):
        broken = False

        def matrix(self, X, Y):
            values = super().matrix(X, Y)
            return values * np.nan if Broken.broken == "matrix" else values

        def diag(self, X):
            return super().diag(X) * (-1.0 if Broken.broken == "diag" else 1.0)

    stream = Stream(0)
    bandit = ma.ContextualBandit(ma.BKB(kernel=Broken(0.4), width=2.0))
    play(bandit, stream, 4)
    before, rows = snapshot(bandit, tmp_path), next(stream.rounds(1))[0]
    for Broken.broken, message in (("matrix", "gave nan"), ("diag", r"diag gave -1\.0")):
        with pytest.raises(InvalidKernelError, match=message):
            bandit.ask(rows)
        assert snapshot(bandit, tmp_path) == before
    Broken.broken = False
    assert bandit.ask(rows).ticket == 4


def test_a_ridge_below_rounding_errors_is_refused():
    bandit = ma.ContextualBandit(ma.BKB(kernel=1e8 * KERNEL, noise_std=1e-4))
    with pytest.raises(InvalidParameterError, match="ridge"):
        bandit.ask(np.zeros((2, 2)))
    assert bandit.rounds == 0


def test_files_that_are_not_a_bandit_are_refused(tmp_path):
    bandit = ma.ContextualBandit(ma.BKB(kernel=KERNEL))
    other = tmp_path / "notes.txt"
    other.write_text("important")
    with pytest.raises(CheckpointError, match="not a saved"):
        bandit.save(other)
    assert other.read_text() == "important"
    with pytest.raises(CheckpointError, match="no such file"):
        ma.ContextualBandit.load(tmp_path / "missing.npz")
    path = tmp_path / "bandit.npz"
    bandit.save(path)
    bandit.save(path)  # a saved bandit may be replaced
    with pytest.raises(CheckpointError, match=r"saved policy has width"):
        ma.ContextualBandit.load(path, ma.BKB(kernel=KERNEL, width=1.0))
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    path.write_bytes(bytes(damaged))
    with pytest.raises(CheckpointError, match=r"bandit\.npz: .*damaged"):
        ma.ContextualBandit.load(path)
    saved_run = tmp_path / "run.npz"
    ma.Optimizer(ma.Pool(np.eye(3)), ma.BKB(kernel=KERNEL)).save(saved_run)
    with pytest.raises(CheckpointError, match="not a saved"):
        ma.ContextualBandit.load(saved_run)


def test_python_objects_cannot_be_saved(tmp_path):
    class Length:
        def matrix(self, X, Y):
            return np.exp(-np.abs(np.subtract.outer([len(x) for x in X], [len(y) for y in Y])).astype(float))

        def diag(self, X):
            return np.ones(len(X))

    bandit = ma.ContextualBandit(ma.BKB(kernel=Length(), width=2.0))
    bandit.tell(bandit.ask([{"a": 1}, {"a": 1, "b": 2}]), 1.0)
    assert bandit.ask([{"a": 1}, {"a": 1, "b": 2}]).why == "upper bound"
    with pytest.raises(CheckpointError, match="objects"):
        bandit.save(tmp_path / "objects.npz")
    assert not (tmp_path / "objects.npz").exists()

"""A run is one frozen state: steps make new ones, and whatever was handed out before never changes."""

from __future__ import annotations

import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

import manyarms as ma
from manyarms.run.asking import asked, request
from manyarms.run.feedback import with_feedback
from manyarms.run.telling import told
from tests.runs import Problem

POLICIES = {
    "learned": None,
    "bbkb": lambda p: ma.BBKB(**p.settings()),
    "gp-bucb": lambda p: ma.GPBUCB(**p.settings()),
    "s-gp-ts": lambda p: ma.SGPTS(**p.settings(prior_size=100)),
    "soful": lambda p: ma.SOFUL(ridge=0.1, size=2),
}


def started(problem: Problem, name: str, **settings: object) -> ma.Optimizer:
    make = POLICIES[name]
    opt = ma.Optimizer(problem.pool, None if make is None else make(problem), seed=4, **settings)
    problem.run(opt, 30)
    return opt


def contents(plain: object) -> object:
    """Plain data with arrays as lists, so that it can be compared."""
    if isinstance(plain, dict):
        return {key: contents(value) for key, value in plain.items()}
    if isinstance(plain, list | tuple):
        return [contents(value) for value in plain]
    return plain.tolist() if isinstance(plain, np.ndarray) else plain


@pytest.mark.parametrize("name", POLICIES)
def test_two_futures_of_one_state_do_not_disturb_each_other(name: str) -> None:
    """Two branches that take turns go the same way as each of them alone, and their origin stays."""
    problem = Problem(2)
    opt = started(problem, name)
    context, origin = opt.context, opt.state
    before = contents(origin.to_plain())

    def stepped(state, sign):
        wanted = request(context, state, 3, None, None)
        state, batch = asked(context, with_feedback(context, state), wanted)
        return told(context, state, batch, sign * problem.truth[batch.arms]), batch.arms.tolist()

    alone = {}
    for sign in (1, -1):
        state, alone[sign] = origin, []
        for _ in range(6):
            state, arms = stepped(state, sign)
            alone[sign].append(arms)
    together, states = {1: [], -1: []}, {1: origin, -1: origin}
    for _ in range(6):
        for sign in (1, -1):
            states[sign], arms = stepped(states[sign], sign)
            together[sign].append(arms)
    assert together == alone
    assert alone[1] != alone[-1]
    assert contents(origin.to_plain()) == before


@pytest.mark.parametrize("name", POLICIES)
def test_a_run_can_be_sent_to_another_process(name: str) -> None:
    """A pickled run goes on as the original does, and neither disturbs the other."""
    problem = Problem(2)
    opt = started(problem, name)
    sent = pickle.loads(pickle.dumps(opt))
    assert [sent.ask(3).arms.tolist() for _ in range(3)] == [opt.ask(3).arms.tolist() for _ in range(3)]
    for _ in range(5):
        for run in (opt, sent):
            batch = run.ask(3)
            run.tell(batch, problem.truth[batch.arms])
    assert sent.predict()[0].tolist() == opt.predict()[0].tolist()


@pytest.mark.parametrize("name", ["bbkb", "soful"])
def test_threads_may_step_from_the_same_state(name: str) -> None:
    """Four threads condition one state on different results; each gets what it would get alone."""
    problem = Problem(2)
    opt = started(problem, name)

    def branch(number: int) -> list[float]:
        run = ma.Optimizer.of(opt.context, opt.state)
        for start in range(60 * number, 60 * number + 60, 6):
            arms = np.arange(start, start + 6)
            run.tell(arms=arms, rewards=problem.truth[arms])
            run.predict()
        return run.predict()[0].tolist()

    alone = [branch(number) for number in range(4)]
    for _ in range(5):
        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(branch, range(4))) == alone


def test_records_are_the_same_however_often_they_are_read(tmp_path) -> None:
    """Read after every step, or once at the end; with results in parts, out of order, and failures."""
    problem, rng = Problem(3), np.random.default_rng(0)
    read, unread = started(problem, "bbkb"), started(problem, "bbkb")
    for _ in range(12):
        for run in (read, unread):
            run.ask(5)
        assert len(read.trace) == read.n_batches
        waiting = list(read.pending)
        told = rng.permutation(waiting)[: rng.integers(1, len(waiting) + 1)]
        failed = (rng.random(len(told)) < 0.2).tolist()
        for run in (read, unread):
            run.tell(told, rng.normal(size=len(told)) * 0 + told, failed=failed)
        read.trace  # noqa: B018
    read.save(tmp_path / "run.npz")
    loaded = ma.Optimizer.load(tmp_path / "run.npz")
    for one, other, third in zip(read.trace, unread.trace, loaded.trace, strict=True):
        for name in ("arms", "tickets", "rewards", "failed"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
            np.testing.assert_array_equal(getattr(one, name), getattr(third, name))
            for record in (one, other, third):
                assert not getattr(record, name).flags.writeable


def test_an_interrupt_while_the_state_is_replaced_loses_nothing() -> None:
    """Ctrl-C at either line of the replacement: the old run or the new one, never a mixture."""
    problem = Problem(2)
    for line in (1, 2):
        opt = started(problem, "bbkb")
        batch = opt.ask(2)
        opt.tell(batch.tickets[:1], [1.0])
        opt.predict()
        left = [line]

        def tracer(frame, event, _, left=left):
            if frame.f_code.co_name != "_move":
                return tracer
            left[0] -= event == "line"
            if event == "line" and left[0] == 0:
                raise KeyboardInterrupt
            return tracer

        before = sys.gettrace()
        sys.settrace(tracer)
        try:
            with pytest.raises(KeyboardInterrupt):
                opt.tell(batch.tickets[1:], [2.0])
        finally:
            sys.settrace(before)
        pulls, pending = opt.history.pulls, len(opt.pending)
        assert (pulls, pending) in ((31, 1), (32, 0))
        opt.ask(1)
        assert (opt.history.pulls, len(opt.pending)) == (pulls, pending + 1)


def test_a_reward_of_zero_is_not_minus_zero() -> None:
    problem = Problem(2)
    opt = ma.Optimizer(problem.pool, ma.BBKB(**problem.settings()), minimize=True)
    opt.tell(arms=[1], rewards=[0.0])
    assert str(opt.history.sums[0]) == "0.0"
    assert str(opt.best().average) == "0.0"
    assert str(opt.best().mean) == "0.0"


def test_a_state_cannot_be_modified() -> None:
    opt = started(Problem(2), "bbkb")
    with pytest.raises(FrozenInstanceError):
        opt.state.n_batches = 0
    with pytest.raises(FrozenInstanceError):
        opt.context.seed = 1


def test_what_was_handed_out_never_changes() -> None:
    """Batch, records, history and pending tickets are as they were, whatever happens later."""
    problem = Problem(3)
    opt = started(problem, "bbkb")
    batch, trace, history, pending = opt.ask(4), opt.trace, opt.history, opt.pending
    record = trace[-1]
    kept = batch.arms.tolist(), record.rewards.tolist(), history.sums.tolist(), history.pulls
    opt.tell(batch, problem.truth[batch.arms])
    problem.run(opt, 60)
    now = batch.arms.tolist(), record.rewards.tolist(), history.sums.tolist(), history.pulls
    np.testing.assert_equal(now, kept)
    assert np.isnan(record.rewards).all()
    assert np.isfinite(opt.trace[len(trace) - 1].rewards).all()
    pending.clear()
    trace.clear()
    assert len(opt.trace) > 10
    with pytest.raises(ValueError, match="read-only"):
        batch.arms[0] = 5


@pytest.mark.parametrize("name", POLICIES)
def test_streams_are_addressed_so_a_failed_ask_moves_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = Problem(2)
    opt, same = started(problem, name), started(problem, name)

    def fails(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("manyarms.run.asking.unanswered", fails)
        with pytest.raises(KeyboardInterrupt):
            opt.ask(3)
    assert opt.ask(3).arms.tolist() == same.ask(3).arms.tolist()


def test_the_representation_says_what_it_is() -> None:
    problem = Problem(2)
    opt = ma.Optimizer(problem.pool, ma.BBKB(**problem.settings()), budget=40, minimize=True)
    batch = opt.ask(5)
    opt.tell(batch.tickets[:3], [0.0, 1.0, 2.0])
    assert repr(opt) == (
        "Optimizer(300 arms, BBKB, minimize, 5 of 40 pulls handed out, 3 results, 2 pending)"
    )
    assert "maximize, 0 pulls handed out" in repr(ma.Optimizer(problem.pool))


@pytest.mark.parametrize("name", ["learned", "bbkb", "s-gp-ts"])
def test_minimizing_is_maximizing_the_negative(name: str) -> None:
    problem = Problem(5)
    make = POLICIES[name]
    policy = None if make is None else make(problem)
    up = ma.maximize(lambda arm: -problem.truth[arm.index], problem.pool, 60, policy, seed=2)
    down = ma.minimize(lambda arm: problem.truth[arm.index], problem.pool, 60, policy, seed=2)
    assert down.arms.tolist() == up.arms.tolist()
    assert down.rewards.tolist() == (-up.rewards).tolist()
    one, other = up.optimizer, down.optimizer
    assert other.predict()[0] == pytest.approx(-one.predict()[0])
    assert other.predict()[1] == pytest.approx(one.predict()[1])
    lower, upper = one.interval([3, 4])
    assert other.interval([3, 4])[0] == pytest.approx(-upper)
    assert other.interval([3, 4])[1] == pytest.approx(-lower)
    assert other.history.sums.tolist() == (-one.history.sums).tolist()
    assert (down.best.arm, down.best.mean) == (up.best.arm, pytest.approx(-up.best.mean))
    assert (down.best.lower, down.best.upper) == (
        pytest.approx(-up.best.upper),
        pytest.approx(-up.best.lower),
    )
    assert down.best.average == pytest.approx(-up.best.average)
    assert down.best.lower <= down.best.mean <= down.best.upper


def test_a_minimizing_run_is_saved_and_resumed_as_such(tmp_path) -> None:
    problem = Problem(5)
    done = ma.minimize(lambda arm: problem.truth[arm.index], problem.pool, 30, seed=2)
    done.optimizer.save(tmp_path / "run.npz")
    again = ma.Optimizer.load(tmp_path / "run.npz")
    assert again.context.minimize
    assert again.predict()[0].tolist() == done.optimizer.predict()[0].tolist()
    with pytest.raises(ma.errors.InvalidParameterError, match="goal"):
        ma.maximize(lambda arm: 0.0, problem.pool, 40, resume=done)
    more = ma.minimize(lambda arm: problem.truth[arm.index], problem.pool, 40, resume=done)
    whole = ma.minimize(lambda arm: problem.truth[arm.index], problem.pool, 30, seed=2)
    assert more.arms.tolist()[:30] == whole.arms.tolist()


def test_ids_are_accepted_wherever_arms_are() -> None:
    problem = Problem(6)
    names = [f"m{i}" for i in range(300)]
    named = ma.Optimizer(ma.Pool(problem.pool.features, names), ma.BBKB(**problem.settings()))
    plain = ma.Optimizer(problem.pool, ma.BBKB(**problem.settings()))
    named.tell(arms=["m3", "m7"], rewards=[1.0, 2.0])
    plain.tell(arms=[3, 7], rewards=[1.0, 2.0])
    assert named.predict(["m7", "m8"])[0].tolist() == plain.predict([7, 8])[0].tolist()
    assert named.interval(["m7"])[0].tolist() == plain.interval([7])[0].tolist()
    assert (
        named.ask(2, eligible=["m1", "m2", "m9"]).arms.tolist()
        == plain.ask(2, eligible=[1, 2, 9]).arms.tolist()
    )
    assert named.predict(np.array("m7"))[0].tolist() == plain.predict([7])[0].tolist()
    for call in (lambda: named.predict(["m300"]), lambda: named.tell(arms=["x"], rewards=[1.0])):
        with pytest.raises(ma.errors.UnknownArmError):
            call()


def test_why_each_arm_was_chosen() -> None:
    """Every word, in the order of the arms of the batch, and the same words in the trace."""
    problem = Problem(7, n_arms=300)
    opt = ma.Optimizer(problem.pool, seed=1, budget=130, repeats="forbid")
    seen, rng = [], np.random.default_rng(0)
    for size in (12, 18, 40, 60):
        batch = opt.ask(size)
        assert len(batch.why) == size
        assert opt.trace[-1].why == batch.why
        seen.append([(word, batch.why.count(word)) for word in dict.fromkeys(batch.why)])
        opt.tell(batch, problem.truth[batch.arms] + rng.normal(size=size))
    assert seen == [
        [("initial design", 12)],
        [("initial design", 8), ("upper bound", 10)],
        [("exploration", 8), ("upper bound", 32)],
        [("final batch", 60)],
    ]
    for policy, word in (
        (ma.SGPTS(**problem.settings(prior_size=50)), "Thompson draw"),
        (ma.BKB(**problem.settings()), "upper bound"),
    ):
        run = ma.Optimizer(problem.pool, policy)
        assert run.ask(2).why == ("random start",) * 2
        run.tell(arms=[1, 2], rewards=[0.0, 1.0])
        assert run.ask(3).why == (word,) * 3
    filled_up = ma.Optimizer(problem.pool, seed=1)
    filled_up.ask(12)  # without results, the rest of the design of 20 comes first
    assert filled_up.ask(10).why == ("initial design",) * 8 + ("random start",) * 2
    greedy = ma.Optimizer(problem.pool, ma.EpsGreedy(**problem.settings(explore=0.5)))
    greedy.tell(arms=[1, 2], rewards=[0.0, 1.0])
    assert {*greedy.ask(30).why} == {"exploration", "highest mean"}


def test_arms_that_only_fill_the_size_asked_for_are_called_requested() -> None:
    """With repeats="fresh" and fewer untried arms than asked for, all untried arms are in the batch."""
    problem = Problem(7, n_arms=40)
    opt = ma.Optimizer(problem.pool, ma.BBKB(**problem.settings()), repeats="fresh")
    opt.tell(arms=np.arange(37), rewards=problem.truth[:37])
    batch = opt.ask(5)
    assert sorted(batch.arms[:3].tolist()) == [37, 38, 39]
    assert batch.why == ("requested",) * 3 + ("upper bound",) * 2


def test_an_unknown_way_of_repeating_lists_those_there_are() -> None:
    with pytest.raises(ma.errors.InvalidParameterError, match="'allow', 'forbid', 'fresh'"):
        ma.Optimizer(Problem(2).pool, repeats="x")

"""A call that fails, or is interrupted, leaves the posterior as it was, and work goes on from there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import manyarms as ma
import manyarms.posterior
from manyarms import errors
from tests.oracle import Ledger, assert_agrees, sparse

N_ARMS, RIDGE = 500, 0.4
SMALL_MEMORY = 2**16  # a pass over the pool takes several blocks
_ROOM = str(Path(manyarms.posterior.__file__).parent)


class Troubled(ma.RBF):
    """An RBF kernel that can be told at which of the coming calls, and how, to go wrong."""

    def __init__(self) -> None:
        super().__init__(1.0)
        self.plan(None, None)

    __setattr__ = object.__setattr__

    def plan(self, call: int | None, trouble: Callable[[np.ndarray], np.ndarray] | None) -> None:
        self.calls, self.bad_call, self.trouble = 0, call, trouble

    def matrix(self, X: Any, Y: Any) -> np.ndarray:
        self.calls += 1
        K = super().matrix(X, Y)
        return self.trouble(K) if self.calls == self.bad_call else K


def nan_midway(K: np.ndarray) -> np.ndarray:
    K[len(K) // 2 :, -1] = np.nan
    return K


def wrong_shape(K: np.ndarray) -> np.ndarray:
    return K[:, :-1]


def interrupted(K: np.ndarray) -> np.ndarray:
    raise KeyboardInterrupt


TROUBLES = {
    nan_midway: errors.InvalidKernelError,
    wrong_shape: errors.InvalidKernelError,
    interrupted: KeyboardInterrupt,
}


class Work:
    """A posterior with some history on a pool that needs several blocks."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(3)
        self.kernel = Troubled()
        self.features = self.rng.normal(size=(N_ARMS + 300, 3))
        self.posterior = ma.Posterior(
            ma.Pool(self.features[:N_ARMS], max_memory=SMALL_MEMORY), self.kernel, RIDGE
        )
        self.ledger = Ledger(N_ARMS)
        self.go_on()

    def update(self) -> None:
        arms = self.rng.integers(N_ARMS, size=6)
        self.posterior.update(self.rng.integers(N_ARMS, size=4), arms, np.ones(6))

    def condition(self) -> None:
        self.posterior.condition(self.rng.integers(N_ARMS, size=6), np.ones(6))

    def rebuild(self) -> None:
        arms = self.rng.integers(N_ARMS, size=6)
        self.posterior.rebuild(self.rng.integers(N_ARMS, size=9), arms, np.ones(6))

    def extend(self) -> None:
        self.posterior.extend(self.posterior.pool.extended(self.features[N_ARMS:]))

    def go_on(self) -> None:
        """More work, and agreement with the oracle."""
        self.kernel.plan(None, None)
        arms, rewards = self.rng.integers(N_ARMS, size=12), self.rng.normal(size=12)
        self.posterior.update(arms[:6], arms, rewards)
        self.ledger.pull(arms, rewards)
        known = self.features[:N_ARMS]
        expected = sparse(self.kernel, known, RIDGE, self.posterior.inducing, self.ledger)
        assert_agrees(self.posterior, expected)

    def fingerprint(self) -> dict[str, Any]:
        """Copies of all that can be read from the posterior, bit by bit."""
        posterior, state = self.posterior, self.posterior.state
        kept = {name: np.array(value) for name, value in posterior.process.to_plain(state).items()}
        mean, variance = posterior.at(self.features[-20:])
        return kept | {
            "n_arms": np.array(posterior.pool.n_arms),
            "prior": state.prior.copy(),
            "posterior mean": posterior.mean.copy(),
            "leverage": posterior.leverage.copy(),
            "mean elsewhere": mean,
            "variance elsewhere": variance,
            "places": state.places(np.arange(N_ARMS)),
        }


def assert_same(before: dict[str, Any], after: dict[str, Any]) -> None:
    for name, value in before.items():
        assert np.array_equal(value, after[name]), f"{name} changed"


def calls_made(action: str) -> int:
    work = Work()
    work.kernel.plan(None, None)
    getattr(work, action)()
    return work.kernel.calls


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("action", ["update", "rebuild", "extend"])
def test_trouble_in_any_kernel_call_leaves_the_posterior_as_it_was(
    action: str, trouble: Callable[[np.ndarray], np.ndarray]
) -> None:
    calls = calls_made(action)
    assert calls >= 2, "the pass was meant to take several blocks"
    for call in range(1, calls + 1):
        work = Work()
        before = work.fingerprint()
        work.kernel.plan(call, trouble)
        with pytest.raises(TROUBLES[trouble]):
            getattr(work, action)()
        work.kernel.plan(None, None)
        assert_same(before, work.fingerprint())
        work.go_on()


def test_an_interrupt_between_kernel_calls_of_two_updates_does_not_mix_them() -> None:
    """A failed update of new arms, then another of different arms: nothing of the first remains."""
    work = Work()
    work.kernel.plan(2, interrupted)
    with pytest.raises(KeyboardInterrupt):
        work.posterior.update([1, 2, 3], [100, 101, 102], [9.0, 9.0, 9.0])
    for _ in range(3):
        work.go_on()
    work.posterior.condition([101, 102], [1.0, 2.0])
    work.ledger.pull([101, 102], [1.0, 2.0])
    work.go_on()


class InterruptAt:
    """Ctrl-C at the n-th line executed in the package `manyarms.posterior`."""

    def __init__(self, line: int) -> None:
        self.left = line

    def __enter__(self) -> InterruptAt:
        self._before = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: Any) -> None:
        sys.settrace(self._before)

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_name == "release":  # of versions that are not used any more: called by finalizers,
            return None  # in which Python reports an interrupt and goes on
        return self._line if frame.f_code.co_filename.startswith(_ROOM) else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        self.left -= event == "line"
        if not self.left:
            self.left = -1
            raise KeyboardInterrupt
        return self._line


@pytest.mark.parametrize(
    "action", [pytest.param("update", marks=pytest.mark.slow), "condition", "rebuild", "extend"]
)
def test_an_interrupt_at_any_line_is_all_or_nothing(action: str) -> None:
    """After Ctrl-C the posterior is as it was, or, when it came at the very end, as the call leaves it."""
    done = Work()
    getattr(done, action)()
    complete, before = done.fingerprint(), Work().fingerprint()
    for line in range(1, 1000):
        work, interrupted_here = Work(), False
        with InterruptAt(line):
            try:
                getattr(work, action)()
            except KeyboardInterrupt:
                interrupted_here = True
        if not interrupted_here:
            break
        after = work.fingerprint()
        unchanged = np.array_equal(after["mean"], before["mean"])
        assert_same(before if unchanged else complete, after)
        if unchanged and line % 5 == 0:
            work.go_on()
    assert line > 20


BAD_INPUT = {
    "NaN reward": (errors.InvalidRewardError, lambda p: p.update([1], [2, 3], [0.5, np.nan])),
    "infinite reward": (errors.InvalidRewardError, lambda p: p.condition([2], [np.inf])),
    "reward missing": (errors.InvalidRewardError, lambda p: p.condition([2, 3], [0.5])),
    "unknown arm pulled": (errors.UnknownArmError, lambda p: p.update([1], [N_ARMS], [0.5])),
    "negative arm": (errors.UnknownArmError, lambda p: p.condition([-1], [0.5])),
    "unknown inducing arm": (errors.UnknownArmError, lambda p: p.update([1, N_ARMS], [1], [0.5])),
    "rebuild on an unknown arm": (errors.UnknownArmError, lambda p: p.rebuild([N_ARMS])),
    "rebuild with a NaN reward": (errors.InvalidRewardError, lambda p: p.rebuild([1], [1], [np.nan])),
    "refit with NaN": (errors.InvalidRewardError, lambda p: p.refit(p.state.arms[:1], [np.nan])),
    "refit of an arm never pulled": (
        errors.InvalidParameterError,
        lambda p: p.refit([*p.state.arms[:2], np.setdiff1d(np.arange(N_ARMS), p.state.arms)[0]], [1, 2, 3]),
    ),
    "a shorter pool": (
        errors.InvalidParameterError,
        lambda p: p.extend(ma.Pool(p.pool.features[:10])),
    ),
}


@pytest.mark.parametrize("name", BAD_INPUT)
def test_bad_input_leaves_the_posterior_as_it_was(name: str) -> None:
    error, action = BAD_INPUT[name]
    work = Work()
    before = work.fingerprint()
    with pytest.raises(error):
        action(work.posterior)
    assert_same(before, work.fingerprint())
    work.go_on()


class NegativeBeyond(ma.RBF):
    """diag turns negative where the first feature exceeds 50."""

    def diag(self, X: Any) -> np.ndarray:
        return np.where(np.asarray(X)[:, 0] > 50, -1.0, 1.0)


def test_a_negative_diag_is_refused_when_made_and_when_extended() -> None:
    features = np.random.default_rng(0).normal(size=(30, 2))
    with pytest.raises(errors.InvalidKernelError, match=r"-1\.0"):
        ma.Posterior(ma.Pool(np.array([[0.0, 0.0], [99.0, 0.0]])), NegativeBeyond(), RIDGE)
    posterior = ma.Posterior(ma.Pool(features), NegativeBeyond(), RIDGE)
    posterior.update([1, 2], [3, 3], [1.0, 2.0])
    state, pool = posterior.state, posterior.pool
    with pytest.raises(errors.InvalidKernelError, match=r"-1\.0"):
        posterior.extend(pool.extended([[99.0, 0.0]]))
    assert posterior.state is state
    assert posterior.pool is pool


def test_looking_ahead_changes_nothing() -> None:
    """`updated` and `rebuilt` compute a state without going there."""
    work = Work()
    before = work.fingerprint()
    ahead = work.posterior.updated([1, 2], [5, 6], [1.0, 2.0])
    work.posterior.rebuilt([1, 2, 3], [7], [1.0])
    assert_same(before, work.fingerprint())
    work.posterior.state = ahead
    work.ledger.pull([5, 6], [1.0, 2.0])
    work.go_on()

"""The contextual bandit: rounds a second, and regret on handwritten digits as a bandit.

`digits` and `replay` use the 1 797 digits of scikit-learn: a round shows one image, the ten actions are the
ten digits, and the reward is 1 for the right one. `replay` is off-policy: the log has uniformly random
actions, and a round counts only if the policy chooses the logged action (Li et al. 2011). The linear
baselines are written out plainly here, with one ridge regression per action as usual; each is reported with
the best of three settings, the kernel policies with one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from scipy.linalg import lapack
from scipy.spatial.distance import cdist

import manyarms as ma
from benchmarks import Row, at_least, at_most

CANDIDATES, FEATURES, POINTS = 20, 3, 100


class Bandit(Protocol):
    """What both loops need: a choice, and a reward that may be missing."""

    def choose(self, x: np.ndarray) -> int: ...

    def reward(self, value: float | None) -> None: ...


# ---------------------------------------------------------------------- speed


def speed(smoke: bool) -> list[Row]:
    """Rounds per CPU second for 20 candidates and about 100 inducing points, rewards told at once."""
    warm, timed = (60, 40) if smoke else (3000, 3000)
    kernel, rng = ma.RBF(0.35), np.random.default_rng(1)
    centres, weights = rng.random((30, FEATURES)), rng.normal(size=30)
    rows = rng.random((warm + timed, CANDIDATES, FEATURES))
    truth = np.array([kernel.matrix(block, centres) @ weights for block in rows])
    noise = 0.1 * rng.normal(size=len(rows))
    policies = {
        "BKB": ma.BKB(kernel=kernel, width=2.0),
        "BBKB": ma.BBKB(kernel=kernel, width=2.0),
        "SGPTS": ma.SGPTS(kernel=kernel, width=1.0),
        "OFUL": ma.OFUL(kernel=ma.Linear(bias=1.0), width=1.0),
    }
    floor = _bare_seconds(rows[:timed], kernel.lengthscale)
    found = []
    for name, policy in policies.items():
        bandit = ma.ContextualBandit(policy, max_inducing=POINTS)
        for t in range(len(rows)):
            if t == warm:
                start = time.process_time()
            pick = bandit.ask(rows[t])
            bandit.tell(pick.ticket, truth[t, pick.index] + noise[t])
        seconds = time.process_time() - start
        note = f"{bandit.inducing_points} inducing points, {CANDIDATES} candidates"
        found.append(at_least(f"contextual {name}, rounds per CPU second", timed / seconds, 1000, note=note))
        if name == "BKB":
            ratio = seconds / (floor * timed)
            found.append(at_most("contextual BKB, CPU of a round against its bare algebra", ratio, 6, "×"))
    return found


def _bare_seconds(rounds: np.ndarray, lengthscale: Any) -> float:
    """CPU seconds of the kernel block, the triangular solve, the products and one update of V⁻¹ and V."""
    rng = np.random.default_rng(0)
    points = rng.random((POINTS, FEATURES))
    gram = np.exp(-0.5 * cdist(points / lengthscale, points / lengthscale, "sqeuclidean"))
    factor = np.asfortranarray(np.linalg.cholesky(gram + 1e-9 * np.eye(POINTS)))
    inverse, V = np.eye(POINTS), np.eye(POINTS)
    start = time.process_time()
    for rows in rounds:
        block = np.exp(-0.5 * cdist(points / lengthscale, rows / lengthscale, "sqeuclidean"))
        z = lapack.dtrtrs(factor, block, lower=1)[0].T
        solved = z @ inverse
        best = int(np.argmax(z[:, 0] + np.sqrt(np.einsum("ij,ij->i", z, solved))))
        g = solved[best]
        inverse = inverse - np.outer(g, g) / (1.0 + z[best] @ g)
        V = V + np.outer(z[best], z[best])
    return (time.process_time() - start) / len(rounds)


# ---------------------------------------------------------------------- digits


def digits(smoke: bool) -> list[Row]:
    """Mistakes in T rounds with bandit feedback, a mean over seeds."""
    T, seeds = (40, 1) if smoke else (3000, 5)
    return _compared("digits", smoke, seeds, lambda bandit, seed: _played(bandit, seed, T), T)


def replay(smoke: bool) -> list[Row]:
    """Mistakes per 1 000 counted rounds in the replay of a log, a mean over seeds."""
    events, seeds = (200, 1) if smoke else (15_000, 3)
    return _compared("replay", smoke, seeds, lambda bandit, seed: _replayed(bandit, seed, events), 1000)


def _compared(
    name: str, smoke: bool, seeds: int, run: Callable[[Bandit, int], tuple[float, float]], T: int
) -> list[Row]:
    rows, linear = [], np.inf
    for baseline, (make_linear, values) in _LINEAR.items():
        tried = [
            (_mean(run, lambda seed, make=make_linear, v=value: make(v, seed), seeds), value)
            for value in (values[:1] if smoke else values)
        ]
        (mistakes, error, _), value = min(tried)
        linear = min(linear, mistakes)
        rows.append(
            Row(
                f"{name}: {baseline}, mistakes in {T}",
                mistakes,
                note=f"± {error:.0f}, best of three: {value}",
            )
        )
    for policy, make in _KERNEL.items():
        mistakes, error, seconds = _mean(run, lambda seed, m=make: Kernelised(m(), seed), seeds)
        note = f"± {error:.0f}, {1e3 * seconds:.2f} ms a round"
        row = at_most(f"{name}: {policy}, mistakes in {T}", mistakes, float(np.ceil(linear)), note=note)
        rows.append(row)
    return rows


def _mean(
    run: Callable[[Bandit, int], tuple[float, float]], make: Callable[[int], Bandit], seeds: int
) -> tuple[float, float, float]:
    """Mean mistakes, their standard error, and CPU seconds a round."""
    found = np.array([run(make(seed), seed) for seed in range(seeds)])
    spread = found[:, 0].std(ddof=1) / np.sqrt(seeds) if seeds > 1 else 0.0
    return float(found[:, 0].mean()), float(spread), float(found[:, 1].mean())


def _images() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    return images / 16.0, labels


def _shuffled(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """n images in random order, each at most once more often than another."""
    images, labels = _images()
    rng = np.random.default_rng((seed, 11))
    order = np.concatenate([rng.permutation(len(labels)) for _ in range(n // len(labels) + 1)])[:n]
    return images[order], labels[order]


def _played(bandit: Bandit, seed: int, T: int) -> tuple[float, float]:
    images, labels = _shuffled(seed, T)
    mistakes, start = 0, time.process_time()
    for x, label in zip(images, labels, strict=True):
        right = bandit.choose(x) == label
        bandit.reward(float(right))
        mistakes += not right
    return float(mistakes), (time.process_time() - start) / T


def _replayed(bandit: Bandit, seed: int, events: int) -> tuple[float, float]:
    images, labels = _shuffled(seed, events)
    logged = np.random.default_rng((seed, 12)).integers(10, size=events)
    mistakes, counted, start = 0, 0, time.process_time()
    for x, label, action in zip(images, labels, logged, strict=True):
        if bandit.choose(x) != action:
            bandit.reward(None)
            continue
        bandit.reward(float(action == label))
        mistakes, counted = mistakes + (action != label), counted + 1
    return 1000.0 * mistakes / max(counted, 1), (time.process_time() - start) / events


class Kernelised:
    """A policy of this package: rows of an action and the image, with a product kernel."""

    actions = np.arange(10.0)[:, None]

    def __init__(self, policy: ma.Policy, seed: int) -> None:
        self.bandit = ma.ContextualBandit(policy, seed=seed, max_inducing=500)

    def choose(self, x: np.ndarray) -> int:
        self.pick = self.bandit.ask(self.actions, context=x)
        return self.pick.index

    def reward(self, value: float | None) -> None:
        if value is None:
            self.bandit.forget(self.pick)
        else:
            self.bandit.tell(self.pick, value)


def _settings(**more: Any) -> dict[str, Any]:
    kernel = ma.OnColumns(ma.Hamming(0.1), 0) * ma.OnColumns(ma.RBF(2.0), range(1, 65))
    return {"kernel": kernel, "noise_std": 0.3, **more}


_KERNEL: dict[str, Callable[[], ma.Policy]] = {
    "BKB": lambda: ma.BKB(**_settings(width=1.0)),
    "BBKB": lambda: ma.BBKB(**_settings(width=1.0)),
    "SGPTS": lambda: ma.SGPTS(**_settings(width=0.2)),
}


class Linear:
    """One ridge regression per action, updated by Sherman and Morrison."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng((seed, 13))
        self.inverse = np.stack([np.eye(65)] * 10)
        self.moment = np.zeros((10, 65))

    def choose(self, x: np.ndarray) -> int:
        self.x = np.append(x, 1.0)
        self.solved = self.inverse @ self.x
        self.mean = np.einsum("ad,ad->a", self.solved, self.moment)
        self.std = np.sqrt(self.solved @ self.x)
        self.action = int(np.argmax(self.scores() + 1e-9 * self.rng.random(10)))
        return self.action

    def scores(self) -> np.ndarray:
        raise NotImplementedError

    def reward(self, value: float | None) -> None:
        if value is not None:
            g, a = self.solved[self.action], self.action
            self.inverse[a] -= np.outer(g, g) / (1.0 + self.x @ g)
            self.moment[a] += value * self.x


class LinUCB(Linear):
    def __init__(self, width: float, seed: int) -> None:
        super().__init__(seed)
        self.width = width

    def scores(self) -> np.ndarray:
        return self.mean + self.width * self.std


class LinearThompson(LinUCB):
    def scores(self) -> np.ndarray:
        return self.mean + self.width * self.std * self.rng.normal(size=10)


class EpsilonGreedy(LinUCB):
    def scores(self) -> np.ndarray:
        return self.rng.random(10) if self.rng.random() < self.width else self.mean


_LINEAR: dict[str, tuple[Callable[[float, int], Bandit], tuple[float, ...]]] = {
    "LinUCB": (LinUCB, (0.1, 0.3, 1.0)),
    "linear Thompson": (LinearThompson, (0.1, 0.3, 1.0)),
    "linear ε-greedy": (EpsilonGreedy, (0.01, 0.03, 0.1)),
}

BENCHMARKS = [speed, digits, replay]

"""After 300 mixed operations mean and leverage equal a dense recomputation to 1e-8, for every kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process import kernels as sk

import manyarms as ma
from manyarms.kernels import as_kernel
from manyarms.posterior.hallucination import Hallucination
from tests.oracle import Dense, Ledger, assert_agrees, hallucinated, sparse

TOLERANCE = 1e-8
OPERATIONS = 300
FIRST_ARMS, ALL_ARMS = 40, 60


def _numbers(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(ALL_ARMS, 4))


def _bits(rng: np.random.Generator) -> np.ndarray:
    return np.packbits(rng.random((ALL_ARMS, 100)) < 0.3, axis=1)


def _codes(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, 4, size=(ALL_ARMS, 12))


def _strings(rng: np.random.Generator) -> np.ndarray:
    return np.array(["".join(letters) for letters in rng.choice(list("ACGT"), size=(ALL_ARMS, 12))])


KERNELS: dict[str, tuple[Any, Callable[[np.random.Generator], np.ndarray]]] = {
    "RBF": (ma.RBF(0.9), _numbers),
    "RBF per feature": (ma.RBF((0.7, 0.9, 1.1, 1.6)), _numbers),
    "Matern 1/2": (ma.Matern(1.0, nu=0.5), _numbers),
    "Matern 3/2": (ma.Matern(1.0, nu=1.5), _numbers),
    "Matern 5/2": (ma.Matern((0.8, 0.9, 1.0, 1.2), nu=2.5), _numbers),
    "Matern 1.2": (ma.Matern(1.0, nu=1.2), _numbers),
    "Linear": (ma.Linear(), _numbers),
    "Linear with bias": (ma.Linear(bias=0.7), _numbers),
    "Tanimoto": (ma.Tanimoto(), _bits),
    "Hamming on strings": (ma.Hamming(0.5), _strings),
    "Hamming on codes": (ma.Hamming(0.5), _codes),
    "Sum": (ma.Sum(ma.RBF(0.9), ma.Linear()), _numbers),
    "Product": (ma.Product(ma.RBF(1.5), ma.Matern(1.5)), _numbers),
    "Scale": (ma.Scale(ma.Matern(1.0), 7.0), _numbers),
    "scikit-learn": (as_kernel(2.0 * sk.RationalQuadratic(1.0, 1.5) + sk.DotProduct(0.5)), _numbers),
}


@dataclass
class Session:
    """A posterior and a ledger that are told the same things."""

    kernel: Any
    features: np.ndarray
    rng: np.random.Generator
    ridge: float = 0.3
    posterior: ma.Posterior = field(init=False)
    ledger: Ledger = field(init=False)

    def __post_init__(self) -> None:
        known = self.features[:FIRST_ARMS]
        self.posterior = ma.Posterior(ma.Pool(known), self.kernel, self.ridge)
        self.ledger = Ledger(FIRST_ARMS)

    def expected(self, ledger: Ledger | None = None) -> Dense:
        known, inducing = self.features[: self.posterior.pool.n_arms], self.posterior.inducing
        return sparse(self.kernel, known, self.ridge, inducing, ledger or self.ledger)

    def arms(self, most: int, *, repeats: bool = True) -> np.ndarray:
        size = int(self.rng.integers(1, most + 1))
        return self.rng.choice(self.posterior.pool.n_arms, size=size, replace=repeats)

    def pull(self) -> None:
        self._pull(self.arms(1))

    def pull_batch(self) -> None:
        arms = self.arms(8)
        self._pull(np.concatenate([arms, arms[:3]]))

    def append_one(self) -> None:
        self._append(self.arms(1))

    def append_block(self) -> None:
        self._append(self.arms(6))

    def append_and_pull(self) -> None:
        wanted, arms = self.arms(2), self.arms(3)
        rewards = self.rng.normal(size=len(arms))
        self.posterior.update(wanted, arms, rewards)
        self.ledger.pull(arms, rewards)
        self._spanned(wanted)

    def rebuild(self) -> None:
        wanted = self.arms(15, repeats=False)
        self.posterior.rebuild(wanted)
        self._spanned(wanted)

    def rebuild_and_pull(self) -> None:
        wanted, arms = self.arms(15), self.arms(3)
        rewards = self.rng.normal(size=len(arms))
        self.posterior.rebuild(wanted, arms, rewards)
        self.ledger.pull(arms, rewards)
        self._spanned(wanted)

    def refit(self) -> None:
        if len(self.ledger.pulled):
            arms = self.rng.permutation(self.ledger.pulled)[:4]
            self.ledger.sums[arms] = self.rng.normal(size=len(arms))
            self.posterior.refit(arms, self.ledger.sums[arms])

    def hallucinate(self) -> None:
        """Imagined pulls shrink the variance as real ones would, leave the mean, and can be undone."""
        imagined, arms = Hallucination(self.posterior), self.arms(6)
        imagined.watch(watched := self.arms(5, repeats=False))
        for arm in arms.tolist():
            imagined.pull(arm)
        left_out = int(self.rng.integers(1, len(arms) + 1))
        self._imagined_agree(imagined, arms, watched)
        imagined.undo(left_out)
        self._imagined_agree(imagined, arms[: len(arms) - left_out], watched)

    def extend(self) -> None:
        known = min(self.posterior.pool.n_arms + 4, len(self.features))
        if known > self.posterior.pool.n_arms:
            more = self.features[self.posterior.pool.n_arms : known]
            self.posterior.extend(self.posterior.pool.extended(more))
            self.ledger.extend(len(more))

    def check(self) -> None:
        expected = self.expected()
        assert_agrees(self.posterior, expected, tolerance=TOLERANCE)
        assert self.posterior.state.log_det == pytest.approx(expected.log_det, rel=TOLERANCE, abs=TOLERANCE)
        assert self.posterior.state.pulls == self.ledger.counts.sum()

    def _pull(self, arms: np.ndarray) -> None:
        rewards = self.rng.normal(size=len(arms))
        self.posterior.condition(arms, rewards)
        self.ledger.pull(arms, rewards)

    def _append(self, arms: np.ndarray) -> None:
        before = self.posterior.inducing
        self.posterior.append(arms)
        assert np.array_equal(self.posterior.inducing[: len(before)], before)
        self._spanned(arms)

    def _spanned(self, arms: np.ndarray) -> None:
        """An arm asked for is in the span, whether it was taken in or skipped."""
        residual = self.expected().residual[arms]
        assert (residual <= TOLERANCE * self.posterior.state.prior[arms]).all()

    def _imagined_agree(self, imagined: Hallucination, arms: np.ndarray, watched: np.ndarray) -> None:
        posterior = self.posterior
        known = self.features[: posterior.pool.n_arms]
        expected = hallucinated(self.kernel, known, self.ridge, posterior.inducing, self.ledger, arms)
        assert imagined.pulls == arms.tolist()
        for found, at in ((imagined.leverage(), slice(None)), (imagined.watched_leverage, watched)):
            assert np.abs(found / expected[at] - 1.0).max() < TOLERANCE


COMMON = (Session.pull, Session.pull_batch, Session.append_one, Session.append_and_pull, Session.hallucinate)
RARE = (Session.append_block, Session.rebuild, Session.rebuild_and_pull, Session.refit, Session.extend)


def run(session: Session, operations: int) -> None:
    """Random operations, compared with the oracle now and then and at the end."""
    for number in range(operations):
        kinds = RARE if session.rng.random() < 0.15 else COMMON
        kinds[session.rng.integers(len(kinds))](session)
        if number % 50 == 49:
            session.check()
    session.check()


@pytest.mark.parametrize("seed", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in range(1, 12))])
@pytest.mark.parametrize("name", KERNELS)
def test_mixed_operations_agree_with_the_oracle(name: str, seed: int) -> None:
    kernel, features = KERNELS[name]
    rng = np.random.default_rng([seed, len(name)])
    session = Session(kernel, features(rng), rng)
    run(session, OPERATIONS)
    assert session.posterior.pool.n_arms > FIRST_ARMS
    assert session.ledger.counts.max() > 5

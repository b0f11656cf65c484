"""Effects of numbers that differ by category: the kernel, and when the evidence chooses it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import manyarms as ma
from benchmarks.effects import peaks_by_method, shared_and_own
from manyarms.engines import base
from manyarms.kernels import KernelLike, Matern, Scale
from manyarms.kernels.readings import Reading
from manyarms.learning import LearnedModel, learn, model_selection, prepare
from manyarms.learning.by_category import MOST_LEVELS, MOST_NUMBERS, ByCategory, by_category
from manyarms.learning.kernel_families import StationaryFamily
from manyarms.learning.mixed_family import MixedFamily, Way
from manyarms.posterior.history import History
from manyarms.testing import KernelContract

N = 500
NUMBERS = tuple(Way((Reading("number", (j,)),)) for j in (0, 1))
FAMILY = ByCategory(
    StationaryFamily((1.0,) * 5, (0, 1, 2, 2, 2), 2.5),
    MixedFamily(NUMBERS, separate=True),
    (2, 3, 4),
    "column 'solvent'",
)
THETA = np.log([0.7, 2.0, 1.5, 0.4, 3.0, 0.5])  # shared lengths, own lengths, odds


def rows(rng: np.random.Generator, n: int) -> np.ndarray:
    """Two numbers and a category of three as indicators; some rows have a category that is not known."""
    known = np.vstack([np.eye(3), np.zeros(3)])
    return np.hstack([rng.normal(size=(n, 2)), known[rng.integers(4, size=n)]])


class TestTheKernel(KernelContract):
    def kernel(self) -> KernelLike:
        return FAMILY.kernel(THETA)

    def features(self, rng: np.random.Generator, n: int) -> Any:
        return rows(rng, n)


def test_the_kernel_is_the_formula() -> None:
    """2/3 of the variance is shared and 1/3 is each category's own, here with odds of one half."""
    X = rows(np.random.default_rng(0), 30)
    shared = Matern((0.7, 2.0, 1.5, 1.5, 1.5), 2.5).matrix(X, X)
    own = Matern((0.4, 3.0), 2.5).matrix(X[:, :2], X[:, :2])
    plain = np.array([[(a[2:] == b[2:]).all() for b in X] for a in X])
    expected = 2 / 3 * shared + 1 / 3 * np.where(plain, own, 0.0)
    np.testing.assert_allclose(FAMILY.covariance_on(X)(THETA).matrix, expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(FAMILY.kernel(THETA).matrix(X, X), expected, rtol=1e-12, atol=1e-14)


def test_contractions_are_those_of_the_derivatives() -> None:
    rng = np.random.default_rng(1)
    X, G = rows(rng, 15), rng.normal(size=(15, 15))
    G += G.T
    at = FAMILY.covariance_on(X)
    found = at(THETA).contract(G.copy())
    steps = 1e-5 * np.eye(len(THETA))
    expected = [np.vdot(G, at(THETA + s).matrix - at(THETA - s).matrix) / 2e-5 for s in steps]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


def drawn(seed: int, kind: str) -> tuple[pd.DataFrame, np.ndarray]:
    """A function of three numbers for four solvents.

    Every solvent has a function of its own beside the common one ("own"), or a constant of its own
    ("constant"), or the function is one of numbers and indicators together ("joint").
    """
    rng = np.random.default_rng(seed)
    x, solvent = rng.random((N, 3)), rng.integers(4, size=N)
    X, same = np.hstack([x, np.eye(4)[solvent]]), np.equal.outer(solvent, solvent)
    if kind == "joint":
        K = Matern((0.5, 0.5, 5.0, *(2.0,) * 4), 2.5).matrix(X, X)
    else:
        own = Matern((5.0, 5.0, 0.4), 2.5).matrix(x, x) if kind == "own" else 0.5
        K = Matern((0.5, 0.5, 5.0), 2.5).matrix(x, x) + own * same
    frame = pd.DataFrame(x, columns=["dose", "heat", "time"])
    frame["solvent"] = pd.Categorical(np.array(["acetone", "dioxane", "toluene", "water"])[solvent])
    return frame, np.linalg.cholesky(K + 1e-9 * np.eye(N)) @ rng.normal(size=N)


def learned(features: Any, truth: np.ndarray, seed: int, n: int = 120) -> LearnedModel:
    rng, pool = np.random.default_rng(seed), ma.Pool(features)
    history, arms = History(pool.n_arms), rng.permutation(pool.n_arms)[:n]
    history.add(arms, truth[arms] + 0.1 * rng.normal(size=n))
    return learn(prepare(pool), history, rng)


OWN = "own effects by column 'solvent'"


def test_the_evidence_sees_that_effects_differ() -> None:
    for kind in ("own", "constant", "joint"):
        assert (OWN in learned(*drawn(0, kind), 0).family) == (kind != "joint")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["own", "constant", "joint"])
def test_the_evidence_is_right_most_of_the_time(kind: str) -> None:
    """Of 20 draws of each kind: own effects are found in 16 or more, and invented in 2 or fewer."""
    found = [OWN in learned(*drawn(seed, kind), seed).family for seed in range(20)]
    assert sum(found) <= 2 if kind == "joint" else sum(found) >= 16, found


@pytest.mark.slow
def test_predictions_are_better_where_effects_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """From 100 results the error is at most 0.7 times that without the part of each category's own."""
    features, measured = shared_and_own()
    truth, errors = measured.mean(axis=1), []
    for found in (by_category, lambda *_: []):
        monkeypatch.setattr(model_selection, "by_category", found)
        for seed in range(3):
            rng, run = np.random.default_rng(seed), ma.Optimizer(ma.Pool(features), seed=seed)
            arms = rng.permutation(len(truth))[:100]
            run.tell(arms=arms, rewards=measured[arms, 0])
            mean, _ = run.predict()
            errors.append(np.sqrt(np.mean((mean - truth) ** 2)))
    assert np.mean(errors[:3]) <= 0.7 * np.mean(errors[3:]), errors


def test_what_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than 20 levels, more than 12 numbers, and tables of categories or of numbers alone."""
    tried: list[ByCategory] = []
    original = ByCategory.covariance_on
    monkeypatch.setattr(
        ByCategory, "covariance_on", lambda self, X: (tried.append(self), original(self, X))[1]
    )
    rng = np.random.default_rng(3)
    x, y = rng.random((200, MOST_NUMBERS + 1)), rng.normal(size=200)
    few, many = (pd.Categorical(rng.integers(n, size=200).astype(str)) for n in (3, MOST_LEVELS + 5))
    numbers = pd.DataFrame(x, columns=list("abcdefghijklm"))
    both = pd.DataFrame({"few": few, "many": many})
    for table in (numbers[["a"]].assign(many=many), numbers.assign(few=few), both, numbers[["a", "b"]]):
        learned(table, y, 0, n=60)
    assert not tried
    learned(numbers[["a", "b"]].assign(few=few), y, 0, n=60)
    assert tried


def test_integers_read_as_names_may_have_effects_of_their_own() -> None:
    features, truth = drawn(1, "own")
    codes = features.assign(solvent=features["solvent"].cat.codes.map({0: 4, 1: 1, 2: 7, 3: 2}))
    family = learned(codes, truth, 1, n=200).family
    assert "column 'solvent' as names" in family
    assert OWN in family


def told() -> ma.Optimizer:
    features, truth = drawn(0, "own")
    run = ma.Optimizer(ma.Pool(features), seed=0)
    run.tell(arms=np.arange(120), rewards=truth[:120] + 0.1 * np.random.default_rng(0).normal(size=120))
    return run


def test_a_run_is_saved_and_continued(tmp_path: Path) -> None:
    run = told()
    batch = run.ask(3)
    assert run.model is not None
    assert OWN in run.model.family
    run.save(tmp_path / "run.npz")
    again = ma.Optimizer.load(tmp_path / "run.npz", run.pool)
    assert again.model is not None
    assert again.model.kernel == run.model.kernel
    for each in (run, again):
        each.tell(batch, [0.0, 0.1, 0.2])
    np.testing.assert_array_equal(run.ask(3).arms, again.ask(3).arms)


def test_of_a_category_added_later_only_the_shared_part_is_known() -> None:
    run = told()
    run.ask(1)
    like = list(run.pool.features[0])
    run.add_arms(np.array([like, [*like[:3], "ether"]], dtype=object))
    _, std = run.predict([N, N + 1])
    assert std[1] > 2 * std[0]


def test_shards_and_storage_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "BLOCK", 64)
    monkeypatch.setattr("manyarms.pool.pool._MAX_BLOCK_ROWS", 64)
    monkeypatch.setattr("manyarms.posterior.shard._REBUILD_ROWS", 64)
    features, truth = drawn(0, "own")
    chosen = []
    for engine in (ma.engines.Local(shards=1), ma.engines.Local(shards=5, storage="recompute")):
        run = ma.Optimizer(ma.Pool(features), seed=0, engine=engine)
        run.tell(arms=np.arange(120), rewards=truth[:120])
        chosen.append(run.ask(8).arms)
        assert run.model is not None
        assert isinstance(run.model.kernel, Scale)
        assert OWN in run.model.family
    np.testing.assert_array_equal(*chosen)


def test_generated_tables_are_what_they_say() -> None:
    for draw, columns in ((shared_and_own, 5), (peaks_by_method, 7)):
        features, values = draw()
        assert features.shape == (len(values), columns)
        assert np.isfinite(values).all()

"""Explanations against plain loops: predictions, neighbours by the kernel, and what columns contribute."""

from __future__ import annotations

import numpy as np
import pytest

import manyarms as ma
from manyarms.errors import InvalidParameterError, UnknownArmError
from manyarms.run.column_effects import AVERAGED


def table(n: int = 120):
    """A data frame with two numbers and a category, and rewards that depend on all but one of the numbers."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "heat": rng.uniform(20, 80, n),
            "noise": rng.uniform(0, 1, n),
            "solvent": pd.Categorical(rng.choice(["water", "dmso", "thf"], n)),
        }
    )
    rewards = -(((frame["heat"] - 50) / 20) ** 2) + 2.0 * (frame["solvent"] == "dmso").astype(float)
    return frame, rewards.to_numpy()


def told(frame, rewards, sign: float = 1.0, n: int = 60) -> ma.Optimizer:
    opt = ma.Optimizer(ma.Pool(frame), seed=0, minimize=sign < 0)
    opt.tell(arms=np.arange(n), rewards=sign * rewards[:n])
    return opt


def test_figures_are_those_of_the_run():
    frame, rewards = table()
    opt = told(frame, rewards)
    batch = opt.ask(5)
    opt.tell(batch.tickets[:2], rewards[batch.arms[:2]])
    for found, arm, why in zip(opt.explain(batch.arms), batch.arms.tolist(), batch.why, strict=True):
        mean, std = opt.predict([arm])
        lower, upper = opt.interval([arm])
        assert (found.arm, found.id, found.why) == (arm, arm, why)
        assert (found.mean, found.std) == pytest.approx((mean[0], std[0]), rel=1e-9)
        assert (found.lower, found.upper) == pytest.approx((lower[0], upper[0]), rel=1e-9)
        is_told = arm in batch.arms[:2].tolist()
        assert found.pulls == int(is_told)
        assert found.average == pytest.approx(rewards[arm]) if is_told else found.average is None
        assert found.best == opt.best().id
    assert opt.explain([100])[0].why is None


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_columns_contribute_what_the_prediction_loses_without_them(sign):
    """Each column is replaced, one candidate and one value at a time, and the model is asked again."""
    frame, rewards = table()
    opt = told(frame, rewards, sign)
    arm, best = 90, opt.best().arm
    (found,) = opt.explain([arm])

    def predicted(row: np.ndarray) -> float:
        value, _ = opt._looked_ahead().belief.posterior.at(opt.context.prepared.encode(row[None]))
        return float(opt._scale(opt.model).rewards(value)[0])

    rows = opt.pool.features
    others = np.sort(np.random.default_rng(0).choice(len(rows), AVERAGED, replace=False))
    assert predicted(rows[arm]) == pytest.approx(opt.predict([arm])[0][0], rel=1e-6)
    by_name = {each.column: each for each in found.columns}
    for j, name in enumerate(opt.pool.names):
        changed = []
        for other in [*others, best]:
            row = rows[arm].copy()
            row[j] = rows[other][j]
            changed.append(predicted(rows[arm]) - predicted(row))
        against = float(np.mean(changed[:-1])), changed[-1]
        if name not in by_name:
            assert against == pytest.approx((0.0, 0.0), abs=1e-9)
            continue
        each = by_name[name]
        assert (each.against_pool, each.against_best) == pytest.approx(against, rel=1e-6, abs=1e-9)
        assert each.value == rows[arm][j]
        assert each.best_value == rows[best][j]
    assert "noise" not in by_name or abs(by_name["noise"].against_pool) < 0.1 * abs(
        by_name["heat"].against_pool
    )
    shown = [sign * each.against_pool for each in found.columns]
    assert shown == sorted(shown, reverse=True), "the columns that speak for the arm come first"


def test_a_linear_model_splits_exactly():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    opt = ma.Optimizer(ma.Pool(X), ma.GPUCB(kernel=ma.Linear(1.0), noise_std=0.1, width=1.0), seed=0)
    opt.tell(arms=np.arange(20), rewards=X[:20] @ [1.0, -2.0, 0.0])
    (found,) = opt.explain([30])
    weights = np.linalg.lstsq(X, opt.predict()[0], rcond=None)[0]
    effects = {each.column: each.against_best for each in found.columns}
    best = X[opt.best().arm]
    for j in range(3):
        assert effects[f"column {j}"] == pytest.approx(weights[j] * (X[30, j] - best[j]), abs=1e-4)
    assert sum(effects.values()) == pytest.approx(found.mean - opt.best().mean, abs=1e-4)


def correlations(kernel, features, arm: int) -> np.ndarray:
    own = np.sqrt(kernel.diag(features))
    return kernel.matrix(features[arm : arm + 1], features)[0] / own / own[arm]


FINGERPRINTS = np.random.default_rng(1).integers(0, 2, (40, 64)).astype(np.uint8)
LETTERS = np.array([list("ACGT"[i % 4] + "ACGT"[i // 4 % 4] + "ACGT"[i // 16 % 4]) for i in range(40)])


@pytest.mark.parametrize(
    ("kernel", "features", "has_columns"),
    [
        (ma.Matern(0.4, 1.5), np.random.default_rng(2).random((40, 2)), True),
        (ma.Tanimoto(), np.packbits(FINGERPRINTS, axis=1), False),
        (ma.Hamming(1.0), LETTERS, True),
    ],
    ids=["numbers", "molecules", "letters"],
)
def test_neighbours_are_the_measured_arms_with_the_highest_correlation(kernel, features, has_columns):
    opt = ma.Optimizer(ma.Pool(features), ma.GPUCB(kernel=kernel, noise_std=0.1, width=1.0), seed=0)
    measured = np.arange(0, 40, 2)
    opt.tell(arms=[*measured, 4], rewards=[*np.sin(measured), 3.0])
    for found in opt.explain([7, 4], neighbours=5):
        expected = correlations(kernel, opt.pool.features, found.arm)
        others = sorted((each for each in measured if each != found.arm), key=lambda arm: -expected[arm])
        shown = [each.correlation for each in found.neighbours]
        assert shown == pytest.approx(sorted(expected[others], reverse=True)[:5])
        for each in found.neighbours:
            assert each.correlation == pytest.approx(expected[each.arm])
            assert each.pulls == 1 + (each.arm == 4)
            average = (np.sin(4) + 3.0) / 2 if each.arm == 4 else np.sin(each.arm)
            assert each.average == pytest.approx(average)
        assert bool(found.columns) == has_columns
    assert opt.explain([7], neighbours=0)[0].neighbours == ()


class Words:
    """Words are as similar as their common beginning is long."""

    def matrix(self, X, Y):
        return np.array([[_common(x, y) / np.sqrt(len(x) * len(y)) for y in Y] for x in X])

    def diag(self, X):
        return np.ones(len(X))


def _common(x: str, y: str) -> int:
    same = [a == b for a, b in zip(x, y, strict=False)]
    return same.index(False) if False in same else len(same)


def test_words_have_neighbours_and_no_columns():
    words = ["tea", "team", "tear", "ten", "top", "cat", "car"]
    opt = ma.Optimizer(ma.Pool(words, ids=words), ma.GPUCB(kernel=Words(), noise_std=0.1, width=1.0), seed=0)
    opt.tell(arms=["team", "top", "cat"], rewards=[3.0, 1.0, 0.0])
    (found,) = opt.explain(["tear"], neighbours=2)
    assert [each.id for each in found.neighbours] == ["team", "top"]
    assert found.neighbours[0].correlation == pytest.approx(0.75)
    assert found.columns == ()


def test_without_results_there_is_a_prediction_alone():
    opt = ma.Optimizer(ma.Pool(np.random.default_rng(0).random((20, 2))), seed=0)
    (found,) = opt.explain([3])
    assert (found.best, found.neighbours, found.columns, found.pulls) == (None, (), (), 0)
    assert opt.explain([]) == []


def test_explaining_changes_nothing_and_refuses_what_it_does_not_know():
    frame, rewards = table()
    opt = told(frame, rewards)
    state = opt.state
    first = opt.explain([1, 70])
    assert opt.explain([1, 70]) == first
    assert opt.state is state
    for arms in ([200], [-1], ["no such id"]):
        with pytest.raises(UnknownArmError):
            opt.explain(arms)
    for wrong in (-1, 1.5, "three"):
        with pytest.raises(InvalidParameterError, match="neighbours"):
            opt.explain([1], neighbours=wrong)


@pytest.mark.parametrize(
    "policy", [ma.SGPTS, ma.BKB, ma.EpsGreedy, ma.SoRUCB], ids=lambda kind: kind.__name__
)
def test_every_kind_of_policy_can_be_explained(policy):
    X = np.random.default_rng(0).random((60, 2))
    opt = ma.Optimizer(ma.Pool(X), policy(kernel=ma.RBF(0.4), noise_std=0.1), seed=0)
    opt.tell(arms=np.arange(20), rewards=X[:20, 0])
    (found,) = opt.explain([40])
    assert found.neighbours
    assert found.columns[0].column == "column 0" or found.columns[-1].column == "column 0"
    assert opt.expected_gain(4).gain >= 0

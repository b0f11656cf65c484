"""Learning works on any results, and reports what it assumed."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from manyarms.kernels import Scale
from manyarms.learning import LearnedModel, learn, model_from, model_selection, prepare, should_refit
from manyarms.pool.pool import Pool
from manyarms.posterior.history import History
from tests.learning import oracle

FEATURES = np.random.default_rng(0).normal(size=(400, 3))
ORDERS = (slice(None), slice(None, None, -1))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(1)


def learned(
    features: object, arms: list[int] | np.ndarray, rewards: object, kind: str = "rank"
) -> LearnedModel:
    pool = Pool(features)
    history = History(pool.n_arms)
    history.add(arms, rewards)
    return learn(prepare(pool), history, np.random.default_rng(0), rewards=kind)


def usable(model: LearnedModel, features: np.ndarray) -> bool:
    """Whether a posterior could be built from it."""
    variances = model.kernel.diag(features)
    return bool(np.isfinite(variances).all() and model.noise_std > 0 and np.isfinite(model.mean))


OUTLIER = np.append(np.sin(FEATURES[:59, 0]), 1e15)
BAD = {
    "no result": (FEATURES, [], [], "no results yet"),
    "one result": (FEATURES, [3], [2.0], "assumed, not learned"),
    "constant rewards": (FEATURES, np.arange(50), np.full(50, 3.0), "all rewards are 3"),
    "two distinct arms": (
        FEATURES,
        [0, 1] * 20,
        np.random.default_rng(1).normal(size=40),
        "assumed, not learned",
    ),
    "one constant feature": (FEATURES * [1, 0, 1], np.arange(60), FEATURES[:60, 0], "left out"),
    "wild scales": (FEATURES * [1e-9, 1, 1e9], np.arange(60), FEATURES[:60, 0], "tried twice"),
    "one huge outlier": (FEATURES, np.arange(60), OUTLIER, "rank"),
    "equal arms": (np.ones((9, 2)), np.arange(9), np.random.default_rng(2).normal(size=9), "every arm"),
    "tiny rewards": (FEATURES, np.arange(60), 1e-200 * FEATURES[:60, 0], "tried twice"),
    "huge rewards": (FEATURES, np.arange(60), 1e149 * FEATURES[:60, 0], "tried twice"),
}


@pytest.mark.parametrize("name", BAD)
def test_learning_never_fails_and_reports_its_assumptions(name: str) -> None:
    features, arms, rewards, words = BAD[name]
    model = learned(features, arms, rewards)
    assert usable(model, features[:5])
    assert words in " ".join(model.assumptions), model.assumptions
    assert model_from(json.loads(json.dumps(model.describe()))).describe() == model.describe()


def test_wild_scales_are_the_same_model_as_plain_ones(rng: np.random.Generator) -> None:
    """The same pool in other units: the same covariances, the same noise."""
    units = np.array([1e-9, 1.0, 1e9])
    rewards = np.sin(FEATURES[:80, 0]) + 0.1 * rng.normal(size=80)
    plain, wild = (learned(X, np.arange(80), rewards) for X in (FEATURES, FEATURES * units))
    assert wild.noise_std == pytest.approx(plain.noise_std, rel=1e-3)
    np.testing.assert_allclose(
        wild.kernel.matrix(FEATURES[:9] * units, FEATURES[:9] * units),
        plain.kernel.matrix(FEATURES[:9], FEATURES[:9]),
        rtol=1e-3,
    )


def test_units_of_the_rewards_come_back() -> None:
    rewards = 1e6 + 1e3 * np.sin(FEATURES[:100, 0])
    model = learned(FEATURES, np.arange(100), rewards)
    history = History(400)
    history.add(np.arange(100), rewards)
    seen, X = model.targets(history, Pool(FEATURES)), FEATURES
    mean, variance = oracle.predict(model.kernel, X[seen.arms], seen.means, model.ridge, X[100:200])
    middle, low, high = model.in_user_units(mean, np.sqrt(variance), width=1.645)
    truth = 1e6 + 1e3 * np.sin(X[100:200, 0])
    assert np.corrcoef(middle, truth)[0, 1] > 0.95
    assert ((low <= truth) & (truth <= high)).mean() >= 0.8
    assert (low < middle).all()
    assert (middle < high).all()


def test_replicates_give_the_noise(rng: np.random.Generator) -> None:
    """Ten arms, forty pulls each: the noise is known, although ten arms say little about smoothness."""
    arms = np.repeat(np.arange(10), 40)
    rewards = FEATURES[arms, 0] + 0.5 * rng.normal(size=400)
    model = learned(FEATURES, arms, rewards, "standardise")
    noise = model.noise_std * float(np.diff(model.transform.inverse(np.array([0.0, 1.0])))[0])
    assert noise == pytest.approx(0.5, rel=0.15)
    assert not any("tried twice" in sentence for sentence in model.assumptions)


def test_a_plateau_of_capped_rewards_is_not_mistaken_for_certainty() -> None:
    local = np.random.default_rng(3)
    features = local.normal(size=(80, 3))
    rewards = features @ np.array([1.0, 0.5, -0.5]) + 0.3 * local.normal(size=80)
    capped = np.minimum(rewards, np.quantile(rewards, 0.4))
    free, held = (learned(features, np.arange(80), values) for values in (rewards, capped))
    assert held.noise_std > 0.4 > free.noise_std, "for six arms in ten only the cap is known"
    assert any("many results are equal" in sentence for sentence in held.assumptions)


def test_the_same_seed_learns_the_same(rng: np.random.Generator) -> None:
    rewards = rng.normal(size=60)
    first, again = (learned(FEATURES, np.arange(60), rewards) for _ in range(2))
    assert first == again


@pytest.mark.parametrize(
    ("known", "enough"), [(20, 40), (39, 78), (40, 50), (200, 250), (999, 1249), (1000, 2000)]
)
def test_refit_when_the_number_of_arms_has_doubled_or_some_have_grown_by_a_quarter(
    known: int, enough: int
) -> None:
    model = replace(learned(FEATURES, np.arange(20), FEATURES[:20, 0]), n_unique=known, n_pulls=known)
    history = History(2000)
    history.add(np.arange(enough - 1), np.zeros(enough - 1))
    assert not should_refit(model, history)
    history.add([enough - 1], [0.0])
    assert should_refit(model, history)


def test_refit_when_the_same_arms_were_pulled_as_often_again() -> None:
    """Replicates can show that the noise was misjudged, so they count too."""
    model = learned(FEATURES, np.arange(20), FEATURES[:20, 0])
    history = History(400)
    history.add(np.arange(20), FEATURES[:20, 0])
    history.add(np.zeros(19, dtype=int), np.full(19, FEATURES[0, 0]))
    assert not should_refit(model, history)
    history.add([0], [FEATURES[0, 0]])
    assert should_refit(model, history)
    again = learn(prepare(Pool(FEATURES)), history, np.random.default_rng(0))
    assert again.noise_std < 0.05


def test_nothing_is_refitted_before_there_is_anything_to_learn() -> None:
    model = learned(FEATURES, [], [])
    history = History(400)
    assert not should_refit(model, history)
    history.add([0], [1e9])
    assert should_refit(model, history), "even one result shows the scale"
    model = learned(FEATURES, [0], [1e9])
    assert not should_refit(model, history)
    history.add([1], [1.1e9])
    assert should_refit(model, history)


@pytest.mark.parametrize(("constant", "height"), [(0.0, 1e-3), (1000.0, 10.0), (-5.0, -0.1)])
def test_refit_when_equal_results_turn_out_to_differ(constant: float, height: float) -> None:
    """The scale of the rewards was not known before, whatever their units."""
    prepared, history = prepare(Pool(np.arange(50.0)[:, None])), History(50)
    history.add(np.arange(30), np.full(30, constant))
    model = learn(prepared, history, np.random.default_rng(0))
    assert not should_refit(model, history)
    history.add([40], [constant + height])
    assert should_refit(model, history)
    assert not should_refit(learn(prepared, history, np.random.default_rng(0)), history)


@pytest.mark.parametrize("outlier", [-1e3, 1e3, 1e12])
def test_refit_when_a_result_lies_far_outside_what_was_seen(outlier: float) -> None:
    """The transform extrapolates linearly: one such value would outweigh all other results."""
    arms, rewards = np.arange(20), FEATURES[:20, 0]
    model = learned(FEATURES, arms, rewards)
    history = History(400)
    history.add([*arms, 20], [*rewards, 2 * rewards.max()])
    assert not should_refit(model, history), "a new record is not enough"
    history.add([21], [outlier])
    assert should_refit(model, history)
    assert not should_refit(learn(prepare(Pool(FEATURES)), history, np.random.default_rng(0)), history)


def test_the_model_does_not_depend_on_the_order_of_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_selection, "COMPARISON_ARMS", 20)
    monkeypatch.setattr(model_selection, "MAX_ARMS", 30)
    rewards = np.sin(FEATURES[:50, 0])
    forwards, backwards = (learned(FEATURES, np.arange(50)[order], rewards[order]) for order in ORDERS)
    assert forwards == backwards


def test_more_arms_than_an_exact_fit_can_take(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model is fitted on a subset; the replicates of other arms still count for the noise."""
    monkeypatch.setattr(model_selection, "MAX_ARMS", 60)
    monkeypatch.setattr(model_selection, "COMPARISON_ARMS", 30)
    arms = np.concatenate([np.arange(300), np.arange(300)])
    rewards = np.sin(FEATURES[arms, 0]) + 0.2 * rng.normal(size=600)
    model = learned(FEATURES, arms, rewards, "standardise")
    assert model.n_unique == 300
    noise = model.noise_std * float(np.diff(model.transform.inverse(np.array([0.0, 1.0])))[0])
    assert noise == pytest.approx(0.2, rel=0.15)


@pytest.mark.parametrize("family", ["Tanimoto", "Hamming"])
def test_bits_and_codes(rng: np.random.Generator, family: str) -> None:
    codes = rng.integers(4, size=(200, 6)) if family == "Hamming" else rng.integers(256, size=(200, 16))
    features = np.eye(4)[codes].reshape(200, -1) if family == "Hamming" else codes.astype(np.uint8)
    rewards = (codes[:100] % 2).sum(axis=1).astype(float)
    model = learned(features, np.arange(100), rewards)
    assert model.family == family
    assert isinstance(model.kernel, Scale)
    assert usable(model, prepare(Pool(features)).pool.features[:4])

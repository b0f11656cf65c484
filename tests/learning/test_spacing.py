"""Length-scales of settings are not shorter than the distance between their values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

import manyarms as ma
from benchmarks import spacing as tables
from manyarms.learning import LearnedModel, learn, prepare
from manyarms.learning.kernel_families import StationaryFamily
from manyarms.learning.map_fit import SCALE_REACH, HyperPrior, fit
from manyarms.learning.marginal_likelihood import Observations
from manyarms.learning.numeric_columns import columns_of
from manyarms.learning.old_family import WithOldResults
from manyarms.learning.prepared_pool import Prepared
from manyarms.posterior.history import History

N = 400
CONTINUOUS = np.random.default_rng(0).random(N)
LEVELS = (3, 4, 5, 6, 7, 8)
GRID = np.array(list(itertools.product(*map(range, LEVELS))))


def cycled(values: Sequence[float]) -> np.ndarray:
    return np.resize(np.array(values), N)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (cycled(range(12)), 1.0),
        (cycled(range(8, 240, 8)), 8.0),
        (cycled([16, 32, 64, 128]), 1.0),  # numbers of the levels
        (cycled([0.25, 0.5, 0.75, 1.0]), 0.25),
        (cycled(range(50)), 1.0),
        (cycled(range(51)), 0.0),
        (cycled([0, 1]), 0.0),
        (cycled([1, 2]), 0.0),
        (cycled([3]), 0.0),
        (np.where(np.arange(N) < 20, 1e6, cycled(range(30))), 0.0),  # heavy-tailed
        (CONTINUOUS, 0.0),
    ],
)
def test_the_spacing_of_a_column(column: np.ndarray, expected: float) -> None:
    assert columns_of(ma.Pool(np.column_stack([column, CONTINUOUS])))[0].spacing == expected


def family_of(*columns: np.ndarray) -> tuple[Prepared, StationaryFamily]:
    prepared = prepare(ma.Pool(np.column_stack(columns)))
    family = prepared.families[0]
    assert isinstance(family, StationaryFamily)
    return prepared, family


def own(prepared: Prepared, family: StationaryFamily) -> StationaryFamily:
    split = prepared.per_feature(family)
    assert isinstance(split, StationaryFamily)
    return split


def test_a_column_of_settings_beside_continuous_ones_has_a_bound_of_its_own() -> None:
    settings = cycled(range(12))
    prepared, family = family_of(settings, CONTINUOUS, cycled([0, 1]))
    np.testing.assert_array_equal(family.shortest, [-math.inf])
    np.testing.assert_allclose(
        own(prepared, family).shortest, [-math.log(settings.std()), -math.inf, -math.inf]
    )


def test_a_shared_length_scale_is_bound_by_the_geometric_mean() -> None:
    first, second, flag = cycled(range(4)), np.repeat(np.arange(20), 20), cycled([0, 1])
    _, family = family_of(first, second, flag)
    np.testing.assert_allclose(family.shortest, [-0.5 * math.log(first.std() * second.std())])


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.normal(size=(N, 3)),
        lambda rng: rng.integers(0, 1000, size=(N, 3)),
        lambda rng: rng.integers(0, 2, size=(N, 5)),
        lambda rng: np.column_stack([np.eye(4)[rng.integers(4, size=N)], CONTINUOUS]),
        lambda rng: np.array(["a", "b", "c"])[rng.integers(3, size=(N, 4))],
    ],
    ids=["continuous", "many whole numbers", "zeros and ones", "one-hot", "words"],
)
def test_other_features_have_the_bounds_they_had(draw: Callable[[np.random.Generator], np.ndarray]) -> None:
    """So every fit is the same to the last bit."""
    prepared = prepare(ma.Pool(draw(np.random.default_rng(1))))
    for family in prepared.families:
        for each in (family, prepared.per_feature(family) or family):
            prior = HyperPrior.of(each)
            np.testing.assert_array_equal(prior.lower[:-2], prior.centre[:-2] - SCALE_REACH)


def test_no_bound_lies_above_the_length_scale_assumed_before_there_are_results() -> None:
    """In units of its spread, the spacing of a column that is nearly constant is large."""
    rare = np.where(np.arange(N) < 3, [1, 2] * (N // 2), 0)
    prepared, family = family_of(rare, cycled(range(5)))
    split = own(prepared, family)
    prior = HyperPrior.of(split, -2.0)
    assert split.shortest[0] > split.typical[0]
    assert (prior.lower[:-2] <= split.typical).all()
    assert (prior.lower < prior.upper).all()


def test_weights_of_old_results_have_no_bound() -> None:
    _, family = family_of(cycled(range(5)), np.repeat(np.arange(20), 20))
    both = WithOldResults(family, 2, (2, 3)).shortest
    np.testing.assert_array_equal(both, [family.shortest[0], -math.inf, -math.inf])


def white_noise(n: int, seed: int) -> LearnedModel:
    rng, history = np.random.default_rng(seed), History(len(GRID))
    history.add(rng.permutation(len(GRID))[:n], rng.normal(size=n))
    return learn(prepare(ma.Pool(GRID)), history, rng, rewards="standardise")


def test_a_length_scale_per_feature_is_fitted_within_its_bound() -> None:
    """White noise asks for short length-scales; without a bound they are a third of the spacing here."""
    prepared, family = family_of(*GRID.T)
    split, rng = own(prepared, family), np.random.default_rng(0)
    arms, results = rng.permutation(len(GRID))[:150], rng.normal(size=150)
    seen = Observations(np.ones(150), results - results.mean())
    found = fit(split, GRID[arms], seen, prior=HyperPrior.of(split, -2.0))
    spacings = np.log(1.0 / GRID.std(axis=0))  # the pool's spreads are those of a sample
    assert (found.log_scales >= spacings - 0.01).all()
    assert np.isfinite(found.score)


@pytest.mark.parametrize("seed", [1, 3, 4])
def test_noise_is_not_taken_for_short_length_scales(seed: int) -> None:
    """150 results of a table of settings that are nothing but noise of deviation 1."""
    assert tables.noise_std(white_noise(150, seed)) > 0.5


@pytest.mark.slow
def test_noise_is_rarely_taken_for_short_length_scales() -> None:
    """Without bounds all of these 20 fits learn a noise below 0.3.

    If two thirds of such fits or more did, at most 7 of 20 would have a probability of 0.4 %.
    """
    assert sum(tables.noise_std(white_noise(150, seed)) < 0.5 for seed in range(20)) <= 7


def test_a_rough_function_of_settings_is_not_taken_for_noise() -> None:
    """Neighbouring levels differ by much, and results have hardly any noise."""
    rng, history = np.random.default_rng(1), History(len(GRID))
    arms = rng.permutation(len(GRID))[:150]
    worth = rng.normal(size=(6, 8))
    truth = worth[np.arange(6), GRID[arms]].sum(axis=1)
    history.add(arms, truth + 0.05 * rng.normal(size=150))
    model = learn(prepare(ma.Pool(GRID)), history, rng, rewards="standardise")
    assert tables.noise_std(model) < 0.3 * truth.std()


@pytest.mark.parametrize("name", ["settings_grid", "launch", "recipes"])
def test_the_tables_of_the_benchmark_know_the_truth(name: str) -> None:
    _, results = tables.TABLES[name]()
    smooth = results.mean(axis=1)
    noise = np.sqrt(results.var(axis=1).mean())
    assert noise == pytest.approx(
        {"settings_grid": 1.4, "launch": 1.0, "recipes": 2.0}[name] * smooth.std(), rel=0.02
    )

"""The search finds what the whole grid contains, with fewer fits, and reports like GridSearchCV."""

from __future__ import annotations

import numpy as np
import pytest
from joblib import parallel_backend
from scipy.stats import loguniform, randint
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import manyarms as ma
from manyarms.sklearn import ManyArmsSearchCV


class Peak(ClassifierMixin, BaseEstimator):
    """Its score is a function of its parameters alone; it fails where it is told to."""

    def __init__(self, a=0.0, b=0.0, kind="x", fails=False):
        self.a, self.b, self.kind, self.fails = a, b, kind, fails

    def fit(self, X, y):
        if self.fails:
            raise ValueError("this candidate cannot be fitted")
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.zeros(len(X))

    def score(self, X, y):
        return -((self.a - 3) ** 2) - (self.b - 2) ** 2 - (self.kind != "y")


X, Y = make_classification(n_samples=60, random_state=0)
GRID = {"a": list(range(10)), "b": list(range(10)), "kind": ["x", "y", "z"]}


def test_the_best_of_300_candidates_is_found_with_30() -> None:
    search = ManyArmsSearchCV(Peak(), GRID, n_iter=30, cv=2).fit(X, Y)
    assert search.best_params_ == {"a": 3, "b": 2, "kind": "y"}
    assert len(search.cv_results_["params"]) == 30
    assert search.n_candidates_in_pool_ == 300
    assert search.optimizer_.history.pulls == 30


def test_no_candidate_is_evaluated_twice() -> None:
    search = ManyArmsSearchCV(Peak(), GRID, n_iter=60, cv=2).fit(X, Y)
    assert len({str(params) for params in search.cv_results_["params"]}) == 60


def test_rows_are_those_of_grid_search() -> None:
    """The same candidates, folds and scores, so that every column means the same."""
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    grid = {"logisticregression__C": np.logspace(-4, 4, 17).tolist()}
    ours = ManyArmsSearchCV(pipeline, grid, n_iter=8, cv=3, return_train_score=True).fit(X, Y)
    theirs = GridSearchCV(pipeline, grid, cv=3, return_train_score=True).fit(X, Y)
    assert set(ours.cv_results_) == set(theirs.cv_results_)
    place = {params["logisticregression__C"]: i for i, params in enumerate(theirs.cv_results_["params"])}
    for i, params in enumerate(ours.cv_results_["params"]):
        j = place[params["logisticregression__C"]]
        for column in ("mean_test_score", "std_test_score", "mean_train_score", "split2_test_score"):
            assert ours.cv_results_[column][i] == theirs.cv_results_[column][j]
    assert ours.best_score_ == ours.cv_results_["mean_test_score"].max()
    np.testing.assert_array_equal(ours.predict(X), ours.best_estimator_.predict(X))


def test_enough_iterations_evaluate_the_whole_grid() -> None:
    search = ManyArmsSearchCV(Peak(), {"a": [1, 2, 3]}, n_iter=3, cv=2).fit(X, Y)
    assert [params["a"] for params in search.cv_results_["params"]] == [1, 2, 3]
    assert search.optimizer_ is None


@pytest.mark.parametrize(("size", "expected"), [(8, 8), (20, 10), (60, 15), (900, 100)])
def test_the_default_number_of_iterations(size, expected) -> None:
    search = ManyArmsSearchCV(Peak(), {"a": list(range(size))}, cv=2).fit(X, Y)
    assert len(search.cv_results_["params"]) == expected


def test_batches_have_the_size_of_n_jobs() -> None:
    with parallel_backend("threading"):
        search = ManyArmsSearchCV(Peak(), GRID, n_iter=11, cv=2, n_jobs=4).fit(X, Y)
    assert [len(record.arms) for record in search.optimizer_.trace] == [4, 4, 3]


def test_the_same_seed_gives_the_same_search() -> None:
    searches = [ManyArmsSearchCV(Peak(), GRID, n_iter=12, cv=2, random_state=s).fit(X, Y) for s in (1, 1, 2)]
    first, second, third = ([str(p) for p in search.cv_results_["params"]] for search in searches)
    assert first == second != third


@pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite")
def test_candidates_that_fail_have_a_row_and_are_avoided() -> None:
    grid = {"a": list(range(10)), "b": list(range(10)), "fails": [False, True]}
    with pytest.warns(FitFailedWarning):
        search = ManyArmsSearchCV(Peak(), grid, n_iter=40, cv=2).fit(X, Y)
    scores = search.cv_results_["mean_test_score"]
    failed = [params["fails"] for params in search.cv_results_["params"]]
    assert np.isnan(scores[failed]).all()
    assert len(scores) == 40 or not failed[-1]
    assert search.best_params_ == {"a": 3, "b": 2, "fails": False}


def test_a_search_in_which_everything_fails_says_so() -> None:
    grid = {"a": list(range(20)), "fails": [True]}
    with pytest.raises(ValueError, match="fits failed"):
        ManyArmsSearchCV(Peak(), grid, n_iter=5, cv=2).fit(X, Y)


def test_error_score_raise_stops_at_once() -> None:
    grid = {"a": list(range(20)), "fails": [True]}
    with pytest.raises(ValueError, match="cannot be fitted"):
        ManyArmsSearchCV(Peak(), grid, n_iter=5, cv=2, error_score="raise").fit(X, Y)


def test_distributions_are_sampled_without_repetition() -> None:
    space = {"C": loguniform(1e-4, 1e4), "l1_ratio": [0.0], "max_iter": randint(200, 204)}
    search = ManyArmsSearchCV(LogisticRegression(), space, n_iter=10, pool_size=200, cv=2).fit(X, Y)
    assert search.n_candidates_in_pool_ == 200
    few = {"max_iter": randint(200, 204)}
    search = ManyArmsSearchCV(LogisticRegression(), few, n_iter=10, pool_size=200, cv=2).fit(X, Y)
    assert sorted(p["max_iter"] for p in search.cv_results_["params"]) == [200, 201, 202, 203]


def test_a_grid_that_is_too_large_is_sampled() -> None:
    grid = {name: list(range(1000)) for name in ("a", "b")}
    search = ManyArmsSearchCV(Peak(), grid, n_iter=12, pool_size=500, cv=2).fit(X, Y)
    assert search.n_candidates_in_pool_ == 500


def test_several_grids_with_different_parameters() -> None:
    grids = [{"kind": ["x"], "a": list(range(8))}, {"kind": ["y"], "b": list(range(8))}]
    search = ManyArmsSearchCV(Peak(a=3, b=2), grids, n_iter=10, cv=2).fit(X, Y)
    assert search.best_params_ == {"kind": "y", "b": 2}


def test_several_metrics_follow_refit() -> None:
    scoring = {
        "peak": lambda model, X, y: model.score(X, y),
        "valley": lambda model, X, y: -model.score(X, y),
    }
    low = ManyArmsSearchCV(Peak(), GRID, n_iter=30, cv=2, scoring=scoring, refit="valley").fit(X, Y)
    assert low.best_params_["a"] == low.best_params_["b"] == 9
    first = ManyArmsSearchCV(Peak(), GRID, n_iter=30, cv=2, scoring=scoring, refit=False).fit(X, Y)
    assert first.cv_results_["mean_test_peak"].max() == 0


def test_a_policy_of_one_s_own() -> None:
    search = ManyArmsSearchCV(Peak(), GRID, n_iter=20, cv=2, policy=ma.GPTS()).fit(X, Y)
    assert set(search.optimizer_.trace[-1].why) == {"Thompson draw"}


@pytest.mark.parametrize(("setting", "value"), [("n_iter", 0), ("n_iter", 2.5), ("pool_size", 0)])
def test_what_is_refused(setting, value) -> None:
    with pytest.raises(ma.errors.InvalidParameterError, match=setting):
        ManyArmsSearchCV(Peak(), GRID, cv=2, **{setting: value}).fit(X, Y)


def test_an_empty_grid_is_refused() -> None:
    with pytest.raises(ValueError, match="grid"):
        ManyArmsSearchCV(Peak(), [], cv=2).fit(X, Y)

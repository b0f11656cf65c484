"""scikit-learn's own checks of estimators, run on the estimators of `manyarms.sklearn`.

scikit-learn itself skips its array API checks where the libraries that they compare are not installed. Any
other skip is a failure here.
"""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import check_estimator

import manyarms as ma
from manyarms.sklearn import ManyArmsSearchCV, SparseGPRegressor


def outcomes(estimator: Any) -> dict[tuple[str, int], str]:
    """The outcome of each check, by its name and its number among those with that name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks fit deliberately bad input
        results = check_estimator(estimator, on_fail=None, on_skip=None)
    seen: Counter[str] = Counter()
    found = {}
    for result in results:
        found[result["check_name"], seen[result["check_name"]]] = result["status"]
        seen[result["check_name"]] += 1
    return found


def report(title: str, found: dict[tuple[str, int], str], record_property: Any) -> None:
    counts = dict(Counter(found.values()))
    print(f"{title}: {counts}")
    record_property("check_estimator", f"{title}: {counts}")


@pytest.mark.parametrize("kernel", ["auto", ma.RBF(1.0)], ids=["learned", "given"])
def test_the_regressor_passes_every_check(kernel: Any, record_property: Any) -> None:
    found = outcomes(SparseGPRegressor(kernel))
    report(f"check_estimator(SparseGPRegressor({kernel}))", found, record_property)
    not_passed = {name for (name, _), status in found.items() if status != "passed"}
    assert not_passed <= {"check_array_api_input"}, not_passed
    assert sum(status == "passed" for status in found.values()) >= 50


@pytest.mark.parametrize(
    ("estimator", "grid"),
    [
        (Ridge(), {"alpha": [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]}),
        (LogisticRegression(), {"C": [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]}),
    ],
    ids=["regressor", "classifier"],
)
def test_the_search_passes_where_grid_search_does(estimator: Any, grid: Any, record_property: Any) -> None:
    """With 4 of 7 candidates, so that the candidates are chosen by the model."""
    ours = outcomes(ManyArmsSearchCV(estimator, grid, n_iter=4, cv=3))
    theirs = outcomes(GridSearchCV(estimator, grid, cv=3))
    report(f"check_estimator(ManyArmsSearchCV({estimator}))", ours, record_property)
    report(f"check_estimator(GridSearchCV({estimator}))", theirs, record_property)
    assert set(ours) == set(theirs)
    worse = {name: ours[name] for name in ours if theirs[name] == "passed" != ours[name]}
    assert not worse
    assert sum(status == "passed" for status in ours.values()) >= 49

"""`ManyArmsSearchCV` against a whole grid: the best score with a quarter of the fits, and the CPU time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import Row, at_least, at_most
from benchmarks.timing import cpu_seconds


@dataclass(frozen=True)
class Grid:
    """An estimator, its grid and its data."""

    name: str
    estimator: Any
    grid: Any
    X: np.ndarray
    y: np.ndarray


def _support_vectors(smoke: bool) -> Grid:
    from sklearn.datasets import load_digits
    from sklearn.svm import SVC

    X, y = load_digits(return_X_y=True)
    size, rows = (5, 200) if smoke else (15, len(X))
    grid = {"C": np.logspace(-2, 4, size).tolist(), "gamma": np.logspace(-6, 0, size).tolist()}
    return Grid("digits, SVC", SVC(), grid, X[:rows], y[:rows])


def _trees(smoke: bool) -> Grid:
    from sklearn.datasets import load_breast_cancer
    from sklearn.ensemble import ExtraTreesClassifier

    X, y = load_breast_cancer(return_X_y=True)
    grid = {
        "max_depth": [2, 4, None] if smoke else [2, 3, 4, 6, 8, 12, None],
        "max_features": ["sqrt", 0.5] if smoke else ["sqrt", "log2", 0.3, 0.5, 0.8, 1.0],
        "min_samples_leaf": [1, 4] if smoke else [1, 2, 3, 5, 8],
        "criterion": ["gini", "entropy"],
    }
    forest = ExtraTreesClassifier(n_estimators=5 if smoke else 30, random_state=0)
    return Grid("breast cancer, extra trees", forest, grid, X, y)


def grids(smoke: bool) -> list[Row]:
    """Two grids with a quarter of the fits: a smooth one, and a rough one of mixed parameters."""
    return [row for make in (_support_vectors, _trees) for row in _compared(make(smoke), smoke)]


def _compared(task: Grid, smoke: bool) -> Iterator[Row]:
    from sklearn.model_selection import GridSearchCV

    from manyarms.sklearn import ManyArmsSearchCV

    whole = GridSearchCV(task.estimator, task.grid, cv=3, refit=False)
    theirs = cpu_seconds(lambda: whole.fit(task.X, task.y))
    scores = whole.cv_results_["mean_test_score"]
    budget, found, seconds = len(scores) // 4, [], []
    for seed in range(2 if smoke else 10):
        search = ManyArmsSearchCV(
            task.estimator, task.grid, n_iter=budget, cv=3, refit=False, random_state=seed
        )
        seconds.append(cpu_seconds(lambda search=search: search.fit(task.X, task.y)))
        found.append(search.cv_results_["mean_test_score"].max())
    best = float(scores.max())
    share = float(np.mean([score >= best for score in found]))
    yield Row(f"{task.name}: best score of all {len(scores)} candidates", best)
    yield at_least(f"{task.name}: median best score with {budget}", np.median(found), best)
    yield Row(f"{task.name}: share of seeds with the best score", share, note=f"{len(found)} seeds")
    yield Row(f"{task.name}: worst seed", min(found))
    yield Row(f"{task.name}: the same number at random, median", _at_random(scores, budget))
    yield Row(f"{task.name}: whole grid", theirs, "s CPU")
    yield at_most(f"{task.name}: ManyArmsSearchCV", np.median(seconds), theirs, "s CPU")


def _at_random(scores: np.ndarray, budget: int) -> float:
    """The median best score of a random part of the grid, over 200 draws."""
    rng = np.random.default_rng(0)
    return float(np.median([rng.choice(scores, budget, replace=False).max() for _ in range(200)]))


BENCHMARKS = [grids]

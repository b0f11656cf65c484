"""A search through a parameter grid that fits only the candidates that may be the best."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.model_selection._search import BaseSearchCV  # the base of GridSearchCV, without a public name
from sklearn.utils import check_random_state

from manyarms.errors import InvalidParameterError
from manyarms.policies import Policy
from manyarms.pool.parameter_rows import parameter_features
from manyarms.pool.pool import Pool
from manyarms.run.optimizer import Optimizer
from manyarms.run.trace import Batch
from manyarms.support.validation import count

_DEFAULT_SHARE, _FEWEST, _MOST = 0.25, 10, 100  # of the candidates, if n_iter is not given

Settings = dict[str, Any]
Evaluate = Callable[[list[Settings]], dict[str, Any]]


class ManyArmsSearchCV(BaseSearchCV):
    """Search for the best parameters with `n_iter` of the candidates of a grid.

    The candidates are the arms of a pool, and the mean test score of the cross-validation is their reward.
    After each batch the model learns which parameters matter, and proposes the next candidates. If `n_iter`
    is not smaller than the number of candidates, all of them are evaluated, as in GridSearchCV.

    estimator: the estimator whose parameters are searched.
    param_grid: a dictionary of lists or a list of such dictionaries, as for GridSearchCV. An entry may also
        be a distribution with a method `rvs`, as for RandomizedSearchCV.
    n_iter: the number of candidates to evaluate. By default a quarter of them, at least 10 and at most 100.
    pool_size: with distributions, or with more candidates than this, the pool is a random sample of
        `pool_size` candidates.
    policy: the algorithm, for example `manyarms.BBKB()`; None is the default policy.
    random_state: the seed for the choice of candidates.
    n_jobs: the number of parallel jobs and the number of candidates in a batch. A candidate is chosen without
        the results of the others in its batch, so that larger batches need slightly more of them.
    scoring, refit, cv, verbose, pre_dispatch, error_score, return_train_score: as for GridSearchCV. With
        several metrics, the search follows the one that `refit` names or, if it names none, the first.

    Attributes after fitting: those of GridSearchCV (`cv_results_` has a row for each evaluated candidate, in
    the order of their evaluation), `n_candidates_in_pool_`, and `optimizer_`, the run with its model, or None
    if all candidates were evaluated.
    """

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        n_iter: int | None = None,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: Any = True,
        cv: Any = None,
        verbose: int = 0,
        pre_dispatch: Any = "2*n_jobs",
        error_score: Any = np.nan,
        return_train_score: bool = False,
        random_state: Any = 0,
        pool_size: int = 10_000,
        policy: Policy | None = None,
    ) -> None:
        super().__init__(
            estimator=estimator, scoring=scoring, n_jobs=n_jobs, refit=refit, cv=cv, verbose=verbose,
            pre_dispatch=pre_dispatch, error_score=error_score, return_train_score=return_train_score,
        )  # fmt: skip
        self.param_grid = param_grid
        self.n_iter = n_iter
        self.random_state = random_state
        self.pool_size = pool_size
        self.policy = policy

    def _run_search(self, evaluate_candidates: Evaluate) -> None:
        """Evaluate candidates until `n_iter` of them have a score."""
        random = check_random_state(self.random_state)
        candidates = _candidates(self.param_grid, count("pool_size", self.pool_size), random)
        self.n_candidates_in_pool_ = len(candidates)
        budget = _budget(self.n_iter, len(candidates))
        self.optimizer_ = None
        if budget >= len(candidates):
            evaluate_candidates(candidates)
            return
        features, names = parameter_features(candidates)
        seed = int(random.randint(2**31))
        run = Optimizer(
            Pool(features, names=names), self.policy, seed, budget=budget, repeats="forbid", max_failures=1
        )
        self._search(run, budget, candidates, evaluate_candidates)
        self.optimizer_ = run

    def _search(self, run: Optimizer, budget: int, candidates: list[Settings], evaluate: Evaluate) -> None:
        size = effective_n_jobs(self.n_jobs)
        postponed: list[Settings] = []
        while run.spent < budget:
            batch = run.ask(min(size, budget - run.spent))
            wanted = [candidates[arm] for arm in batch]
            try:
                results = evaluate([*postponed, *wanted])
            except ValueError as problem:
                if "fits failed" not in str(problem) or self.error_score == "raise":
                    raise
                # scikit-learn stops when every fit of a call fails. In a grid these are a few candidates
                # among others, so they are evaluated once more with the next batch, which gives them a row.
                if run.spent >= budget and not len(run.history):
                    raise
                postponed += wanted
                run.tell(batch, failed=True)
                continue
            postponed = []
            self._tell(run, batch, results)
        if postponed:
            text = f"the last {len(postponed)} candidates failed and have no row in cv_results_"
            warnings.warn(text, FitFailedWarning, stacklevel=2)

    def _tell(self, run: Optimizer, batch: Batch, results: dict[str, Any]) -> None:
        scores = np.asarray(results[f"mean_test_{self._metric(results)}"])[-len(batch) :]
        run.tell(batch, scores, failed=(~np.isfinite(scores)).tolist())

    def _metric(self, results: dict[str, Any]) -> str:
        """The metric that the search follows."""
        if isinstance(self.refit, str):
            return self.refit
        return next(key for key in results if key.startswith("mean_test_")).removeprefix("mean_test_")


def _candidates(param_grid: Any, pool_size: int, random: np.random.RandomState) -> list[Settings]:
    """All candidates of the grid or, if it has distributions or too many of them, a random sample."""
    grids = [param_grid] if isinstance(param_grid, dict) else param_grid
    if isinstance(grids, list) and any(
        hasattr(values, "rvs") for grid in grids if isinstance(grid, dict) for values in grid.values()
    ):
        return _different(ParameterSampler(param_grid, pool_size, random_state=random))
    grid = ParameterGrid(param_grid)
    if not len(grid):
        raise InvalidParameterError("param_grid", param_grid, "a grid with at least one candidate")
    if len(grid) <= pool_size:
        return list(grid)
    return list(ParameterSampler(param_grid, pool_size, random_state=random))


def _different(sampled: Any) -> list[Settings]:
    """The candidates without repetition, which distributions over few values would lead to."""
    seen: dict[str, Settings] = {}
    for settings in sampled:
        seen.setdefault(repr(sorted(settings.items(), key=lambda item: item[0])), settings)
    return list(seen.values())


def _budget(n_iter: int | None, n_candidates: int) -> int:
    if n_iter is not None:
        return count("n_iter", n_iter)
    return min(max(_FEWEST, math.ceil(_DEFAULT_SHARE * n_candidates)), _MOST)

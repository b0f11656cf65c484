"""The sampler: Optuna asks it for the parameters of a trial, and it proposes a candidate of the pool."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.samplers._base import _process_constraints_after_trial
from optuna.search_space import IntersectionSearchSpace
from optuna.storages import BaseStorage
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from manyarms.errors import InvalidParameterError
from manyarms.optuna.study_run import PROPOSAL_KEY, StudyRun, note
from manyarms.policies import Policy
from manyarms.support.validation import count

SearchSpace = dict[str, BaseDistribution]


@dataclass(frozen=True)
class KnownStudy:
    """What was computed from the trials of a study: its search space, and a run for each search space."""

    space: IntersectionSearchSpace = field(
        default_factory=lambda: IntersectionSearchSpace(include_pruned=True)
    )
    runs: dict[str, StudyRun] = field(default_factory=dict)


class ManyArmsSampler(BaseSampler):
    """Gaussian-process bandits over the points of a search space.

    Categories, integers and floats with a step are enumerated. A space with more than `pool_size` points, or
    with a continuous parameter, is represented by a Latin hypercube of `pool_size` points; trials elsewhere
    (enqueued, or of another sampler) are added to it. Running trials count as pending, also those of other
    processes.

    The storage of the study holds everything: a sampler in a new process continues where the last one
    stopped. The first trial, and parameters that are not part of every trial, are drawn by
    `independent_sampler`.

    seed: the random seed; None for a different one each time.
    pool_size: the largest number of candidates.
    policy: the algorithm, for example `manyarms.BBKB()`; None is the expected improvement after an initial
        design, and the default policy while other trials are running.
    search_space: the parameters and their distributions, if they are known beforehand; by default those that
        all finished trials have in common.
    constraints_func: a function of a finished trial that returns values of which none should be above 0. They
        are modelled too, and candidates that are likely to violate them are not proposed.
    independent_sampler: the sampler for all other parameters; random by default.
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        pool_size: int = 10_000,
        policy: Policy | None = None,
        search_space: SearchSpace | None = None,
        constraints_func: Callable[[FrozenTrial], Sequence[float]] | None = None,
        independent_sampler: BaseSampler | None = None,
    ) -> None:
        _check_given(policy, search_space, constraints_func)
        self._seed = _random_seed() if seed is None else count("seed", seed, minimum=0)
        self._pool_size = count("pool_size", pool_size)
        self._policy = policy
        self._given_space = None if search_space is None else dict(search_space)
        self._constraints_func = constraints_func
        self._independent_sampler = independent_sampler or RandomSampler(seed=seed)
        self._forget_runs()

    def _forget_runs(self) -> None:
        """Start without anything computed from the trials of a study; it is computed again when needed."""
        self._lock = threading.Lock()
        self._known: WeakKeyDictionary[BaseStorage, dict[int, KnownStudy]] = WeakKeyDictionary()

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key not in ("_lock", "_known")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget_runs()

    # ------------------------------------------------------------------ what Optuna calls

    def reseed_rng(self) -> None:
        """Other random numbers, for a copy of this sampler in another process or thread."""
        with self._lock:
            self._seed = _random_seed()
        self._independent_sampler.reseed_rng()

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> SearchSpace:
        """The parameters that are proposed together."""
        if self._given_space is not None:
            space = dict(self._given_space)
        else:
            with self._lock:
                space = self._study(study).space.calculate(study)
        return {name: space[name] for name in sorted(space) if not space[name].single()}

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: SearchSpace) -> dict[str, Any]:
        """The candidate for this trial."""
        self._raise_error_if_multi_objective(study)
        if not search_space:
            return {}
        with self._lock:
            run = self._run(study, search_space)
            run.update(study.get_trials(deepcopy=False), asking=trial.number)
            params = run.propose(trial.number)
        if params is None:
            return {}
        study._storage.set_trial_system_attr(trial._trial_id, PROPOSAL_KEY, note(params, run.space))
        return params

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """A value of a parameter that is not part of the search space."""
        self._raise_error_if_multi_objective(study)
        return self._independent_sampler.sample_independent(study, trial, param_name, param_distribution)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Let the independent sampler know that a trial begins."""
        self._independent_sampler.before_trial(study, trial)

    def after_trial(
        self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """Compute and store the constraints of the trial."""
        if self._constraints_func is not None:
            _process_constraints_after_trial(self._constraints_func, study, trial, state)
        self._independent_sampler.after_trial(study, trial, state, values)

    def _study(self, study: Study) -> KnownStudy:
        """What is known of a study; one sampler may serve several, also in different storages."""
        return self._known.setdefault(study._storage, {}).setdefault(study._study_id, KnownStudy())

    def _run(self, study: Study, search_space: SearchSpace) -> StudyRun:
        runs = self._study(study).runs
        key = repr(sorted(search_space.items()))
        if key not in runs:
            runs[key] = StudyRun(
                search_space,
                pool_size=self._pool_size,
                policy=self._policy,
                seed=self._seed,
                minimize=study.direction == StudyDirection.MINIMIZE,
            )
        return runs[key]


def _check_given(policy: object, search_space: object, constraints_func: object) -> None:
    """Refuse here what would otherwise end a study in its second trial."""
    if not isinstance(policy, Policy | None):
        raise InvalidParameterError("policy", policy, "a policy such as manyarms.BBKB()")
    distributions = search_space.values() if isinstance(search_space, Mapping) else ()
    known = all(isinstance(each, BaseDistribution) for each in distributions)
    if search_space is not None and not (isinstance(search_space, Mapping) and known):
        raise InvalidParameterError("search_space", search_space, "a dictionary of Optuna's distributions")
    if constraints_func is not None and not callable(constraints_func):
        raise InvalidParameterError("constraints_func", constraints_func, "a function of a finished trial")


def _random_seed() -> int:
    return int(np.random.SeedSequence().generate_state(1)[0])

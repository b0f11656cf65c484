"""The run behind a study: which trials it has heard of, and what it proposes next.

The storage of the study is the truth. A `StudyRun` is a cache that can be built from the trials at any time,
in any process; `update` brings it up to date before each proposal.

What counts in a study is its best value, so without a policy of the user the proposals maximise the expected
improvement. Upper bounds are for finding many good candidates: they stay with the neighbours of a good point
for longer before they turn to another category (docs/measurements.md, "Plug-ins").
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial, TrialState

from manyarms.choice.acquisition import LogExpectedImprovement
from manyarms.errors import NothingToAskError
from manyarms.learning.initial_design import design_size
from manyarms.optuna.space import Params, Space
from manyarms.policies import Policy
from manyarms.pool.pool import Pool
from manyarms.run.optimizer import Optimizer
from manyarms.support.validation import Floats

PROPOSAL_KEY = (
    "manyarms:params"  # of the system attributes of a trial: what was proposed, before it is suggested
)
LIKELY = 0.5  # candidates with at least this probability of being feasible may be proposed
FEWEST_LIKELY = 0.05  # of the candidates, those with the highest probability, may be proposed in any case


class StudyRun:
    """A run over the candidates of one search space of a study."""

    def __init__(
        self,
        search_space: Mapping[str, BaseDistribution],
        *,
        pool_size: int,
        policy: Policy | None,
        seed: int,
        minimize: bool,
    ) -> None:
        self.space = Space(search_space, pool_size, seed)
        pool = Pool(self.space.features(), names=list(self.space.axes))
        self.optimizer = Optimizer(pool, policy, seed, minimize=minimize, max_failures=1)
        self._by_improvement = policy is None
        self._violation: Optimizer | None = (
            None  # the largest constraint value of each candidate, once there is one
        )
        self._tickets: dict[int, int] = {}  # by the number of the trial: trials that are running
        self._settled: set[int] = set()  # the numbers of trials that have ended and been counted
        self._tried: set[int] = set()  # the arms of these trials

    # ------------------------------------------------------------------ hearing of trials

    def update(self, trials: Sequence[FrozenTrial], asking: int) -> None:
        """Count every trial that has ended or started since the last call, except the one that asks."""
        for trial in trials:
            if trial.number in self._settled or trial.number == asking:
                continue
            if trial.state.is_finished():
                self._settle(trial)
            elif trial.state == TrialState.RUNNING and trial.number not in self._tickets:
                params = _proposed(trial, self.space)
                if params is not None:
                    self._start(trial.number, self._arm(params))

    def _settle(self, trial: FrozenTrial) -> None:
        """Tell the run about a trial that has ended."""
        self._settled.add(trial.number)
        ticket = self._tickets.pop(trial.number, None)
        if not self.space.holds(trial.params, trial.distributions):
            if ticket is not None:
                self.optimizer.forget([ticket])
            return
        arm = self._arm(trial.params)
        self._tried.add(arm)
        if ticket is not None and self._pending_arm(ticket) != arm:  # other values were set than proposed
            self.optimizer.forget([ticket])
            ticket = None
        where: Any = {"arms": [arm]} if ticket is None else {"tickets": [ticket]}
        value = _value(trial)
        self.optimizer.tell(**where, rewards=[value], failed=not math.isfinite(value))
        constraints = _constraints(trial)
        if constraints:
            self._tell_violation(arm, max(constraints))

    def _tell_violation(self, arm: int, value: float) -> None:
        if self._violation is None:
            self._violation = Optimizer(self.optimizer.pool, seed=self.optimizer.seed)
        if math.isfinite(value):
            self._violation.tell(arms=[arm], rewards=[value])

    def _pending_arm(self, ticket: int) -> int:
        return self.optimizer.pending[ticket]

    def _start(self, number: int, arm: int) -> None:
        """A ticket for a trial that runs elsewhere, so that its result counts as pending."""
        try:
            batch = self.optimizer.ask(1, eligible=[arm])
        except NothingToAskError:  # the candidate has failed before, or is being tried already
            return
        self._tickets[number] = int(batch.tickets[0])

    def _arm(self, params: Mapping[str, Any]) -> int:
        """The arm of a point, which is added to the pool if it is not among the sampled candidates."""
        arm = self.space.arm_of(params)
        if arm is not None:
            return arm
        arm = self.space.add(params)
        features = self.space.features(first=arm)
        for run in (self.optimizer, self._violation):
            if run is not None:
                run.add_arms(features)
        return arm

    # ------------------------------------------------------------------ proposing

    def propose(self, number: int) -> Params | None:
        """The next point for the trial with this number; None if no candidate is left."""
        feasible = self._feasible()
        arm = self._most_improving(feasible)
        try:
            batch = self.optimizer.ask(1, eligible=feasible if arm is None else [arm])
        except NothingToAskError:
            return None
        self._tickets[number] = int(batch.tickets[0])
        return self.space[int(batch.arms[0])]

    def _most_improving(self, feasible: NDArray[np.bool_] | None) -> int | None:
        """The untried candidate with the highest expected improvement over the best mean among those tried.

        None if the policy is to choose: it was given by the user, the initial design is not complete, trials
        are running (the policy takes them into account), or every candidate has been tried.
        """
        run, history = self.optimizer, self.optimizer.history
        prepared = run.context.prepared
        if not self._by_improvement or self._tickets or prepared is None:
            return None
        if len(history) < design_size(prepared):
            return None
        open_to_trial = np.ones(len(self.space), dtype=bool) if feasible is None else feasible.copy()
        open_to_trial[list(self._tried)] = False
        if not open_to_trial.any():
            return None
        mean, std = run.predict()
        mean = -mean if run.context.minimize else mean
        gains = LogExpectedImprovement(float(mean[history.arms].max())).values(mean, std**2)
        return int(np.where(open_to_trial, gains, -np.inf).argmax())

    def _feasible(self) -> NDArray[np.bool_] | None:
        """The candidates that are likely enough to meet the constraints; None for all of them."""
        if self._violation is None or not len(self._violation.history):
            return None
        mean, std = self._violation.predict()
        score = _negative(mean, std)
        enough = np.quantile(score, 1 - FEWEST_LIKELY)
        return score >= min(enough, LIKELY)


def _negative(mean: Floats, std: Floats) -> Floats:
    """The probability that a normal variable is at most 0."""
    from scipy.special import ndtr

    return np.asarray(ndtr(-mean / np.maximum(std, 1e-300)))


def _proposed(trial: FrozenTrial, space: Space) -> Params | None:
    """What a running trial will try: its parameters or, before they are suggested, what was proposed."""
    if space.holds(trial.params, trial.distributions):
        return {name: trial.params[name] for name in space.axes}
    noted = trial.system_attrs.get(PROPOSAL_KEY)
    if noted is None:
        return None
    places = json.loads(noted)
    if set(places) != set(space.axes):
        return None
    params = {name: axis.distribution.to_external_repr(places[name]) for name, axis in space.axes.items()}
    return params if space.holds(params, {n: a.distribution for n, a in space.axes.items()}) else None


def note(params: Params, space: Space) -> str:
    """A proposal as text, for the system attributes of its trial."""
    return json.dumps(
        {name: axis.distribution.to_internal_repr(params[name]) for name, axis in space.axes.items()}
    )


def _value(trial: FrozenTrial) -> float:
    """The value of a complete trial; NaN for a trial that failed or was pruned."""
    if trial.state != TrialState.COMPLETE or trial.value is None:
        return math.nan
    return float(trial.value)


def _constraints(trial: FrozenTrial) -> list[float]:
    """The constraint values of a trial; those above 0 are violated."""
    listed = getattr(trial, "constraints", None)  # from Optuna 5 on
    if listed is not None:
        return [float(value) for value in listed.values()]
    return [float(value) for value in trial.system_attrs.get("constraints") or ()]

"""What a run concludes from failed trials: which arms to try again, and which are unlikely to succeed.

All of it is a function of the outcomes recorded, so that nothing of it is stored: a run that was loaded, and
a campaign that a new process reads, conclude the same. Without a failure nothing is computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manyarms.kernels import KernelLike, Scale
from manyarms.learning.outcomes import Outcomes
from manyarms.learning.repeated_failures import times_worth_trying
from manyarms.learning.success_kernels import Parts
from manyarms.learning.success_model import SuccessModel, learn_success
from manyarms.posterior.history import History
from manyarms.run.context import LEARN, MOST_FAILURES, RunContext
from manyarms.run.state import RunState
from manyarms.run.tickets import Tickets
from manyarms.support.validation import Floats, Ints


def failures_allowed(context: RunContext, history: History, tickets: Tickets) -> int | None:
    """After how many failures an arm is not offered again; None: it always may be."""
    given = context.max_failures
    if not isinstance(given, str):
        return given
    if context.failures != LEARN:
        return 1
    if not tickets.failures:
        return MOST_FAILURES
    return times_worth_trying(Outcomes.of(history, tickets.failures), MOST_FAILURES)


def success_model(context: RunContext, state: RunState) -> SuccessModel | None:
    """The probability of success as learned from all outcomes; None if none has failed or none is learned."""
    if context.failures != LEARN or not state.tickets.failures:
        return None
    outcomes, pool = Outcomes.of(state.history, state.tickets.failures), context.encoded_pool
    known, rng = _of_unit_variance(state), context.streams.at("failures", len(outcomes.arms))
    if context.prepared is None:
        return learn_success(pool, outcomes, Parts((known,)), rng)
    return learn_success(pool, outcomes, Parts.of(context.prepared, outcomes.arms[:1]), rng, known)


def _of_unit_variance(state: RunState) -> KernelLike:
    """The kernel of the rewards in use, with a largest prior variance of one."""
    process, largest = state.belief.process, state.belief.state.prior_max
    return Scale(process.kernel, 1.0 / largest) if largest > 0 else process.kernel


@dataclass(frozen=True)
class FailureReport:
    """What was concluded from the failures of a run.

    failed, trials: the number of failed trials, and of all trials with an outcome.
    depends: whether failures depend on the features, by the evidence.
    dependence: the posterior probability that they do.
    columns: the names of the columns that they depend on, if these are one or two.
    tries: after how many failures an arm is not offered again; None: it always may be.
    """

    failed: int
    trials: int
    depends: bool
    dependence: float
    columns: tuple[str, ...]
    tries: int | None

    @property
    def text(self) -> str:
        """The conclusion in a sentence."""
        if not self.failed:
            return "no trial has failed"
        found = f"{self.failed} of {self.trials} trials failed; "
        if self.depends:
            found += "failures depend on " + (
                " and ".join(map(repr, self.columns)) if self.columns else "the features"
            )
        else:
            found += "failures look random"
        if self.tries == 1:
            return found + "; a candidate that failed is not offered again"
        often = "again" if self.tries is None else f"again until it has failed {self.tries} times"
        return found + f"; a candidate that failed may be offered {often}"


def failure_report(
    context: RunContext, state: RunState, model: SuccessModel | None, owners: Any = None
) -> FailureReport:
    """The report on a state, with the model of success in it; `owners` names the user's column of each."""
    outcomes = Outcomes.of(state.history, state.tickets.failures)
    return FailureReport(
        failed=outcomes.n_failed,
        trials=outcomes.n_trials,
        depends=model is not None and model.depends,
        dependence=0.0 if model is None else model.dependence,
        columns=() if model is None else _names(context, model.columns, owners),
        tries=failures_allowed(context, state.history, state.tickets),
    )


def _names(context: RunContext, columns: tuple[int, ...], owners: Any) -> tuple[str, ...]:
    """The user's names of these columns of the encoded pool; none if the pool has no names for them."""
    names = context.encoded_pool.names if owners is None else owners
    if names is None or max(columns, default=-1) >= len(names):
        return ()
    return tuple(dict.fromkeys(str(names[j]).partition(" = ")[0] for j in columns))


def predicted_success(context: RunContext, model: SuccessModel | None, arms: Ints) -> Floats:
    """The probability of success of each of these arms; 1 without any failure."""
    if model is None:
        return np.ones(len(arms))
    return model.probabilities(context.encoded_pool.take(arms))

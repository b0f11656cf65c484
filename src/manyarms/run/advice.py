"""The methods of a run that help to decide: what further measurements would add, and why a candidate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from manyarms.errors import InvalidParameterError
from manyarms.support.threads import threads_for
from manyarms.support.validation import Floats, count

if TYPE_CHECKING:
    from manyarms.run.explanation import Explanation
    from manyarms.run.failing import FailureReport
    from manyarms.run.further_gain import ExpectedGain


class Advice:
    """The methods `expected_gain`, `failures`, `success` and `explain` of a run. They change nothing."""

    def expected_gain(self, n: int | None = None, *, eligible: ArrayLike | None = None) -> ExpectedGain:
        """How much n further measurements are expected to improve the best arm found.

        n: the number of measurements, chosen as `ask(n)` would choose them now, as one batch. Without n, the
            batch that `ask()` would hand out.
        eligible: the arms that may be measured, as in `ask`.

        It is an expectation under the model, from every result recorded so far (theory §4.13).
        """
        from manyarms.run.further_gain import expected_gain  # only for runs that ask

        run: Any = self
        if run.domain is not run.pool:
            raise InvalidParameterError("domain", run.domain, "a pool: there is no such estimate for a box")
        state = run._looked_ahead()
        with threads_for(run.pool.n_arms):
            return expected_gain(run.context, state, n, eligible)

    def failures(self) -> FailureReport:
        """What failed trials say: are failures random or not, and may an arm that failed be tried again?"""
        from manyarms.run.failing import failure_report, success_model

        run: Any = self
        state = run._looked_ahead()
        return failure_report(run.context, state, success_model(run.context, state))

    def success(self, arms: ArrayLike) -> Floats:
        """The predicted probability that a trial of each of these arms succeeds; 1 while none has failed.

        arms: indices or ids; whole numbers are always indices.
        """
        from manyarms.run.failing import predicted_success, success_model

        run: Any = self
        known, state = run.pool.arms_of(arms), run._looked_ahead()
        return predicted_success(run.context, success_model(run.context, state), known)

    def explain(self, arms: ArrayLike, neighbours: int = 3) -> list[Explanation]:
        """Why these arms: predictions, the measured arms most like each, and what its columns contribute.

        arms: indices or ids; whole numbers are always indices.
        neighbours: the number of measured arms to compare each with.
        """
        from manyarms.run.explanation import explained  # only for runs that ask

        run: Any = self
        known = run.pool.arms_of(arms)
        return explained(run.context, run._looked_ahead(), known, count("neighbours", neighbours, minimum=0))

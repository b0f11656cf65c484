"""The methods of a run that help to decide: what further measurements would add, and why a candidate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from manyarms.errors import InvalidParameterError
from manyarms.support.threads import threads_for
from manyarms.support.validation import count

if TYPE_CHECKING:
    from manyarms.run.explanation import Explanation
    from manyarms.run.further_gain import ExpectedGain


class Advice:
    """The methods `expected_gain` and `explain` of a run. They change nothing."""

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

    def explain(self, arms: ArrayLike, neighbours: int = 3) -> list[Explanation]:
        """Why these arms: predictions, the measured arms most like each, and what its columns contribute.

        arms: indices or ids; whole numbers are always indices.
        neighbours: the number of measured arms to compare each with.
        """
        from manyarms.run.explanation import explained  # only for runs that ask

        run: Any = self
        known = run.pool.arms_of(arms)
        return explained(run.context, run._looked_ahead(), known, count("neighbours", neighbours, minimum=0))

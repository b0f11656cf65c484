"""What further measurements are expected to add to a campaign: in the user's units, and as a reason to stop.

An ask stores what its own batch was expected to add. `status --certify`, the report and the page compute what
one more batch would add, and a few times as many candidates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from manyarms.campaigns.assumptions import Units
from manyarms.campaigns.text import counted
from manyarms.errors import BudgetSpentError, GainReachedError, NothingToAskError
from manyarms.run.further_gain import MOST_MEASUREMENTS, ExpectedGain, gain_of
from manyarms.run.optimizer import Optimizer
from manyarms.run.state import RunState
from manyarms.support.validation import Ints

DEFAULT_SIZE = 8  # candidates of a batch, before one was handed out
MULTIPLES = (1, 2, 4)  # of a batch


def of_batch(run: Optimizer, before: RunState, arms: Ints, units: Units) -> dict[str, Any] | None:
    """What this batch is expected to add; None without results, and for a batch that is too large.

    `before` is the state from which the batch was chosen.
    """
    if not len(before.history) or len(arms) > MOST_MEASUREMENTS:
        return None
    return _plain(before, [gain_of(run.context, before, arms)], units)


def outlook(run: Optimizer, units: Units, size: int, eligible: Any = None) -> dict[str, Any] | None:
    """What one more batch of this size is expected to add, and a few times as many candidates; None: unknown.

    Sizes are left out that the budget or the number of candidates does not allow.
    """
    if not len(run.history):
        return None
    found = []
    for n in (size * times for times in MULTIPLES):
        if n <= MOST_MEASUREMENTS:
            try:
                found.append(run.expected_gain(n, eligible=eligible))
            except (BudgetSpentError, NothingToAskError):
                break
    return _plain(run.state, found, units)


def _plain(state: RunState, found: Sequence[ExpectedGain], units: Units) -> dict[str, Any]:
    gains = [
        {
            "measurements": each.measurements,
            "gain": units.spread(each.gain),
            "std_error": units.spread(each.std_error),
        }
        for each in found
    ]
    return {"results": math.ceil(state.history.pulls), "gains": gains}


def check_gain(found: dict[str, Any] | None, until_gain: float) -> None:
    """Raise `GainReachedError` if the batch is expected to add at most `until_gain`."""
    if found is not None and found["gains"] and found["gains"][0]["gain"] <= until_gain:
        raise GainReachedError(
            f"the next batch is expected to add {gain_text(found['gains'][0])}; more than {until_gain:.6g} "
            "was asked for, and nothing was handed out"
        )


def gain_text(gain: dict[str, Any]) -> str:
    """One gain with its standard error and the number of measurements."""
    more = "1 more measurement" if gain["measurements"] == 1 else f"{gain['measurements']} more measurements"
    return f"{gain['gain']:.3g} ± {gain['std_error']:.1g} from {more}"


def outlook_lines(found: dict[str, Any] | None) -> list[tuple[str, str]]:
    """The expected gains as one labelled line of text."""
    if found is None or not found["gains"]:
        return []
    first, *others = found["gains"]
    more = [f"{each['gain']:.3g} ± {each['std_error']:.1g} from {each['measurements']}" for each in others]
    known = counted(found["results"], "result")
    return [
        ("expected gain", f"{', '.join([gain_text(first), *more])} (an estimate by the model, from {known})")
    ]

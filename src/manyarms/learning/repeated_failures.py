"""Is it worth trying an arm again that has failed? What repeated trials of the same arms say about it.

Either all arms share one probability of success, or each arm has its own, drawn from a beta distribution; the
outcomes of the arms decide between both (theory §8.12). If failed arms tend to fail again, the success that
is predicted for such an arm falls, and it is not offered again.
"""

from __future__ import annotations

import numpy as np

from manyarms.learning.outcomes import Outcomes
from manyarms.support.validation import Floats

WORTH = 0.5  # a failed arm is offered again if its predicted success is at least this share of that of others
_MEANS = np.linspace(0.01, 0.99, 50)  # of the probability of success
# The strengths ν of the beta distribution of an arm's own probability, and their prior weights; a shared
# probability is the limit of a large ν.
_STRENGTHS = np.array([0.3, 3.0, 1e8])
_WEIGHTS = np.array([0.25, 0.25, 0.5])


def success_after(outcomes: Outcomes, most: int) -> Floats:
    """The predicted success of an arm that has failed 0, 1, …, `most` times and never succeeded."""
    pairs, counts = np.unique(np.stack([outcomes.successes, outcomes.failures]), axis=1, return_counts=True)
    a, b = np.outer(_STRENGTHS, _MEANS), np.outer(_STRENGTHS, 1.0 - _MEANS)
    log_weights = np.log(_WEIGHTS)[:, None] + sum(
        (
            times * _log_likelihood(a, b, int(good), int(bad))
            for (good, bad), times in zip(pairs.T, counts, strict=True)
        ),
        start=np.zeros_like(a),
    )
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    return np.array([float((weights * a / (a + b + failed)).sum()) for failed in range(most + 1)])


def _log_likelihood(a: Floats, b: Floats, successes: int, failures: int) -> Floats:
    """log of a₍s₎ b₍f₎ / (a + b)₍s+f₎, with rising factorials x₍n₎ = x(x + 1)…(x + n − 1)."""
    return _log_rising(a, successes) + _log_rising(b, failures) - _log_rising(a + b, successes + failures)


def _log_rising(x: Floats, n: int) -> Floats:
    """log x(x + 1)…(x + n − 1); a difference of log Γ would lose the digits where x is large."""
    return np.asarray(np.log(x[..., None] + np.arange(n)).sum(axis=-1))


def times_worth_trying(outcomes: Outcomes, most: int) -> int:
    """After how many failures an arm is not offered again; at most `most`, at least 1."""
    predicted = success_after(outcomes, most)
    poor = np.flatnonzero(predicted[1:most] < WORTH * predicted[0])
    return int(poor[0]) + 1 if len(poor) else most

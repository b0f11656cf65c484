"""The constants of DUETS that are fixed before the first pull: epoch lengths, δ', p₀ and the width β."""

from __future__ import annotations

import math
from typing import Literal

from manyarms.choice.widths import Assumptions, duets_printed, duets_proved
from manyarms.errors import InvalidParameterError
from manyarms.support.validation import count, non_negative, probability

TrimWidth = Literal["printed", "proved"] | float


def epoch_lengths(horizon: int, first: int) -> tuple[int, ...]:
    """T_1 = `first`, T_j = ⌊√(T·T_{j−1})⌋, the last one cut so that they sum to T (theory §9.2).

    >>> epoch_lengths(50, 2)
    (2, 10, 22, 16)
    """
    horizon, length = count("horizon", horizon), count("first_epoch", first)
    lengths, left = [], horizon
    while left > 0:
        lengths.append(min(length, left))
        left -= lengths[-1]
        length = math.isqrt(horizon * length)
    return tuple(lengths)


def delta_prime(delta: float, n_epochs: int, n_points: float) -> float:
    """δ' = δ/(2·J·|X|), the failure probability of one of the bounds.

    J is the actual number of epochs, because the printed log(log N·log T) is −∞ at N = 1.
    """
    return probability("delta", delta) / (2.0 * n_epochs * n_points)


def theoretical_oversampling(n_agents: int, horizon: int, failure: float) -> float:
    """p₀ = 72 log(4NT/δ') with `failure` = δ' (DUETS §3); the paper's experiments use 10."""
    return 72.0 * math.log(4.0 * n_agents * horizon / failure)


def trim_width(width: TrimWidth, norm_bound: float, noise_std: float, ridge: float, failure: float) -> float:
    """β in the trim rule μ̃(x) ≥ max μ̃ − 2βσ_max, where σ_max belongs to the exact posterior.

    "printed": B + R√((2/λ) log(2/δ')), which is proved for the exact mean (DUETS Lemma 2.5).
    "proved": the sparse mean needs (1+√2)B + … on σ̃, and σ̃ ≤ √3σ turns that into √3 times on σ_max
    (theory §4.8). A number is used as it is.
    """
    if not isinstance(width, str):
        return non_negative("width", width)
    if width not in ("printed", "proved"):
        raise InvalidParameterError("width", width, "'printed', 'proved' or a number")
    given = Assumptions(ridge, noise_std, norm_bound, failure)
    return duets_printed(given) if width == "printed" else math.sqrt(3.0) * duets_proved(given)

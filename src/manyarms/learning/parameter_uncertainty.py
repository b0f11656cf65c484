"""How much wider a posterior is when kernel and noise are themselves uncertain (theory §8.8).

A posterior at the best values found ignores that other length-scales, another noise or another family fit
nearly as well. At the arms fitted to, the total variance about the best fit's mean m is

    Σ_c w_c [v_c + p_c + (m_c − m)²]

over the candidates c with weights w ∝ exp(score), posterior means m_c and variances v_c, and p_c the part of
the uncertain values (`AtArms.from_parameters`). Its ratio to the best fit's own variance, over the arms with
the highest means because these are the ones users act on, is the factor by which reported variances grow.
It is computed from quantities that the comparison of families has anyway.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from manyarms.learning.map_fit import Fit

TOP_ARMS = 20
LARGEST_FACTOR = 3.0  # of standard deviations: beyond it the first-order approximation means nothing


def std_factor(fits: Sequence[Fit]) -> float:
    """The factor, at least 1, for posterior standard deviations under the fit with the highest score."""
    scored = [fit for fit in fits if fit.at_arms is not None and np.isfinite(fit.score)]
    if not scored:
        return 1.0
    best = max(scored, key=lambda fit: fit.score)
    assert best.at_arms is not None
    centre, own = best.at_arms.mean, best.at_arms.variance
    weights = np.exp(np.array([fit.score - best.score for fit in scored]))
    total = np.zeros(len(centre))
    for weight, fit in zip(weights / weights.sum(), scored, strict=True):
        at = fit.at_arms
        assert at is not None
        total += weight * (at.variance + at.from_parameters + (at.mean - centre) ** 2)
    top = np.argsort(-centre, kind="stable")[:TOP_ARMS]
    if not own[top].sum() > 0:
        return 1.0
    return float(np.clip(np.sqrt(total[top].sum() / own[top].sum()), 1.0, LARGEST_FACTOR))

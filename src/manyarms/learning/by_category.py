"""Effects of numbers that differ from one category to the next (theory §8.9).

In the other families a number has one length-scale, whatever the category, and the category another: either
the numbers have the same effects everywhere, or what is learned in one category says little about the next.
Here the covariance is the sum of a part for all arms, which is that of the best other family, and of a part
that is zero between different categories and has length-scales of its own:

    k = (k_shared + v 1[same category] k_own) / (1 + v),   log v ~ N(0, 1.5²).

So what all categories have in common is learned from all of them. Whether this explains the results better is
decided by evidence, for the category with the shortest length-scale.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyarms.kernels import KernelLike, OnColumns, OneHot, Product, Scale, Sum
from manyarms.kernels.readings import INDICATORS
from manyarms.learning.candidate import EVALUATIONS, Candidate, best_of
from manyarms.learning.kernel_families import Covariance, CovarianceAtScales, Family, StationaryFamily
from manyarms.learning.map_fit import SCALE_REACH, SCALE_SD, Fit, HyperPrior, Start, fit
from manyarms.learning.marginal_likelihood import Observations
from manyarms.learning.mixed_family import MixedFamily, Way
from manyarms.learning.way_search import with_fewer_arms
from manyarms.support.validation import Floats

MOST_LEVELS = 20  # of a category whose numbers may have effects of their own
MOST_NUMBERS = 12  # each has another length-scale
CHARGE = 2.0  # taken off the score, as for a column that is not read in the usual way
ODDS_SD, ODDS_REACH = 1.5, math.log(1e3)
APART = 1e-2  # a length-scale of names under which those that differ have covariance zero


@dataclass(frozen=True)
class ByCategory:
    """`shared` for all arms, and `own` among arms that agree in these `columns`, which hold one category.

    The last parameter is log v, the odds of the own part. `category` is the name of the column for the user.
    """

    shared: Family
    own: MixedFamily
    columns: tuple[int, ...]
    category: str

    @property
    def name(self) -> str:
        """The kernel of the shared part, and which category it is."""
        return f"{self.shared.name}; own effects by {self.category}"

    @property
    def typical(self) -> Floats:
        """Those of both parts, and a variance of one half for each."""
        return np.concatenate([self.shared.typical, self.own.typical, [0.0]])

    @property
    def shortest(self) -> Floats:
        """Those of both parts, and none of log v."""
        return np.concatenate([self.shared.shortest, self.own.shortest, [-math.inf]])

    def covariance_on(self, features: Any) -> CovarianceAtScales:
        """(1 − w) k_shared + w S k_own with w = v / (1 + v); ∂/∂log v = w (1 − w) (S k_own − k_shared)."""
        shared_at, own_at = self.shared.covariance_on(features), self.own.covariance_on(features)
        n, category = len(self.shared.typical), np.asarray(features)[:, self.columns]
        same = (category[:, None, :] == category[None, :, :]).all(axis=2).astype(np.float64)

        def at(log_scales: Floats) -> Covariance:
            shared, own, weight = shared_at(log_scales[:n]), own_at(log_scales[n:-1]), _share(log_scales[-1])
            within = same * own.matrix

            def contract(G: Floats) -> Floats:
                among = G * same
                by_odds = weight * (1.0 - weight) * (np.vdot(G, within) - np.vdot(G, shared.matrix))
                return np.concatenate(  # both parts may overwrite their argument
                    [(1.0 - weight) * shared.contract(G), weight * own.contract(among), [by_odds]]
                )

            return Covariance((1.0 - weight) * shared.matrix + weight * within, contract)

        return at

    def kernel(self, log_scales: Floats) -> KernelLike:
        """The sum of both parts; names a hundredth of a length-scale apart have nothing in common."""
        n, weight = len(self.shared.typical), _share(log_scales[-1])
        same = OnColumns(OneHot(APART, None), self.columns)
        own = Product(self.own.kernel(log_scales[n:-1]), same)
        return Sum(Scale(self.shared.kernel(log_scales[:n]), 1.0 - weight), Scale(own, weight))


def _share(log_odds: float) -> float:
    return 1.0 / (1.0 + math.exp(-float(log_odds)))


def by_category(
    ways: tuple[tuple[Way, ...], ...], features: Any, observations: Observations, candidates: list[Candidate]
) -> list[Candidate]:
    """The best candidate with effects by the category that matters most, if fewer arms promise more."""
    best = best_of(candidates)
    family = _family(best.fit, ways, features)
    if family is None:
        return []
    prior = _prior(best.prior, family.own)
    start = _promising(family, prior, best, features, observations)
    if start is None:
        return []
    found = fit(family, features, observations, start, EVALUATIONS, prior)
    return [Candidate(found, prior, best.charge + CHARGE)]


def _family(found: Fit, ways: tuple[tuple[Way, ...], ...], features: Any) -> ByCategory | None:
    """The family of this fit with effects by category; None if there is no category, or no number."""
    read = _as_read(found.family, ways)
    numbers = tuple(way for way in read if not _is_category(way))
    categories = [way for way in read if _is_category(way) and _levels(way, features) <= MOST_LEVELS]
    if not categories or not 0 < len(numbers) <= MOST_NUMBERS:
        return None
    nearest = min(categories, key=lambda way: _log_scale(found, read, way))
    own = MixedFamily(numbers, separate=True)
    return ByCategory(found.family, own, nearest.readings[0].columns, nearest.column)


def _as_read(family: Family, ways: tuple[tuple[Way, ...], ...]) -> tuple[Way, ...]:
    """How the columns are read; nothing for a family without ways, and for words and strings."""
    if isinstance(family, MixedFamily):
        return () if family.positions else family.ways
    usual = isinstance(family, StationaryFamily) and not family.own_units
    return tuple(each[0] for each in ways) if usual else ()


def _is_category(way: Way) -> bool:
    return way.is_name or way.readings[0].kind == INDICATORS


def _levels(way: Way, features: Any) -> int:
    columns = way.readings[0].columns
    return len(columns) if len(columns) > 1 else len(np.unique(np.asarray(features)[:, columns]))


def _log_scale(found: Fit, read: tuple[Way, ...], category: Way) -> float:
    """The log length-scale of this category; the first one if all columns share it."""
    family, scales = found.family, found.log_scales
    if len(scales) == 1:
        return float(scales[0])
    if isinstance(family, StationaryFamily):
        return float(scales[family.groups[category.readings[0].columns[0]]])
    readings = [reading for way in read for reading in way.readings]
    return float(scales[readings.index(category.readings[0])])


def _promising(
    family: ByCategory, prior: HyperPrior, best: Candidate, features: Any, observations: Observations
) -> Start | None:
    """Where to start, if on fewer arms the mode found is higher by more than the charge.

    The search begins at the centre of the prior: from the fit without effects by category it often ends in a
    mode near that one.
    """
    few, seen = with_fewer_arms(features, observations)
    found = fit(family, few, seen, prior.start, EVALUATIONS, prior, scored=False)
    known = best.fit if len(seen) == len(observations) else best.refit(few, seen, scored=False)
    gain = _height(found, prior) - _height(known, best.prior)
    return found.start if gain > CHARGE else None


def _height(found: Fit, prior: HyperPrior) -> float:
    """The score without what its parameters cost for being determined."""
    z = (found.start.values - prior.centre) / prior.sd
    return float(found.evidence - 0.5 * z @ z)


def _prior(shared: HyperPrior, own: MixedFamily) -> HyperPrior:
    """The prior of the shared part, with own length-scales and log v before signal and noise."""

    def put(values: Floats, of_own: Floats, odds: float) -> Floats:
        return np.concatenate([values[:-2], of_own, [odds], values[-2:]])

    typical = own.typical
    shortest = np.maximum(typical - SCALE_REACH, np.minimum(own.shortest, typical))
    return HyperPrior(
        put(shared.centre, typical, 0.0),
        put(shared.sd, np.full(len(typical), SCALE_SD), ODDS_SD),
        put(shared.lower, shortest, -ODDS_REACH),
        put(shared.upper, typical + SCALE_REACH, ODDS_REACH),
    )

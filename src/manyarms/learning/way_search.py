"""Choose by evidence how the columns of a table are read (theory §8.9).

There are too many combinations of ways to fit them all. Families that read every column in the usual way
have been fitted when the search begins. It fits the corners, where all columns are names or all are in order,
and then changes single columns of the best fit: with the other parameters as they are, the evidence is
computed once for every change and a few length-scales of the changed column. Only the changes that raise it
are fitted, first all of them together, then the best one alone.

A change costs two units of the score, a factor of e² in the odds: the evidence is also asked about the many
columns that are what they seem.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manyarms.kernels.hamming import codes_of
from manyarms.learning.candidate import EVALUATIONS, Candidate, best_of
from manyarms.learning.kernel_families import HammingFamily, StationaryFamily
from manyarms.learning.map_fit import Fit, HyperPrior, Start, fit
from manyarms.learning.marginal_likelihood import Observations, log_evidence_alone
from manyarms.learning.mixed_family import MixedFamily, Way
from manyarms.support.validation import Floats

CHARGE = 2.0  # taken off the score for each column that is not read in the usual way
MOST_NAMES_APART = 64  # columns of names that may each have a length-scale
MOST_CHANGES = 32  # ways whose evidence is computed, of the columns with the shortest length-scales first
MOST_COLUMNS = 256  # that may each have a length-scale
SCREENED_ARMS = 100  # at most this many decide which changes are fitted
SCREENED_NOISE = 0.1  # a noise variance under which every column is free to explain more or less
NO_NOISE = 0.02  # a learned noise variance below which a fit counts as one without noise
STEPS = (-1.0, 0.0, 1.0, 2.0)  # from the shared log length-scale to those tried for a column
ROUNDS = 3  # of changes
MARGIN = (
    3.0  # by which the score of a corner may lie below the best, to be fitted with separate length-scales
)

Ways = tuple[tuple[Way, ...], ...]


def other_ways(
    ways: Ways, features: Any, observations: Observations, candidates: list[Candidate]
) -> list[Candidate]:
    """Candidates with other ways to read the columns, and with a length-scale for each column of names."""
    search = _Search(ways, features, observations)
    found = search.corners(candidates)
    return found + search.changed(best_of([*candidates, *found]))


@dataclass(frozen=True, eq=False)
class _Change:
    """One column read in another way, with the log length-scale at which the evidence is highest."""

    gain: float
    column: int
    way: Way
    log_scale: float
    others: Floats  # log s², log σ² at which it was found

    def worth(self) -> float:
        """The gain after what the way costs."""
        return self.gain - CHARGE * self.way.cost


@dataclass(frozen=True)
class _Point:
    """A fit in terms of ways: the log length-scale of each column, and the other parameters."""

    family: MixedFamily
    log_scales: tuple[Floats, ...]  # for each column, those of its readings
    others: Floats  # log s², log σ²
    shared: float  # the log length-scale found for all columns together

    @property
    def values(self) -> Floats:
        """All parameters, in the order of a family with a length-scale for each reading."""
        return np.concatenate([*self.log_scales, self.others])

    def after(self, changes: Sequence[_Change]) -> _Point:
        """The point with columns read in other ways; a second reading has the shared length-scale."""
        ways, scales = list(self.family.ways), list(self.log_scales)
        for change in changes:
            ways[change.column] = change.way
            scales[change.column] = np.full(len(change.way.readings), self.shared)
            scales[change.column][0] = change.log_scale
        family = replace(self.family, ways=tuple(ways))
        return replace(self, family=family, log_scales=tuple(scales), others=changes[0].others)


@dataclass(frozen=True)
class _Search:
    """What all fits of one search have in common."""

    ways: Ways
    features: Any
    observations: Observations

    @property
    def _positions(self) -> bool:
        """Whether the columns are positions of codes, words or strings, which are usually names."""
        return all(ways[0].is_name for ways in self.ways)

    # ------------------------------------------------------------------ corners

    def corners(self, candidates: list[Candidate]) -> list[Candidate]:
        """All columns as names, and all in order, with one length-scale and with one for each column."""
        return self._names(candidates) + self._in_order(candidates)

    def _names(self, candidates: list[Candidate]) -> list[Candidate]:
        """Names have been fitted with one length-scale, unless they are an unlikely reading of numbers."""
        known = [each for each in candidates if _all_names(each.fit.family)]
        if not known or not self._is_near(best_of(known), candidates):
            return []
        found = []
        if not any(isinstance(each.fit.family, MixedFamily) for each in known):
            found = [self._fitted(self._as_names(2.5))]
        return [*found, *self._separated(best_of([*known, *found]))]

    def _as_names(self, nu: float | None) -> MixedFamily:
        """A column with two values, which has no other way, is the same as a name."""
        ways = tuple(next((way for way in ways if way.is_name), ways[0]) for ways in self.ways)
        return MixedFamily(ways, nu=nu, positions=self._positions)

    def _in_order(self, candidates: list[Candidate]) -> list[Candidate]:
        """Of columns that are usually names."""
        if not self._positions or all(len(ways) == 1 for ways in self.ways):
            return []
        found = self._fitted(MixedFamily(tuple(ways[-1] for ways in self.ways), positions=True))
        return [found, *self._separated(found)] if self._is_near(found, candidates) else [found]

    def _is_near(self, candidate: Candidate, candidates: list[Candidate]) -> bool:
        return candidate.score >= best_of(candidates).score - MARGIN

    def _fitted(self, family: MixedFamily) -> Candidate:
        found = fit(family, self.features, self.observations)
        return Candidate(found, HyperPrior.of(family), self._charge(family))

    def _separated(self, candidate: Candidate) -> list[Candidate]:
        """The same with a length-scale for each column."""
        point = self._point(candidate)
        if point is None or not 1 < len(point.family.readings) <= MOST_NAMES_APART:
            return []
        return [self._fit_from(point, candidate.fit)]

    def _fit_from(self, point: _Point, fitted: Fit) -> Candidate:
        """A fit with a length-scale for each reading, which are as well determined as those fitted."""
        prior, n = HyperPrior.of(point.family, point.shared), len(point.family.readings)
        scales = fitted.inverse_sd[:-2]
        each = scales if len(scales) == n else np.full(n, np.sqrt(np.sum(scales**2) / n))
        start = Start(point.values, np.append(each, fitted.inverse_sd[-2:]))
        found = fit(point.family, self.features, self.observations, start, EVALUATIONS, prior)
        return Candidate(found, prior, self._charge(point.family))

    def _charge(self, family: MixedFamily) -> float:
        """For what is not read in the usual way; that all positions are in order is one assumption."""
        cost = sum(way.cost for way in family.ways)
        if self._positions:
            unchanged = sum(
                len(ways) > 1 and not way.cost for way, ways in zip(family.ways, self.ways, strict=True)
            )
            cost = min(cost, 1 + unchanged)
        return CHARGE * cost

    # ------------------------------------------------------------------ single columns

    def changed(self, best: Candidate) -> list[Candidate]:
        """The best candidate with some columns read in another way, and so on from the best of these."""
        if len(self.ways) > MOST_COLUMNS or all(len(ways) == 1 for ways in self.ways):
            return []
        found: list[Candidate] = []
        for _ in range(ROUNDS):
            fitted = self._changed_once(best)
            found += fitted
            if not fitted or best_of(fitted).score <= best.score:
                break
            best = best_of(fitted)
        return found

    def _changed_once(self, best: Candidate) -> list[Candidate]:
        """Fits after promising changes, until one is better: several together, and the best ones alone."""
        point = self._point(best)
        changes = [] if point is None else self._promising(point)
        if point is None or not changes:
            return []
        certain = [each for each in changes if each.others is point.others and each.worth() > 0]
        sets = [certain, certain[:1], changes[:1]]
        found: list[Candidate] = []
        for i, together in enumerate(sets):
            if together and together not in sets[:i]:
                found.append(self._fit_from(point.after(together), best.fit))
                if found[-1].score > best.score:
                    break
        return found

    def _promising(self, point: _Point) -> list[_Change]:
        """The changes that raise the evidence, at most one for each column, the best first."""
        changes, left, some = list[_Change](), MOST_CHANGES, self._with_fewer_arms()
        for column in np.argsort([scales[0] for scales in point.log_scales], kind="stable").tolist():
            others = [way for way in self.ways[column] if way is not point.family.ways[column]][:left]
            left -= len(others)
            changes += some._best_change(point, column, others)
        return sorted(changes, key=_Change.worth, reverse=True)

    def _with_fewer_arms(self) -> _Search:
        """The same for fewer arms, which suffice to compare ways."""
        features, observations = with_fewer_arms(self.features, self.observations)
        return replace(self, features=features, observations=observations)

    def _best_change(self, point: _Point, column: int, ways: list[Way]) -> list[_Change]:
        """The best way to read this column if it raises the evidence.

        Every way, also the present one, may have its own length-scale. Signal and noise are those of the fit.
        A fit without noise cannot be changed in one place alone; there typical ones are tried too.
        """
        if not ways:
            return []
        scales = {float(point.log_scales[column][0]), *(point.shared + step for step in STEPS)}
        best: list[_Change] = []
        typical = [np.array([0.0, math.log(SCREENED_NOISE)])] if point.others[1] < math.log(NO_NOISE) else []
        for others in (point.others, *typical):
            present, *tried = (
                max(
                    (
                        self._tried(point, _Change(0.0, column, way, scale, others))
                        for scale in sorted(scales)
                    ),
                    key=lambda each: each.gain,
                )
                for way in (point.family.ways[column], *ways)
            )
            best += [replace(each, gain=each.gain - present.gain) for each in tried]
        best = [each for each in best if each.gain > 0]
        return [max(best, key=_Change.worth)] if best else []

    def _tried(self, point: _Point, change: _Change) -> _Change:
        """The change, with the evidence after it in place of the gain."""
        return replace(change, gain=self._evidence(point.after([change])))

    def _evidence(self, point: _Point) -> float:
        signal, noise = np.exp(point.others).tolist()
        covariance = point.family.covariance_on(self.features)(point.values[:-2])
        return log_evidence_alone(covariance.matrix, signal, noise, self.observations)

    def _point(self, candidate: Candidate) -> _Point | None:
        """The candidate in terms of ways; None if it has none, or measures columns in their own units."""
        fitted, family = candidate.fit, candidate.fit.family
        scales = fitted.log_scales
        shared = float(candidate.prior.centre[0] if len(scales) > 1 else scales[0]) if len(scales) else 0.0
        if isinstance(family, MixedFamily):
            mixed = family
            by_column = _split(scales, [len(way.readings) for way in family.ways], family.separate)
        elif isinstance(family, HammingFamily):  # exp(−h/l) of d positions is RBF with l² = d·l
            shared = 0.5 * float(scales[0] + np.log(codes_of(self.features).shape[1]))
            mixed, by_column = self._as_names(None), [np.array([shared])] * len(self.ways)
        elif isinstance(family, StationaryFamily) and not family.own_units:
            mixed = MixedFamily(tuple(ways[0] for ways in self.ways), nu=family.nu)
            groups = [family.groups[way.readings[0].columns[0]] for way in mixed.ways]
            by_column = [scales[[group]] for group in groups]
        else:
            return None
        return _Point(mixed.separated(), tuple(by_column), fitted.start.values[-2:], shared)


def with_fewer_arms(features: Any, seen: Observations) -> tuple[Any, Observations]:
    """Every second arm, or every third and so on, at most SCREENED_ARMS."""
    some = np.arange(0, len(seen), math.ceil(len(seen) / SCREENED_ARMS))
    stated = None if seen.stated is None else seen.stated[some]
    return features[some], replace(seen, counts=seen.counts[some], means=seen.means[some], stated=stated)


def _split(scales: Floats, widths: list[int], separate: bool) -> list[Floats]:
    """The log length-scales of the readings of each column."""
    if not separate:
        return [np.full(width, scales[0]) for width in widths]
    return np.split(scales, np.cumsum(widths)[:-1])


def _all_names(family: object) -> bool:
    return isinstance(family, HammingFamily) or (isinstance(family, MixedFamily) and family.all_names)

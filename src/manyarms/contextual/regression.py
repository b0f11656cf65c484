"""Ridge regression on the rows z: V = Σ c z zᵀ + λI and b = Σ c y z, with c the weight of a result.

V − λI and b are all that is kept of the results. V⁻¹, w = V⁻¹b and log det(V/λ) follow from them; they are
updated with each result in O(m²), and computed again from V now and then so that rounding errors do not grow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyarms.posterior.precision import InversePrecision
from manyarms.support.frozen import changed
from manyarms.support.validation import Floats

_AFRESH = 2000  # updates after which V⁻¹ is computed from V
_TOGETHER = 32  # results whose rank-one terms are added in one matrix product


@dataclass(frozen=True, eq=False)
class Regression:
    """The sums over the results so far, and what follows from them."""

    ridge: float  # λ
    settled: Floats  # V − λI without the results in `recent`, m × m
    recent: tuple[tuple[Floats, float], ...]  # z and c of the last results
    moment: Floats  # b
    precision: InversePrecision  # V⁻¹
    vector: Floats  # w = V⁻¹b
    log_det: float  # log det(V/λ)
    updates: int = 0  # since V⁻¹ was computed from V

    @classmethod
    def of(cls, gram: Floats, moment: Floats, ridge: float) -> Regression:
        """The regression with these sums, in O(m³)."""
        V = gram + ridge * np.eye(len(gram))
        precision = InversePrecision.of(V)
        log_det = float(np.linalg.slogdet(V / ridge)[1]) if len(gram) else 0.0
        vector = precision.apply(moment[:, None])[:, 0]
        return cls(ridge, gram, (), moment, precision, vector, max(log_det, 0.0))

    @classmethod
    def empty(cls, size: int, ridge: float) -> Regression:
        """The regression before any result."""
        return cls.of(np.zeros((size, size)), np.zeros(size), ridge)

    @property
    def size(self) -> int:
        """m, the length of z."""
        return len(self.moment)

    @property
    def gram(self) -> Floats:
        """V − λI."""
        if not self.recent:
            return self.settled
        Z = np.array([z for z, _ in self.recent])
        return np.asarray(self.settled + (Z.T * [weight for _, weight in self.recent]) @ Z)

    @property
    def explained(self) -> float:
        """Σ c zᵀV⁻¹z = tr(V⁻¹(V − λI)) = m − λ tr V⁻¹, the part of d_eff inside the span."""
        inverse = self.precision
        squares = np.einsum("ij,ij->j", inverse.terms, inverse.terms)
        trace = np.trace(inverse.base) + inverse.signs @ squares
        return float(max(self.size - self.ridge * trace, 0.0))

    def added(self, z: Floats, weight: float, total: float) -> Regression:
        """With results of weight c = `weight` (negative to take them back) and Σ c y = `total` at one z."""
        if not weight:
            return self
        g = self.precision.apply(z[:, None])[:, 0]
        growth = 1.0 + weight * float(z @ g)
        moment, recent, settled = self.moment + total * z, (*self.recent, (z, weight)), self.settled
        if growth < 1e-6 or self.updates >= _AFRESH:  # growth: V loses nearly all it had in this direction
            return Regression.of(changed(self, recent=recent).gram, moment, self.ridge)
        if len(recent) >= _TOGETHER:
            settled, recent = changed(self, recent=recent).gram, ()
        return Regression(
            self.ridge,
            settled,
            recent,
            moment,
            _with_term(self.precision, g, weight / growth),
            self.vector + ((total - weight * float(z @ self.vector)) / growth) * g,
            max(self.log_det + float(np.log(growth)), 0.0),
            self.updates + 1,
        )

    def widened(self, more: int) -> Regression:
        """With further entries of z, which are zero in every result so far."""
        gram, size, m = self.gram, self.size + more, self.size
        settled, moment, vector = np.zeros((size, size)), np.zeros(size), np.zeros(size)
        settled[:m, :m], moment[:m], vector[:m] = gram, self.moment, self.vector
        precision = self.precision.bordered(np.zeros((m, more)), np.eye(more) / np.sqrt(self.ridge))
        return Regression(self.ridge, settled, (), moment, precision, vector, self.log_det, self.updates)

    def mapped(self, T: Floats) -> Regression:
        """With T z in place of z in every result."""
        gram = T @ self.gram @ T.T
        return Regression.of(0.5 * (gram + gram.T), T @ self.moment, self.ridge)

    def discounted(self, factor: float) -> Regression:
        """With every weight multiplied by `factor`."""
        return Regression.of(factor * self.gram, factor * self.moment, self.ridge)

    def to_plain(self) -> dict[str, Any]:
        """Every number, so that a resumed run continues bit for bit."""
        plain = dict(vars(self))
        plain["recent_z"] = np.array([z for z, _ in self.recent])
        plain["recent_weights"] = [weight for _, weight in self.recent]
        del plain["recent"]
        return plain | {"precision": dict(vars(self.precision))}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Regression:
        """The regression that `to_plain` wrote."""
        others = {name: plain[name] for name in plain if not name.startswith("recent_")}
        recent = tuple(zip(plain["recent_z"], plain["recent_weights"], strict=True))
        return cls(**{**others, "recent": recent, "precision": InversePrecision(**plain["precision"])})


def _with_term(inverse: InversePrecision, g: Floats, scale: float) -> InversePrecision:
    """V⁻¹ − scale · ggᵀ; a result that is taken back has a negative scale."""
    term = np.sqrt(abs(scale)) * g[:, None]
    terms, signs = np.hstack([inverse.terms, term]), np.append(inverse.signs, -np.sign(scale))
    if len(signs) < _TOGETHER:
        return InversePrecision(inverse.base, terms, signs)
    base, inner = (terms * signs) @ terms.T, len(inverse.base)
    base[:inner, :inner] += inverse.base
    return InversePrecision(base, np.empty((len(g), 0)), np.empty(0))

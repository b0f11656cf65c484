"""The posterior of SOFUL for a contextual bandit: V is sketched by frequent directions, b is exact."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np

from manyarms.contextual.model import RowValues, StreamedPosterior
from manyarms.contextual.regression import Regression
from manyarms.posterior.frequent_directions import FrequentDirections
from manyarms.posterior.precision import InversePrecision
from manyarms.support.frozen import changed
from manyarms.support.validation import Floats


@dataclass(frozen=True, eq=False)
class SketchedPosterior(StreamedPosterior):
    """Linear regression whose V̂⁻¹, w and determinant come from a sketch of V (theory §2.7)."""

    sketch: FrequentDirections = field(kw_only=True)

    @classmethod
    def of(cls, plain: StreamedPosterior, size: int) -> SketchedPosterior:
        """The model before any result, with a sketch of `size` rows."""
        inherited = {part.name: getattr(plain, part.name) for part in fields(StreamedPosterior)}
        return cls(**inherited, sketch=FrequentDirections(size, plain.size))

    @property
    def escaped(self) -> float:
        """ρ, a bound on the largest eigenvalue that the sketch of V has lost."""
        return self.sketch.escaped

    @property
    def effective_dimension(self) -> float:
        """Σ c σ̂² over the results, as far as the sketch shows them: d − λ tr V̂⁻¹."""
        return self.regression.explained

    def conditioned(self, values: RowValues, weights: Floats, sums: Floats) -> SketchedPosterior:
        """With results at these rows: Σ c and Σ c y of each."""
        moment = self.regression.moment + values.z.T @ sums
        longer = changed(self, weight=self.weight + float(weights.sum()))
        return longer._on(self.sketch.updated(values.z, weights), moment)

    def discounted(self, factor: float) -> SketchedPosterior:
        """With every past weight multiplied by `factor`."""
        old = self.sketch
        assert old.rows is not None
        sketch = FrequentDirections(
            old.size, old.n_features, np.sqrt(factor) * old.rows, factor * old.escaped
        )
        lighter = changed(self, weight=factor * self.weight)
        return lighter._on(sketch, factor * self.regression.moment)

    def _on(self, sketch: FrequentDirections, moment: Floats) -> SketchedPosterior:
        ridge, old = self.ridge, self.regression
        precision = InversePrecision(
            sketch.apply_inverse(np.eye(self.size), ridge), np.empty((self.size, 0)), np.empty(0)
        )
        # det V ≤ det(BᵀB + (λ + ρ)I), an upper bound that the width can use.
        log_det = sketch.log_determinant(ridge + sketch.escaped) - self.size * np.log(ridge)
        vector = sketch.apply_inverse(moment, ridge)
        regression = Regression(ridge, old.settled, (), moment, precision, vector, float(log_det))
        return changed(self, sketch=sketch, regression=regression)

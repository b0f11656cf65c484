"""Thompson draws at the rows of one round.

Few rows are drawn jointly from their exact posterior covariance, in O(n³ + n·m²). With many rows the weights
of z are drawn once for all of them, and the residual part jointly within blocks of rows and independently
between blocks: the distribution of every value is exact, and blocks are correlated through z alone.
"""

from __future__ import annotations

import math

import numpy as np

from manyarms.contextual.model import RowValues, StreamedPosterior
from manyarms.embeddings.nystrom import covariances
from manyarms.support.validation import Floats

MOST_JOINT = 256


def drawn_values(
    model: StreamedPosterior, values: RowValues, scale: float, rng: np.random.Generator
) -> Floats:
    """One function drawn from the posterior at these rows, with `scale` times its standard deviation."""
    if len(values.mean) <= MOST_JOINT:
        deviation = _correlated(model.between(values, values), rng)
    else:
        root = model.regression.precision.root()
        deviation = values.z @ (root @ rng.standard_normal(model.size))
        for start in range(0, len(values.mean), MOST_JOINT):
            block = slice(start, start + MOST_JOINT)
            if model.keeps_residual and values.residual[block].any():
                deviation[block] += _correlated(_residual(model, values.part(block)), rng)
    return np.asarray(values.mean + scale * math.sqrt(model.ridge) * deviation)


def _residual(model: StreamedPosterior, values: RowValues) -> Floats:
    return (covariances(model.kernel, values.rows, values.rows) - values.z @ values.z.T) / model.ridge


def _correlated(covariance: Floats, rng: np.random.Generator) -> Floats:
    """Normal numbers with this covariance, which may be singular: equal rows get equal numbers."""
    return np.asarray(_root(covariance) @ rng.standard_normal(len(covariance)))


def _root(covariance: Floats) -> Floats:
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))

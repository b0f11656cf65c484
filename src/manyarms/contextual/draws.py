"""Thompson draws at the rows of one round.

Few rows are drawn jointly from their exact posterior covariance, in O(n³ + n·m²). With many rows the weights
of z are drawn once for all of them, and the residual part jointly within blocks of rows and independently
between blocks: the distribution of every value is exact, and blocks are correlated through z alone.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from manyarms.contextual.model import RowValues, StreamedPosterior
from manyarms.embeddings.nystrom import covariances
from manyarms.support.linalg import semidefinite_root
from manyarms.support.random_streams import RandomStreams
from manyarms.support.validation import Floats

MOST_JOINT = 256
_FEW, _ROUNDS = 64, 64  # rows whose normal numbers are drawn for so many rounds at once


def drawn_values(
    model: StreamedPosterior, values: RowValues, scale: float, streams: RandomStreams, number: int
) -> Floats:
    """One function drawn from the posterior at these rows, with `scale` times its standard deviation.

    `number` is that of the round, which the random numbers belong to.
    """
    n = len(values.mean)
    if n <= MOST_JOINT:
        deviation = semidefinite_root(model.between(values, values)) @ _normals(streams, number, n)
    else:
        rng = streams.at("thompson", number)
        root = model.regression.precision.root()
        deviation = values.z @ (root @ rng.standard_normal(model.size))
        for start in range(0, n, MOST_JOINT):
            block = slice(start, start + MOST_JOINT)
            if model.keeps_residual and values.residual[block].any():
                root = semidefinite_root(_residual(model, values.part(block)))
                deviation[block] += root @ rng.standard_normal(len(root))
    return np.asarray(values.mean + scale * math.sqrt(model.ridge) * deviation)


def _residual(model: StreamedPosterior, values: RowValues) -> Floats:
    return (covariances(model.kernel, values.rows, values.rows) - values.z @ values.z.T) / model.ridge


def _normals(streams: RandomStreams, number: int, n: int) -> Floats:
    """n normal numbers for a round: making a generator for each would be a tenth of a round."""
    if n > _FEW:
        return streams.at("thompson", number).standard_normal(n)
    block: Floats = _normals_of_rounds(streams, number // _ROUNDS)[number % _ROUNDS, :n]
    return block


@lru_cache(maxsize=64)
def _normals_of_rounds(streams: RandomStreams, block: int) -> Floats:
    return streams.at("thompson of few rows", block).standard_normal((_ROUNDS, _FEW))

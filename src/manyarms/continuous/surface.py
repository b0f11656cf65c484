"""Mean and variance of the posterior at any coordinates, as smooth functions with gradients.

The posterior covariance is C(x, y) = k(x, y) − z(x)ᵀz(y) + λ z(x)ᵀV⁻¹z(y) (theory §2.5). Pending points U are
hallucinated: the mean stays, and the variance is C(x, x) − C(x, U)(C(U, U) + λI)⁻¹C(U, x).
"""

from __future__ import annotations

import numpy as np

from manyarms.continuous.variation import Encode
from manyarms.embeddings.nystrom import Nystrom
from manyarms.posterior.posterior import Posterior
from manyarms.support.linalg import forward, inverse_lower
from manyarms.support.validation import Floats

_STEP = 1e-5  # of a coordinate, for the derivatives of the kernel: a central difference errs by some 1e-10


class Surface:
    """The posterior at one moment, with pending points, as a function of coordinates."""

    def __init__(self, posterior: Posterior, encode: Encode, pending: Floats) -> None:
        embedding = posterior.embedding()
        assert isinstance(embedding, Nystrom)
        self._sketch, self._encode, self._ridge = embedding, encode, posterior.ridge
        self._weights, self._kernel = posterior.state.weights, posterior.kernel
        self._pending = encode(pending)
        self._pending_rows = self._sketch.matrix(self._pending)
        self._whitening = np.empty((0, 0))
        if len(pending):
            between, _ = self._with_pending(self._pending, self._pending_rows)
            self._whitening = inverse_lower(between + self._ridge * np.eye(len(pending)))

    @property
    def sketch_size(self) -> int:
        """m, which the cost of an evaluation grows with."""
        return self._sketch.dimension

    def values(self, coordinates: Floats) -> tuple[Floats, Floats]:
        """Mean and variance at these coordinates."""
        features = self._encode(coordinates)
        Z = self._sketch.matrix(features)
        solved = self._weights.precision.apply(Z.T)
        residual = np.maximum(self._kernel.diag(features) - np.einsum("ij,ij->i", Z, Z), 0.0)
        variance = residual + self._ridge * np.maximum(np.einsum("ij,ji->i", Z, solved), 0.0)
        if len(self._pending):
            _, whitened = self._with_pending(features, Z)
            variance = np.maximum(variance - np.einsum("ij,ij->j", whitened, whitened), 0.0)
        return Z @ self._weights.vector, variance

    def gradients(self, coordinate: Floats) -> tuple[float, float, Floats, Floats]:
        """Mean and variance at one place, and their derivatives by its coordinates.

        The derivatives of the kernel are central differences; everything else is differentiated exactly.
        """
        d = len(coordinate)
        shifts = np.vstack([np.zeros(d), _STEP * np.eye(d), -_STEP * np.eye(d)])
        features = self._encode(coordinate + shifts)
        K, prior = self._kernel.matrix(self._sketch.points, features), self._kernel.diag(features)
        Z = forward(self._sketch.factor, np.column_stack([K[:, 0], _differences(K)]))  # z and ∂z, m × (1 + d)
        z, slopes = Z[:, 0], Z[:, 1:]
        solved = self._weights.precision.apply(z[:, None])[:, 0]
        mean, variance = self._weights.vector @ z, max(prior[0] - z @ z, 0.0) + self._ridge * z @ solved
        mean_slope = self._weights.vector @ slopes
        variance_slope = _differences(prior[None])[0] + 2.0 * (self._ridge * solved - z) @ slopes
        if len(self._pending):
            at = self._kernel.matrix(self._pending, features)
            shrunk = self._pending_rows - self._ridge * self._weights.precision.apply(self._pending_rows.T).T
            both = self._whitening @ np.column_stack([at[:, 0], _differences(at)]) - (
                self._whitening @ (shrunk @ Z)
            )
            variance -= both[:, 0] @ both[:, 0]
            variance_slope -= 2.0 * both[:, 0] @ both[:, 1:]
        return float(mean), max(float(variance), 0.0), mean_slope, variance_slope

    def _with_pending(self, features: Floats, rows: Floats) -> tuple[Floats, Floats]:
        """C(x, U) for these points, n × u, and the same whitened by C(U, U) + λI, u × n."""
        solved = self._weights.precision.apply(self._pending_rows.T)
        covariance = self._kernel.matrix(features, self._pending) - rows @ self._pending_rows.T
        covariance += self._ridge * rows @ solved
        whitened = self._whitening @ covariance.T if len(self._whitening) else np.empty((0, len(rows)))
        return covariance, whitened


def _differences(values: Floats) -> Floats:
    """Central differences by every coordinate, from columns at a place, shifted up d times, and down."""
    d = (values.shape[1] - 1) // 2
    return np.asarray((values[:, 1 : 1 + d] - values[:, 1 + d :]) / (2.0 * _STEP))

"""The sparse Gaussian process of this package as a regressor for scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from manyarms.errors import InvalidParameterError
from manyarms.kernels import as_kernel
from manyarms.pool.pool import Pool
from manyarms.posterior.posterior import Posterior
from manyarms.sklearn.training_rows import (
    Assumed,
    distinct_rows,
    given,
    inducing_draw,
    learned,
    sparse_posterior,
)
from manyarms.support.validation import Floats, Ints, count, positive

_OUTGROWN = 1.5  # times max_inducing, above which partial_fit draws a smaller sketch


class SparseGPRegressor(RegressorMixin, BaseEstimator):
    """Gaussian-process regression with at most about `max_inducing` inducing points.

    Up to `max_inducing` different rows the posterior is exact. Beyond that, fitting costs O(n m²) and
    predicting O(m²) per row for m inducing points.

    kernel: "auto" learns kernel, noise and mean by their marginal likelihood. Otherwise a kernel of this
        package, a kernel of scikit-learn (used as it is, without `WhiteKernel`), or any object with
        `matrix(X, Y)` and `diag(X)`.
    noise_std: the standard deviation of the noise, in units of y; 0.1 by default. It must be left out if the
        kernel is learned.
    normalize_y: with a given kernel, centre y and divide it by its standard deviation; kernel and noise_std
        then refer to the normalised values. A learned model is always on such a scale.
    max_inducing: the number of inducing points.
    oversampling: q̄, the number of inducing points per effective dimension, up to `max_inducing` of them.
    random_state: the seed for the inducing points and for learning.

    Attributes after fitting: `kernel_` and `noise_std_` (in units of y), `model_` (the learned model with its
    assumptions, or None), `X_inducing_` (the inducing points), `n_features_in_`.
    """

    def __init__(
        self,
        kernel: Any = "auto",
        noise_std: float | None = None,
        *,
        normalize_y: bool = False,
        max_inducing: int = 1000,
        oversampling: float = 8.0,
        random_state: Any = 0,
    ) -> None:
        self.kernel = kernel
        self.noise_std = noise_std
        self.normalize_y = normalize_y
        self.max_inducing = max_inducing
        self.oversampling = oversampling
        self.random_state = random_state

    # ------------------------------------------------------------------ fitting

    def fit(self, X: Any, y: Any) -> SparseGPRegressor:
        """Learn the model, if the kernel is "auto", and condition it on the results.

        X: one row of numbers per result. Equal rows are repeated measurements.
        y: the results.
        """
        X, y = self._checked(X, y, reset=True)
        rng = self._generator()
        rows, places = distinct_rows(X)
        assumed = self._assumed(rows, places, y, rng)
        posterior = sparse_posterior(
            assumed,
            Pool(assumed.encoded(rows)),
            places,
            assumed.values(y),
            max_inducing=count("max_inducing", self.max_inducing),
            oversampling=positive("oversampling", self.oversampling),
            rng=rng,
        )
        self._keep(assumed, posterior, rows)
        return self

    def partial_fit(self, X: Any, y: Any) -> SparseGPRegressor:
        """Condition on further results; kernel, noise and scales stay those of the first call.

        A new row becomes an inducing point with the probability that its present variance gives it, as in
        BKB, so that a call with r rows costs O(n m r) and not a new fit.
        """
        if not hasattr(self, "_posterior"):
            return self.fit(X, y)
        X, y = self._checked(X, y, reset=False)
        fresh, places = self._places(X)
        posterior = Posterior.of(self._posterior.process, self._posterior.state)
        rows = np.concatenate([self._rows, fresh])
        new = np.arange(len(self._rows), len(rows))
        if len(new):
            posterior.extend(posterior.pool.extended(self._assumed_.encoded(fresh)))
        rng = self._generator(len(rows))
        posterior.update(self._inducing(posterior, new, rng), places, self._assumed_.values(y))
        if posterior.state.sketch_size > _OUTGROWN * self.max_inducing:
            posterior.rebuild(inducing_draw(posterior, self.max_inducing, self.oversampling, rng))
        self._keep(self._assumed_, posterior, rows)
        return self

    def _checked(self, X: Any, y: Any, reset: bool) -> tuple[Floats, Floats]:
        X, y = validate_data(self, X, y, reset=reset, dtype=np.float64, y_numeric=True)
        return X, np.asarray(y, dtype=np.float64)

    def _generator(self, number: int = 0) -> np.random.Generator:
        """A generator that depends on the random state and, for further results, on their number."""
        seed = check_random_state(self.random_state).randint(2**31)
        return np.random.default_rng([seed, number])

    def _assumed(self, rows: Floats, places: Ints, y: Floats, rng: np.random.Generator) -> Assumed:
        if isinstance(self.kernel, str) and self.kernel == "auto":
            if self.noise_std is not None:
                raise InvalidParameterError("noise_std", self.noise_std, "left out with kernel='auto'")
            return learned(rows, places, y, rng)
        noise = positive("noise_std", 0.1 if self.noise_std is None else self.noise_std)
        return given(as_kernel(self.kernel), noise, y, bool(self.normalize_y))

    def _places(self, X: Floats) -> tuple[Floats, Ints]:
        """Rows that were not seen before, and the number of each row of X among all rows seen."""
        known = {row.tobytes(): place for place, row in enumerate(self._rows + 0.0)}
        fresh: list[Floats] = []
        places = np.empty(len(X), dtype=np.int64)
        for i, row in enumerate(X + 0.0):  # adding 0 makes -0.0 and 0.0 equal
            place = known.setdefault(row.tobytes(), len(known))
            if place == len(self._rows) + len(fresh):
                fresh.append(row)
            places[i] = place
        return np.array(fresh).reshape(len(fresh), X.shape[1]), places

    def _inducing(self, posterior: Posterior, new: Ints, rng: np.random.Generator) -> Ints:
        """The new rows that become inducing points: all of them as long as the posterior can be exact."""
        if posterior.pool.n_arms <= self.max_inducing:
            return new
        return new[rng.random(len(new)) < np.minimum(1.0, self.oversampling * posterior.leverage[new])]

    def _keep(self, assumed: Assumed, posterior: Posterior, rows: Floats) -> None:
        self._assumed_, self._posterior, self._rows = assumed, posterior, rows
        self.kernel_ = assumed.kernel
        self.model_ = assumed.model
        self.noise_std_ = assumed.noise_std * assumed.spread
        self.X_inducing_ = rows[posterior.inducing]

    # ------------------------------------------------------------------ predicting

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """The mean of y without noise and, on request, its standard deviation or covariance matrix.

        X: rows of features.
        return_std: return also the standard deviation of each row.
        return_cov: return also the joint covariance of the rows; not together with `return_std`.
        """
        check_is_fitted(self)
        if return_std and return_cov:
            raise InvalidParameterError("return_std", True, "False if return_cov is True")
        X = validate_data(self, X, reset=False, dtype=np.float64)
        assumed, features = self._assumed_, self._assumed_.encoded(X)
        values, variance = self._posterior.at(features)
        scale = assumed.spread * assumed.std_factor
        mean = assumed.targets(values)
        if return_std:
            return mean, scale * np.sqrt(variance)
        return (mean, scale**2 * self._covariance(features)) if return_cov else mean

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> Floats:
        """Functions drawn from the posterior, at the rows of X: one column for each of `n_samples`.

        X: rows of features.
        n_samples: the number of functions.
        random_state: the seed of the draws.
        """
        mean, covariance = self.predict(X, return_cov=True)
        spread, directions = np.linalg.eigh(covariance)
        root = directions * np.sqrt(np.maximum(spread, 0.0))
        noise = check_random_state(random_state).standard_normal((len(mean), count("n_samples", n_samples)))
        return np.asarray(mean[:, None] + root @ noise)

    def _covariance(self, features: Any) -> Floats:
        """k(x, y) − z(x)ᵀz(y) + λ z(x)ᵀV⁻¹z(y) on the model's scale (theory §2.5 divides it by λ)."""
        posterior = self._posterior
        Z = posterior.embedding().matrix(features)
        explained = posterior.ridge * (Z @ posterior.state.weights.precision.apply(Z.T))
        covariance = posterior.kernel.matrix(features, features) - Z @ Z.T + explained
        return np.asarray(0.5 * (covariance + covariance.T))

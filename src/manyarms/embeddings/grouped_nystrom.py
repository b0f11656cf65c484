"""The Nyström embedding computed group by group, so that appending a group gives the same bits (theory §2.9).

With the columns z_1 of earlier groups known, those of a group S are

    z_S(x) = L_S⁻¹ (k_S(x) − Z_1(S) z_1(x)),        L_S L_Sᵀ = K_S − Z_1(S) Z_1(S)ᵀ.

Each group is rounded to the type in which columns are stored before it is used for the next one. Columns that
were stored and columns that are computed again are therefore equal to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manyarms.embeddings.nystrom import covariances
from manyarms.kernels import KernelLike
from manyarms.support.linalg import forward_over
from manyarms.support.validation import Floats

_JITTER = 1e-10  # of the prior variance: the least that a residual counts as, as in `SPAN_TOLERANCE`


@dataclass(frozen=True)
class GroupedNystrom:
    """Inducing arms (their features) and the lower factor of their covariance, in groups."""

    kernel: KernelLike
    points: Any
    factor: Floats
    groups: tuple[int, ...]
    storage: np.dtype[Any]

    @classmethod
    def empty(cls, kernel: KernelLike, storage: np.dtype[Any]) -> GroupedNystrom:
        """The embedding without inducing arms."""
        return cls(kernel, None, np.empty((0, 0)), (), storage)

    @property
    def dimension(self) -> int:
        """The number of inducing arms."""
        return len(self.factor)

    def appended(self, points: Any) -> GroupedNystrom:
        """The embedding with one more group of inducing arms, none of which lies in the span."""
        m, a = self.dimension, len(points)
        rows = self.matrix(points)
        gram = covariances(self.kernel, points, points) - rows @ rows.T
        factor = np.zeros((m + a, m + a))
        factor[:m, :m] = self.factor
        factor[m:, :m] = rows
        factor[m:, m:] = _lower_factor(gram)
        everyone = points if self.points is None else np.concatenate([self.points, points])
        return GroupedNystrom(self.kernel, everyone, factor, (*self.groups, a), self.storage)

    def first(self, n_groups: int) -> GroupedNystrom:
        """The embedding of the first groups alone."""
        if n_groups == len(self.groups):
            return self
        if not n_groups:
            return self.empty(self.kernel, self.storage)
        groups = self.groups[:n_groups]
        m = sum(groups)
        return GroupedNystrom(self.kernel, self.points[:m], self.factor[:m, :m].copy(), groups, self.storage)

    def matrix(self, X: Any) -> Floats:
        """z(x) for every row of X."""
        return self.completed(X, np.empty((len(X), 0)))

    def completed(self, X: Any, known: Floats) -> Floats:
        """z(x) for every row of X, whose first columns are `known`: those of the first groups.

        In memory, each column is contiguous, as it is stored and read; with contiguous rows, copying takes a
        fourth of the time.
        """
        Z = np.empty((self.dimension, len(X)))  # columns of z are rows here
        begin = known.shape[1]
        Z[:begin] = known.T
        first = 0
        for size in self.groups:
            stop = first + size
            if first >= begin:
                block = covariances(self.kernel, self.points[first:stop], X)
                if first:
                    own = self.factor[first:stop, :first] @ Z[:first]
                    np.subtract(block, own, out=own)
                else:
                    own = np.array(block, order="C")  # a kernel may have returned what it keeps
                columns = forward_over(self.factor[first:stop, first:stop], own)
                Z[first:stop] = columns.astype(self.storage)
            first = stop
        return Z.T


def _lower_factor(gram: Floats) -> Floats:
    """The lower Cholesky factor of a residual covariance that rounding may have made slightly indefinite."""
    try:
        return np.asarray(np.linalg.cholesky(gram), dtype=np.float64)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(gram)
        raised = np.maximum(values, _JITTER * max(float(values[-1]), np.finfo(np.float64).tiny))
        _, upper = np.linalg.qr((vectors * np.sqrt(raised)).T)
        signs = np.where(np.diag(upper) < 0, -1.0, 1.0)
        return np.asarray((upper * signs[:, None]).T)

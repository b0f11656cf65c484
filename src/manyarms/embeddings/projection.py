"""Random projection: a few random combinations replace the features (linear kernel)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyarms.embeddings.checks import checked_rows, read_only
from manyarms.errors import InvalidParameterError, UnsuitableKernelError
from manyarms.kernels import KernelLike, Linear
from manyarms.kernels.combine import unscaled
from manyarms.support.frozen import replace_field
from manyarms.support.validation import Floats, count, non_negative


@dataclass(frozen=True, eq=False)
class Projection:
    """z(x) = (P x, offset), the offset left out when it is 0.

    The two determine the map: `Projection(p.directions, p.offset)` equals `p` bit for bit.
    """

    directions: Floats
    offset: float = 0.0

    def __post_init__(self) -> None:
        replace_field(self, "directions", read_only(self.directions))
        replace_field(self, "offset", non_negative("offset", self.offset))

    @property
    def dimension(self) -> int:
        """One per direction, plus one for the offset."""
        return len(self.directions) + bool(self.offset)

    def matrix(self, X: Any) -> Floats:
        """The projected rows."""
        Z = checked_rows(X, self.directions.shape[1]) @ self.directions.T
        return np.column_stack([Z, np.full(len(Z), self.offset)]) if self.offset else Z


class RandomProjection(Projection):
    """P with independent normal entries of variance 1/size, as in CBRAP (Yu, Lyu & King 2017).

    E z(x)ᵀz(y) = xᵀy, with a standard deviation of at most √(2/size) ‖x‖‖y‖, so ‖z(x)‖² may exceed k(x, x).
    For the linear kernel and Scale of it; a bias becomes one more, exact, feature.
    """

    def __init__(self, kernel: KernelLike, size: int, rng: np.random.Generator, n_features: int) -> None:
        d, size = count("n_features", n_features), count("size", size)
        if size > d:
            rule = f"at most {d}, the number of features (with that many, the features themselves are exact)"
            raise InvalidParameterError("size", size, rule)
        part, variance = unscaled(kernel)
        if not isinstance(part, Linear):
            raise UnsuitableKernelError(
                f"a random projection approximates the linear kernel, not {kernel!r}: use Linear(), or "
                "inducing points (Nystrom) for this kernel"
            )
        entries = rng.standard_normal((size, d))
        super().__init__(entries * math.sqrt(variance / size), math.sqrt(variance) * part.bias)

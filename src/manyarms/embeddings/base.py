"""The embedding contract: a map z with z(x)ᵀz(y) ≈ k(x, y)."""

from __future__ import annotations

from typing import Any, Protocol

from manyarms.support.validation import Floats


class Embedding(Protocol):
    """A feature map z of finite dimension that approximates a kernel in the posterior.

    The posterior adds the residual k(x, x) − ‖z(x)‖² to the variance, so an embedding of low dimension does
    not make it overconfident.
    """

    @property
    def dimension(self) -> int:
        """m, the length of z(x)."""

    def matrix(self, X: Any) -> Floats:
        """z(x) for each row of X, as a float64 array of len(X) × dimension."""

"""Picks whose results are not used yet: they reduce the variance, but not the mean (theory §2.5).

A pick is *open* from the moment it is handed out until its result is used at a renewal, or until it is
forgotten. Conditioning the posterior covariance c on the open picks U, where N holds the number of picks of
each row, reduces the leverage of x by c(x, U)(N⁻¹ + c(U, U))⁻¹c(U, x).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from manyarms.contextual.model import RowValues, StreamedPosterior
from manyarms.support.linalg import inverse_lower, largest_eigenvalue
from manyarms.support.validation import Floats


@dataclass(frozen=True, eq=False)
class OpenPicks:
    """The different rows of the open picks under the present posterior; equal rows are counted together."""

    values: RowValues
    counts: Floats
    between: Floats  # c(U, U)

    @classmethod
    def none(cls, values: RowValues) -> OpenPicks:
        """No picks; `values` are any rows of the same kind."""
        return cls(values.part(slice(0, 0)), np.empty(0), np.empty((0, 0)))

    @classmethod
    def of(cls, model: StreamedPosterior, values: RowValues, counts: Floats) -> OpenPicks:
        """The picks of these different rows, each with its count."""
        return cls(values, counts, model.between(values, values))

    def __len__(self) -> int:
        return len(self.counts)

    @cached_property
    def _inverse_factor(self) -> Floats:
        """E⁻¹ with E Eᵀ = N⁻¹ + c(U, U)."""
        return inverse_lower(self.between + np.diag(1.0 / self.counts))

    def leverage(self, values: RowValues, columns: Floats) -> Floats:
        """σ̃² of these rows after the open picks; `columns` holds c(x, U)."""
        if not len(self):
            return values.leverage
        forms = columns @ self._inverse_factor.T
        return np.asarray(np.maximum(values.leverage - np.einsum("ij,ij->i", forms, forms), 0.0))

    @cached_property
    def ratio(self) -> float:
        """The largest factor by which the open picks can have reduced any σ̃² (theory §6.7)."""
        if not len(self):
            return 1.0
        counts = np.sqrt(self.counts)
        return 1.0 + largest_eigenvalue(counts[:, None] * self.between * counts)

    @property
    def bound(self) -> float:
        """1 + Σ σ̃²_fb over the open picks, which is at least `ratio`."""
        return 1.0 + float(self.counts @ self.values.leverage)

    def with_pick(self, own: RowValues, column: Floats, most: int) -> OpenPicks:
        """With one more pick, whose only row is `own` and whose c(x, U) is `column`.

        Beyond `most` rows the oldest is left out. The variances are then larger than they could be, so that
        the confidence bounds remain valid.
        """
        if not len(self):
            return OpenPicks(own, np.ones(1), own.leverage.reshape(1, 1))
        same = np.flatnonzero(_equal_rows(self.values.rows, own.rows))
        if len(same):
            counts = self.counts.copy()
            counts[same[0]] += 1
            return OpenPicks(self.values, counts, self.between)
        first = 1 if len(self) >= most else 0
        u = len(self) - first
        between = np.empty((u + 1, u + 1))
        between[:u, :u] = self.between[first:, first:]
        between[u, :u] = between[:u, u] = column[first:]
        between[u, u] = own.leverage[0]
        joined = (
            np.concatenate([getattr(self.values, name)[first:], getattr(own, name)])
            for name in RowValues.__dataclass_fields__
        )
        return OpenPicks(RowValues(*joined), np.append(self.counts[first:], 1.0), between)

    def to_plain(self) -> dict[str, Any]:
        """Every number, so that a resumed run continues bit for bit."""
        return {"counts": self.counts, "between": self.between, "values": dict(vars(self.values))}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> OpenPicks:
        """The picks that `to_plain` wrote."""
        return cls(RowValues(**plain["values"]), plain["counts"], plain["between"])


def _equal_rows(rows: Any, row: Any) -> Any:
    """Which of the rows equal this one."""
    same = np.asarray(rows == row)
    return same.all(axis=1) if same.ndim == 2 else same

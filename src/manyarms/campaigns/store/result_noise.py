"""The noise that a result of a campaign came with (docs/noise.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ResultNoise:
    """A standard deviation in the user's units, or the number of measurements that the value is the mean of.

    Both are None for a single measurement whose noise is not known.
    """

    std: float | None = None
    replicates: int | None = None

    @classmethod
    def of(cls, row: Any) -> ResultNoise:
        """The noise in a row of the database."""
        return cls(row["noise_std"], row["replicates"])

    @property
    def weight(self) -> float:
        """How many measurements of the usual noise the value counts as; 0 if its noise was stated."""
        return 0.0 if self.std is not None else float(self.replicates or 1)

    def columns(self, prefix: str = "") -> dict[str, Any]:
        """The columns of the database."""
        return {f"{prefix}noise_std": self.std, f"{prefix}replicates": self.replicates}


Said = tuple[float | None, ResultNoise]  # a value (None: the trial failed) and its noise
USUAL = ResultNoise()

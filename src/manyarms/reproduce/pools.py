"""The real pools of the papers, read from the user's own files, and a generated stand-in for smoke runs.

No data is downloaded or distributed with the package. Features are standardised and rewards scaled to [0, 1].
"""

from __future__ import annotations

import csv
import gzip
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from manyarms.errors import MissingDataError, MissingExtraError, TableError
from manyarms.support.validation import Floats

GENERATED = "generated"  # "generated:400" is a stand-in of 400 arms
ABALONE_FILES = ("abalone.csv", "abalone.csv.gz", "abalone.data")
_SEX = {"M": 0.0, "F": 1.0, "I": 2.0}


@dataclass(frozen=True)
class RealPool:
    """Features (standardised) and the noiseless reward of every arm (in [0, 1])."""

    features: Floats
    truth: Floats

    @property
    def digest(self) -> str:
        """SHA-256 of both arrays, to identify the data behind a result."""
        return hashlib.sha256(self.features.tobytes() + self.truth.tobytes()).hexdigest()

    @classmethod
    def scaled(cls, features: Floats, target: Floats) -> RealPool:
        """Scale the columns to mean 0 and standard deviation 1, and the target to [0, 1]."""
        features = (features - features.mean(axis=0)) / features.std(axis=0)
        return cls(np.ascontiguousarray(features), (target - target.min()) / (target.max() - target.min()))


def load(name: str, data_home: Path | None) -> RealPool:
    """A pool by name: "abalone", "housing", or "generated:N"."""
    if name.startswith(GENERATED):
        return generated(int(name.partition(":")[2]))
    return _loaded(name, data_home)


@lru_cache(maxsize=1)  # a worker process runs many jobs on the same pool
def _loaded(name: str, data_home: Path | None) -> RealPool:
    return LOADERS[name](data_home)


def abalone(data_home: Path | None) -> RealPool:
    """UCI Abalone: 4177 × 8 features (sex as 0, 1, 2); the target is the number of rings."""
    places = [data_home / file for file in ABALONE_FILES] if data_home else []
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise MissingDataError(
            f"{' or '.join(ABALONE_FILES)} is not in {data_home or '(no --data-home given)'}: "
            "download abalone.data from https://archive.ics.uci.edu/dataset/1/abalone "
            "and pass its folder with --data-home"
        )
    table = np.array([_abalone_row(path, number, row) for number, row in _rows(path)])
    return RealPool.scaled(table[:, :8], table[:, 8])


def _rows(path: Path) -> list[tuple[int, list[str]]]:
    """The lines of a comma-separated file with their numbers, without the header if there is one."""
    with gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="") as stream:
        rows = [(number, row) for number, row in enumerate(csv.reader(stream), 1) if row]
    return [(number, row) for number, row in rows if number > 1 or row[0] in _SEX]


def _abalone_row(path: Path, number: int, row: list[str]) -> list[float]:
    try:
        return [_SEX[row[0]], *(float(row[column]) for column in range(1, 9))]
    except (KeyError, IndexError, ValueError):
        raise TableError(f"{path.name}, line {number}: expected sex and 8 numbers, got {row}") from None


def housing(data_home: Path | None) -> RealPool:
    """California housing ("Cadata") from scikit-learn's cache: 20640 × 8; the target is the median value."""
    try:
        from sklearn.datasets import fetch_california_housing
    except ImportError:
        raise MissingExtraError("scikit-learn", "reproduce", "California housing") from None
    try:
        data = fetch_california_housing(data_home=data_home, download_if_missing=False)
    except OSError:
        raise MissingDataError(
            f"California housing is not in {data_home or 'the default folder of scikit-learn'}: download it "
            "with sklearn.datasets.fetch_california_housing(data_home=DIR) and pass DIR with --data-home"
        ) from None
    return RealPool.scaled(np.asarray(data.data, dtype=np.float64), np.asarray(data.target, dtype=np.float64))


def generated(n_arms: int) -> RealPool:
    """n × 8 features and a smooth target, for smoke runs without a data folder."""
    features = np.random.default_rng(0).normal(size=(n_arms, 8))
    target = np.sin(features[:, 0]) + np.tanh(features[:, 1] * features[:, 2]) - 0.1 * features[:, 3] ** 2
    return RealPool.scaled(features, target)


LOADERS: Mapping[str, Callable[[Path | None], RealPool]] = {"abalone": abalone, "housing": housing}

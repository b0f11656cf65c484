"""The real pools of the papers, read from the user's own files, and a generated stand-in for smoke runs.

No data is downloaded or distributed with the package. The papers print neither the scale of the features nor
that of the rewards, so an experiment says which it uses (`RealPool.scaled`).
"""

from __future__ import annotations

import csv
import gzip
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.campaigns.pool_file.fingerprints import computed_fingerprints
from manyarms.errors import InvalidParameterError, MissingDataError, MissingExtraError, TableError
from manyarms.support.validation import Floats

GENERATED = "generated"  # "generated:400" is a stand-in of 400 arms, "generated-bits:400" one of fingerprints
ABALONE_FILES = ("abalone.csv", "abalone.csv.gz", "abalone.data")
ENAMINE_FINGERPRINTS = "enamine50k_morgan1024.npz"
ENAMINE_SCORES = "4UNN_Enamine50k_scores.csv.gz"
_SEX = {"M": 0.0, "F": 1.0, "I": 2.0}


@dataclass(frozen=True)
class RealPool:
    """Features (numbers or packed bits) and the noiseless reward of every arm."""

    features: NDArray[Any]
    truth: Floats

    @property
    def digest(self) -> str:
        """SHA-256 of both arrays, to identify the data behind a result."""
        return hashlib.sha256(self.features.tobytes() + self.truth.tobytes()).hexdigest()

    def scaled(self, features: str, rewards: str) -> RealPool:
        """The pool with each column of its features and its rewards on the scale that is named.

        "standardised": mean 0 and standard deviation 1; "unit": from 0 to 1; "own": as in the data.
        """
        scaled = np.ascontiguousarray(scale(features, self.features))
        return replace(self, features=scaled, truth=scale(rewards, self.truth))


def scale(name: str, values: NDArray[Any]) -> NDArray[Any]:
    """Columns on the scale that is named."""
    if name not in SCALES:
        raise InvalidParameterError("scale", name, f"one of {', '.join(SCALES)}")
    return SCALES[name](values)


SCALES: Mapping[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "standardised": lambda values: (values - values.mean(axis=0)) / values.std(axis=0),
    "unit": lambda values: (values - values.min(axis=0)) / (values.max(axis=0) - values.min(axis=0)),
    "own": lambda values: values,
}


def load(name: str, data_home: Path | None) -> RealPool:
    """A pool by name, in its own units: "abalone", "housing", "enamine", or a stand-in of N arms."""
    kind, _, size = name.partition(":")
    return GENERATORS[kind](int(size)) if size else _loaded(name, data_home)


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
    return RealPool(table[:, :8], table[:, 8])


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
    return RealPool(np.asarray(data.data, dtype=np.float64), np.asarray(data.target, dtype=np.float64))


def enamine(data_home: Path | None) -> RealPool:
    """Enamine molecules: Morgan fingerprints (radius 2, 1024 bits, packed); the target is minus the score.

    The file of fingerprints has the arrays "packed" and "score". Without it, RDKit computes them from the
    columns `smiles` and `score` of the table, for the molecules that have a score.
    """
    packed, table = (Path(data_home or ".") / name for name in (ENAMINE_FINGERPRINTS, ENAMINE_SCORES))
    if data_home is not None and packed.is_file():
        with np.load(packed) as data:
            return RealPool(data["packed"], -data["score"].astype(np.float64))
    if data_home is None or not table.is_file():
        raise MissingDataError(
            f"{ENAMINE_SCORES} is not in {data_home or '(no --data-home given)'}: download it from the "
            "folder data of https://github.com/coleygroup/molpal and pass its folder with --data-home"
        )
    with gzip.open(table, "rt", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row.get("score")]
    try:
        smiles, scores = [row["smiles"] for row in rows], [float(row["score"]) for row in rows]
    except (KeyError, ValueError) as wrong:
        raise TableError(f"{table.name}: expected columns smiles and score, found {wrong}") from None
    return RealPool(computed_fingerprints(table, "smiles", smiles), -np.array(scores))


def generated(n_arms: int) -> RealPool:
    """n × 8 features and a smooth target, for smoke runs without a data folder."""
    features = np.random.default_rng(0).normal(size=(n_arms, 8))
    target = np.sin(features[:, 0]) + np.tanh(features[:, 1] * features[:, 2]) - 0.1 * features[:, 3] ** 2
    return RealPool(features, target)


def generated_bits(n_arms: int) -> RealPool:
    """n packed fingerprints of 64 bits and a target that a few of the bits decide, for smoke runs."""
    bits = np.random.default_rng(0).random((n_arms, 64)) < 0.3
    return RealPool(np.packbits(bits, axis=1), bits[:, :6] @ np.arange(1.0, 7.0))


GENERATORS: Mapping[str, Callable[[int], RealPool]] = {GENERATED: generated, "generated-bits": generated_bits}
LOADERS: Mapping[str, Callable[[Path | None], RealPool]] = {
    "abalone": abalone,
    "housing": housing,
    "enamine": enamine,
}

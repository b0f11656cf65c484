"""More real pools, in the units in which a user would provide them; read like those of `benchmarks.pools`.

`sgemm.csv.gz` (UCI, four timed runs per configuration), `enamine50k_morgan1024.npz` (packed fingerprints and
docking scores), `esol.csv.gz` (SMILES and measured solubility; RDKit makes the fingerprints).
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from benchmarks import pools
from benchmarks.pools import abalone, generated
from manyarms.errors import MissingDataError

__all__ = [
    "abalone",
    "enamine",
    "enamine_numbers",
    "esol",
    "esol_numbers",
    "generated",
    "hartmann",
    "housing",
    "letters",
    "sgemm",
]


def _file(name: str) -> Path:
    path = pools.folder() / name
    if not path.exists():
        raise MissingDataError(f"{name} is not in MANYARMS_DATA")
    return path


def housing() -> tuple[np.ndarray, np.ndarray]:
    """20640 × 8, California housing in its own units."""
    _, target = pools.housing()
    from sklearn.datasets import fetch_california_housing

    data = fetch_california_housing(data_home=pools.folder(), download_if_missing=False)
    return data.data, target


def sgemm() -> tuple[np.ndarray, np.ndarray]:
    """241600 × 14 integers, and four measurements per arm: minus the log of a run's milliseconds."""
    with gzip.open(_file("sgemm.csv.gz"), "rt") as stream:
        table = np.loadtxt(stream, delimiter=",", skiprows=1)
    return table[:, :14].astype(np.int64), -np.log(table[:, 14:18])


def enamine() -> tuple[np.ndarray, np.ndarray]:
    """49706 fingerprints of 1024 bits, packed; minus the docking score."""
    with np.load(_file("enamine50k_morgan1024.npz")) as data:
        return data["packed"], -data["score"].astype(np.float64)


def _numbers(name: str, target: str, without: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """A table's numeric columns as features, one of them as the target."""
    with gzip.open(_file(name), "rt", newline="") as stream:
        rows = list(csv.DictReader(stream))
    columns = [column for column in rows[0] if column not in (target, *without)]
    features = np.array([[float(row[column]) for column in columns] for row in rows])
    return features, np.array([float(row[target]) for row in rows])


def enamine_numbers() -> tuple[np.ndarray, np.ndarray]:
    """49706 × 10 molecular descriptors; minus the docking score."""
    features, score = _numbers("enamine50k_dock.csv.gz", "score", ("smiles",))
    return features, -score


def esol_numbers() -> tuple[np.ndarray, np.ndarray]:
    """1128 × 6 molecular descriptors; measured log solubility."""
    predicted = "ESOL predicted log solubility in mols per litre"
    target = "measured log solubility in mols per litre"
    return _numbers("esol.csv.gz", target, ("Compound ID", "smiles", predicted))


def hartmann(n_arms: int = 5000) -> tuple[np.ndarray, np.ndarray]:
    """Random points of the six-dimensional Hartmann function: a smooth target with a narrow peak."""
    A = np.array(
        [
            [10, 3, 17, 3.5, 1.7, 8],
            [0.05, 10, 17, 0.1, 8, 14],
            [3, 3.5, 1.7, 10, 17, 8],
            [17, 8, 0.05, 10, 0.1, 14],
        ]
    )
    P = 1e-4 * np.array(
        [
            [1312, 1696, 5569, 124, 8283, 5886],
            [2329, 4135, 8307, 3736, 1004, 9991],
            [2348, 1451, 3522, 2883, 3047, 6650],
            [4047, 8828, 8732, 5743, 1091, 381],
        ]
    )
    X = np.random.default_rng(0).random((n_arms, 6))
    exponents = np.einsum("kj,nkj->nk", A, (X[:, None, :] - P) ** 2)
    return X, np.exp(-exponents) @ np.array([1.0, 1.2, 3.0, 3.2])


def letters(n_arms: int = 6000, length: int = 8, coupled: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Strings over four letters on an NK landscape: the value of a position depends on its neighbours too."""
    rng = np.random.default_rng(0)
    codes = np.unique(rng.integers(4, size=(n_arms, length)), axis=0)
    worth = rng.normal(size=(length, 4 ** (coupled + 1)))
    target = np.zeros(len(codes))
    for position in range(length):
        place = np.zeros(len(codes), dtype=int)
        for offset in range(coupled + 1):
            place = 4 * place + codes[:, (position + offset) % length]
        target += worth[position, place]
    return np.array(["".join(row) for row in np.array(list("ACGT"))[codes]]), target


def morgan_bits(smiles: Iterable[str]) -> np.ndarray:
    """Morgan fingerprints (radius 2, 1024 bits), packed."""
    from rdkit import Chem
    from rdkit.Chem import rdFingerprintGenerator

    morgan = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=1024)
    bits = [morgan.GetFingerprintAsNumPy(Chem.MolFromSmiles(one)) for one in smiles]
    return np.packbits(np.array(bits), axis=1)


def esol() -> tuple[np.ndarray, np.ndarray]:
    """1128 fingerprints; measured log solubility."""
    with gzip.open(_file("esol.csv.gz"), "rt", newline="") as stream:
        rows = list(csv.DictReader(stream))
    target = [float(row["measured log solubility in mols per litre"]) for row in rows]
    return morgan_bits(row["smiles"] for row in rows), np.array(target)

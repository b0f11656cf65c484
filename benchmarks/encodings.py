"""Generated tables whose columns can be read in several ways: as numbers, as names, on a logarithmic scale.

Every function returns the features of all candidates and their values, and is deterministic. The names of
`TABLES` are pools of `benchmarks.decisions`, which also knows them as the group `encodings`. Two more read
files of MANYARMS_DATA: the cache of a GPU kernel, and a sample of the matrix products of SGEMM, each with its
integers as they are (`…_numbers`), one-hot, or as texts.
"""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from benchmarks import pools
from benchmarks.measured import sgemm

if TYPE_CHECKING:
    import pandas as pd

    Loaded = tuple[np.ndarray | pd.DataFrame | list[str], np.ndarray]


# ------------------------------------------------------------------ names alone


def architecture() -> Loaded:
    """Six edges of a cell with one of five operations each, 15 625 in all: a network of four nodes.

    A signal goes along every path; an operation keeps part of it and adds capacity. Accuracy saturates in
    the capacity that reaches the last node and falls with cells that are hard to train.
    """
    operations = ("avg_pool_3x3", "none", "nor_conv_1x1", "nor_conv_3x3", "skip_connect")
    keeps = np.array([0.75, 0.0, 0.85, 0.8, 1.0])
    adds = np.array([0.1, 0.0, 0.6, 1.0, 0.0])
    codes = np.array(list(itertools.product(range(5), repeat=6)))
    edge = dict(zip([(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3)], codes.T, strict=True))
    signal, capacity = [np.ones(len(codes))], [np.zeros(len(codes))]
    for node in (1, 2, 3):
        into = [(signal[i], capacity[i], edge[i, node]) for i in range(node)]
        signal.append(np.sqrt(sum((keeps[e] * s) ** 2 for s, _, e in into)))
        capacity.append(sum(keeps[e] * s * (c + adds[e]) for s, c, e in into))
    depth = np.tanh(capacity[3] / 2.0) * np.exp(-0.15 * np.maximum(capacity[3] - 3.5, 0.0))
    noise = np.random.default_rng(20).normal(size=len(codes))
    return np.array(operations)[codes], 94.0 * depth * np.minimum(signal[3], 1.0) ** 0.3 + 0.3 * noise


def dna() -> Loaded:
    """All 65 536 strings of eight letters: effects of positions and of pairs of positions, with noise."""
    rng = np.random.default_rng(21)
    codes = np.array(list(itertools.product(range(4), repeat=8)))
    value = rng.normal(size=(8, 4))[np.arange(8), codes].sum(axis=1)
    for first, second in [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (1, 6), (2, 5)]:
        value += 0.6 * rng.normal(size=(4, 4))[codes[:, first], codes[:, second]]
    texts = ["".join(row) for row in np.array(list("ACGT"))[codes].tolist()]
    return np.array(texts), value[:, None] + 0.5 * rng.normal(size=(len(codes), 4))


# ------------------------------------------------------------------ integers, and the same one-hot


def _one_hot(numbers: np.ndarray) -> np.ndarray:
    parts = [numbers[:, [j]] == np.unique(numbers[:, j]) for j in range(numbers.shape[1])]
    return np.hstack(parts).astype(np.uint8)


def _indicator_frame(numbers: np.ndarray, names: Sequence[str]) -> pd.DataFrame:
    """Columns such as block_16 in the order of texts, as pandas makes them."""
    import pandas as pd

    frame = pd.DataFrame(numbers, columns=list(names)).astype(str)
    return pd.get_dummies(frame)


def _tiles() -> tuple[np.ndarray, np.ndarray]:
    """20 736 settings of a made-up GPU kernel: minus the log of a run time with ridges."""
    levels = (16, 32, 64, 128, 256, 512), (1, 2, 4, 8, 16, 32), (1, 2, 3, 4, 5, 6, 7, 8), (1, 2, 4, 8), (
        0, 1, 2), (1, 2, 4, 8, 16, 32)  # fmt: skip
    grid = np.array(list(itertools.product(*levels)))
    x, y, tile, vector, _, unroll = np.log2(grid + (grid == 0)).T
    threads = x + y
    occupancy = -0.25 * (threads - 7.5) ** 2 - 0.3 * np.maximum(threads - 9.0, 0.0) ** 2
    registers = np.log2(grid[:, 2] * grid[:, 3] * (1 + 0.2 * grid[:, 5]))
    spills = -0.4 * np.maximum(registers - 4.5, 0.0) ** 2
    reuse = 0.5 * np.log2(grid[:, 2]) + 0.3 * vector - 0.25 * (unroll - 2.5) ** 2 * (0.3 + 0.2 * vector)
    stages = np.array([0.0, 0.5, 0.3])[grid[:, 4]] * (1 + 0.3 * tile)
    value = occupancy + spills + reuse + stages - 0.2 * (x - 2 * vector - 3) ** 2
    noise = np.random.default_rng(22).normal(size=(len(grid), 4))
    return grid, value[:, None] + 0.1 * noise


TILE_NAMES = ("block_x", "block_y", "tile", "vector", "stage", "unroll")


def tiles_numbers() -> Loaded:
    """The settings as integers."""
    return _tiles()


def tiles() -> Loaded:
    """The settings one-hot, in the order of their values."""
    grid, value = _tiles()
    return _one_hot(grid), value


def tiles_frame() -> Loaded:
    """The settings one-hot with names such as block_x_16, in the order of texts."""
    grid, value = _tiles()
    return _indicator_frame(grid, TILE_NAMES), value


def tiles_words() -> Loaded:
    """The settings as words such as "16"."""
    grid, value = _tiles()
    return grid.astype(str), value


def _gpu_cache() -> tuple[np.ndarray, np.ndarray]:
    """The settings of the dedispersion kernel that ran, and minus the log of their times."""
    with gzip.open(pools.folder() / "kernel_tuner_dedispersion_A100.json.gz", "rt") as stream:
        data = json.load(stream)
    ran = [entry for entry in data["cache"].values() if isinstance(entry["time"], float)]
    names = [name for name in data["tune_params_keys"] if len({entry[name] for entry in ran}) > 1]
    settings = np.array([[entry[name] for name in names] for entry in ran])
    return settings, -np.log([entry["time"] for entry in ran])


def gpu_numbers() -> Loaded:
    """A real cache of Kernel Tuner, as integers."""
    return _gpu_cache()


def gpu() -> Loaded:
    """A real cache of Kernel Tuner, one-hot."""
    settings, value = _gpu_cache()
    return _one_hot(settings), value


def _sgemm_sample() -> tuple[np.ndarray, np.ndarray]:
    settings, value = sgemm()
    rows = np.sort(np.random.default_rng(1).choice(len(settings), 20_000, replace=False))
    return settings[rows], value[rows]


def sgemm_sample_numbers() -> Loaded:
    """20 000 rows of SGEMM, as integers."""
    return _sgemm_sample()


def sgemm_sample() -> Loaded:
    """20 000 rows of SGEMM, one-hot."""
    settings, value = _sgemm_sample()
    return _one_hot(settings), value


# ------------------------------------------------------------------ mixed tables


def ids() -> Loaded:
    """Two columns of numbers from 1 to 12 that are names, one that is a dose, and three measurements."""
    rng = np.random.default_rng(23)
    n = 8000
    supplier, reactor = rng.integers(1, 13, size=(2, n))
    dose, x = rng.integers(1, 11, size=n), rng.random((n, 3))
    good, level = rng.normal(size=13), rng.normal(size=13)
    value = 1.2 * good[supplier] + 0.8 * level[reactor] - 0.08 * (dose - 7.0) ** 2
    value += np.sin(5 * x[:, 0] + 0.5 * good[supplier]) + 1.5 * x[:, 1] * x[:, 2]
    return np.column_stack([supplier, dose, reactor, x]), value[:, None] + 0.2 * rng.normal(size=(n, 4))


def missing() -> Loaded:
    """Six measurements of which 30 % of three were not made and are written as −1."""
    rng = np.random.default_rng(24)
    n = 8000
    x = rng.random((n, 6)) * 10
    absent = rng.random((n, 3)) < 0.3
    seen = np.where(absent, 5.0, x[:, :3])
    value = -0.1 * (seen[:, 0] - 7) ** 2 + np.sin(0.7 * seen[:, 1]) + 0.15 * seen[:, 2] - absent[:, 0]
    value += 0.5 * np.cos(0.8 * x[:, 3]) + 0.02 * x[:, 4] * seen[:, 2]
    x[:, :3][absent] = -1.0
    return x, value[:, None] + 0.15 * rng.normal(size=(n, 4))


def logarithms() -> Loaded:
    """Concentrations over one to three orders of magnitude, evenly drawn; the optimum is at low ones."""
    rng = np.random.default_rng(25)
    n = 8000
    x = rng.uniform(1.0, [200.0, 1000.0, 50.0, 10.0, 10.0], size=(n, 5))
    low = x[:, :2] ** 2 / [200.0, 1000.0] + 0.1
    value = -((np.log(low[:, 0]) - 0.5) ** 2) - 0.6 * (np.log(low[:, 1] / low[:, 0]) + 1) ** 2
    value += np.sin(2 * np.log(x[:, 2])) - 0.05 * (x[:, 3] - 6) ** 2
    low_columns = np.column_stack([low, x[:, 2:]])
    return low_columns, value[:, None] + 0.2 * rng.normal(size=(n, 4))


def dummies() -> Loaded:
    """A frame of indicator columns (three words, six tile sizes) beside three numbers."""
    import pandas as pd

    rng = np.random.default_rng(26)
    n = 8000
    base, tile, x = rng.integers(5, size=n), rng.integers(6, size=n), rng.random((n, 3))
    words = np.array(["alumina", "carbon", "ceria", "silica", "titania"])
    frame = pd.DataFrame({"base": words[base], "tile": (16 * 2**tile).astype(str)})
    frame = pd.concat([pd.get_dummies(frame), pd.DataFrame(x, columns=["a", "b", "c"])], axis=1)
    worth = rng.normal(size=5)
    value = worth[base] - 0.3 * (tile - 2 - 2 * x[:, 0]) ** 2 + np.sin(6 * x[:, 1] + worth[base])
    return frame, value[:, None] + 0.2 * rng.normal(size=(n, 4))


def plain() -> Loaded:
    """A control: whole numbers and positive measurements that are what they seem."""
    rng = np.random.default_rng(27)
    n = 8000
    counts, x = rng.integers(0, 12, size=(n, 2)), rng.uniform(1, 30, size=(n, 3))
    value = -0.05 * (counts[:, 0] - 8) ** 2 + 0.03 * counts[:, 1] * x[:, 0] / 10 + np.sin(x[:, 1] / 6)
    value -= 0.01 * (x[:, 2] - 20) ** 2
    return np.column_stack([counts, x]), value[:, None] + 0.2 * rng.normal(size=(n, 4))


TABLES: dict[str, Callable[[], Loaded]] = {
    each.__name__: each
    for each in (
        architecture, dna, tiles_numbers, tiles, tiles_frame, tiles_words, gpu_numbers, gpu,
        sgemm_sample_numbers, sgemm_sample, ids, missing, logarithms, dummies, plain,
    )
}  # fmt: skip

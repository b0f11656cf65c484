"""The strategy for Kernel Tuner against its own, in simulation mode on a complete cache.

It needs Kernel Tuner and the cache file in the folder named by MANYARMS_DATA; what is missing is reported in
a row.
"""

from __future__ import annotations

import gzip
import itertools
import json
import random
import shutil
import tempfile
import time
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import Row, pools
from manyarms.errors import MissingDataError

STRATEGIES = ("manyarms", "random_sample", "genetic_algorithm", "bayes_opt")
CACHE = "kernel_tuner_dedispersion_A100.json.gz"
RESTRICTIONS = [  # those that the configurations in the cache keep
    "block_size_x * block_size_y <= 1024",
    "tile_size_x > 1 or tile_stride_x == 0",
    "tile_size_y > 1 or tile_stride_y == 0",
]


def dedispersion(smoke: bool) -> list[Row]:
    """Optimum / best time found, with 2 % and 5 % of the configurations."""
    if find_spec("kernel_tuner") is None:
        return [Row("Kernel Tuner", float("nan"), note="not installed")]
    with tempfile.TemporaryDirectory() as folder:
        try:
            cache = _unpacked(Path(folder))
        except MissingDataError as problem:
            return [Row("Kernel Tuner", float("nan"), note=str(problem))]
        data = json.loads(cache.read_text())
        shares, seeds = ((0.002,), 1) if smoke else ((0.02, 0.05), 10)
        rows = [Row("configurations in the cache", len(data["cache"]))]
        for share, strategy in itertools.product(shares, STRATEGIES):
            rows += _compared(data, cache, strategy, share, seeds)
    return rows


def _compared(data: dict[str, Any], cache: Path, strategy: str, share: float, seeds: int) -> list[Row]:
    optimum = min(entry["time"] for entry in data["cache"].values() if isinstance(entry["time"], float))
    budget = round(share * len(data["cache"]))
    runs = [_tuned(data, cache, strategy, budget, seed) for seed in range(seeds)]
    fractions = optimum / np.array([best for best, _ in runs])
    name = f"{strategy}, {budget} evaluations ({100 * share:g} %)"
    return [
        Row(f"{name}: optimum / best found, mean", fractions.mean(), note=f"{seeds} seeds"),
        Row(f"{name}: worst seed", fractions.min()),
        Row(f"{name}: one run", float(np.median([seconds for _, seconds in runs])), "s CPU"),
    ]


def _unpacked(folder: Path) -> Path:
    source = pools.folder() / CACHE
    if not source.exists():
        raise MissingDataError(f"{CACHE} is not in MANYARMS_DATA")
    path = folder / "cache.json"
    with gzip.open(source) as packed, path.open("wb") as plain:
        shutil.copyfileobj(packed, plain)
    return path


def _tuned(data: dict[str, Any], cache: Path, strategy: str, budget: int, seed: int) -> tuple[float, float]:
    """The best time that a strategy finds, and the CPU seconds that it takes."""
    import kernel_tuner

    import manyarms.kernel_tuner as ours

    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 (the generator that Kernel Tuner's strategies draw from)
    working = cache.with_name("working.json")  # Kernel Tuner may write to it
    shutil.copy(cache, working)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results, _ = kernel_tuner.tune_kernel(
            data["kernel_name"],
            f"__global__ void {data['kernel_name']}(float *x) {{}}",
            tuple(data["problem_size"]),
            [np.zeros(1, dtype=np.float32)],
            data["tune_params"],
            restrictions=RESTRICTIONS,
            strategy=ours if strategy == "manyarms" else strategy,
            strategy_options={"max_fevals": budget} | ({"seed": seed} if strategy == "manyarms" else {}),
            simulation_mode=True,
            cache=str(working),
            quiet=True,
        )
    seconds = time.process_time() - start
    return min(result["time"] for result in results if isinstance(result["time"], float)), seconds


BENCHMARKS = [dedispersion]
